"""One function for each kind of request: from a `Request` to a `Response`, over the account's state.

Nothing here waits, so a request is handled as one step: no other request sees half of it.
"""

from dataclasses import dataclass, field
from typing import Any

from . import batch, charges, feed, query_pages, rules, wire
from .errors import (
    COLLECTION_RID_MISMATCH,
    CosmosError,
    bad_request,
    not_modelled,
    session_not_available,
)
from .feed import Scope
from .items import Condition, Outcome, Transaction
from .query_pages import Position, Rewrites
from .query_parser import Query
from .request import Request, is_set
from .state import Account, Container, Document, Range

LEVELS = ("Eventual", "Session")


@dataclass(slots=True)
class Response:
    """An answer, before it is HTTP."""

    status: int
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    charge: float = 0.0
    substatus: int = 0
    items: int = 0


@dataclass(slots=True)
class Handlers:
    """The service behind the gateway's front door."""

    account: Account
    endpoint: str
    consistency: str
    page_size: int
    rewrites: Rewrites = field(default_factory=Rewrites)

    def handle(self, request: Request) -> Response:
        """Do what the request asks; raises CosmosError."""
        if request.problem is not None:
            raise request.problem
        if len(request.raw) > rules.MAX_BYTES:
            raise CosmosError(413, "Request size is too large")
        match request.kind, request.operation:
            case "account", "read":
                return Response(200, wire.dumps(self._account()).encode())
            case "database", operation if operation != "unknown":
                return self._database(request)
            case "container", operation if operation != "unknown":
                return self._container(request)
            case "unknown", _:
                raise bad_request(f"Request url is invalid: /{'/'.join(request.segments)}")
            case _, "unknown":
                raise CosmosError(405, f"The method {request.method} is not allowed here.")
        container = self._target(request)
        match request.kind:
            case "pkranges":
                return self._ranges(request, container)
            case "item":
                return self._item(request, container)
            case "batch":
                return self._batch(request, container)
            case "feed":
                return self._feed(request, container)
            case "plan":
                return self._plan(request)
            case _:
                return self._query(request, container)

    # Account, databases, containers

    def _account(self) -> dict[str, Any]:
        here = [{"name": "Loopback", "databaseAccountEndpoint": self.endpoint}]
        return {
            "_self": "",
            "id": "double",
            "_rid": "double",
            "media": "//media/",
            "addresses": "//addresses/",
            "_dbs": "//dbs/",
            "writableLocations": here,
            "readableLocations": here,
            "enableMultipleWriteLocations": False,
            "enablePerPartitionFailoverBehavior": False,
            "userReplicationPolicy": {"minReplicaSetSize": 3, "maxReplicasetSize": 4},
            "userConsistencyPolicy": {"defaultConsistencyLevel": self.consistency},
            "systemReplicationPolicy": {"minReplicaSetSize": 3, "maxReplicasetSize": 4},
            "readPolicy": {"primaryReadCoefficient": 1, "secondaryReadCoefficient": 1},
            "queryEngineConfiguration": wire.dumps({"maxSqlQueryInputLength": 524288}),
        }

    def _database(self, request: Request) -> Response:
        if request.operation == "create":
            body = request.body if isinstance(request.body, dict) else {}
            return _control(201, self.account.add(rules.check_id(body.get("id"))).resource())
        return _control(200, self.account.database(request.database or "").resource())

    def _container(self, request: Request) -> Response:
        database = self.account.database(request.database or "")
        if request.operation == "create":
            made = database.add(rules.container_rules(request.body), self.account.ranges)
            return _control(201, made.resource(), **{"x-ms-alt-content-path": f"dbs/{database.id}"})
        container = database.container(request.container or "")
        etag = {"etag": container.etag, "x-ms-alt-content-path": f"dbs/{database.id}"}
        return _control(200, container.resource(), **etag)

    def _target(self, request: Request) -> Container:
        container = self.account.database(request.database or "").container(request.container or "")
        intended = request.headers.get("x-ms-cosmos-intended-collection-rid")
        if intended not in (None, "", container.rid):
            raise bad_request("The collection's rid is not the intended one.", COLLECTION_RID_MISMATCH)
        return container

    def _ranges(self, request: Request, container: Container) -> Response:
        incremental = request.headers.get("A-IM") is not None
        found, version = feed.ranges(container, request.headers.get("If-None-Match") if incremental else None)
        headers = {"etag": f'"{version}"', "x-ms-alt-content-path": container.path}
        if incremental and not found:
            return Response(304, headers=headers)
        return Response(200, feed.envelope(container, "PartitionKeyRanges", found), headers)

    # Items

    def _item(self, request: Request, container: Container) -> Response:
        key = rules.header_key(request.headers.get("x-ms-documentdb-partitionkey"))
        part = container.range_for(key.epk)
        reading = request.operation == "read"
        lsn = self._view(request, part) if reading else part.lsn
        try:
            transaction = Transaction(container, key, lsn)
            outcome = self._step(request, transaction)
            lsn = lsn if reading else transaction.commit()
        except CosmosError as error:
            error.headers = _where(container, part, lsn) | error.headers
            raise
        headers = _where(container, part, lsn)
        if outcome.etag is not None:
            headers["etag"] = outcome.etag
        document = outcome.document
        if not reading and request.headers.get("Prefer", "").lower() == "return=minimal":
            document = None
        body = wire.dumps(dict(document.body)).encode() if document else None
        return Response(outcome.status, body, headers, outcome.charge)

    def _step(self, request: Request, transaction: Transaction) -> Outcome:
        condition = Condition(request.headers.get("If-Match"))
        item_id = request.id or ""
        match request.operation:
            case "create":
                return transaction.create(request.body)
            case "read":
                return transaction.read(item_id)
            case "replace":
                return transaction.replace(item_id, request.body, condition)
            case "patch":
                return transaction.patch(item_id, request.body, condition)
            case _:
                return transaction.delete(item_id, condition)

    def _batch(self, request: Request, container: Container) -> Response:
        batch.is_atomic(request.headers)
        key = rules.header_key(request.headers.get("x-ms-documentdb-partitionkey"))
        part = container.range_for(key.epk)
        minimal = request.headers.get("Prefer", "").lower() == "return=minimal"
        try:
            self._view(request, part)
            result = batch.run(container, key, request.body, minimal=minimal)
        except CosmosError as error:
            error.headers = _where(container, part, part.lsn) | error.headers
            raise
        return Response(
            result.status,
            wire.dumps(result.results).encode(),
            _where(container, part, part.lsn),
            result.charge,
            result.substatus,
            len(result.results),
        )

    # Queries and feeds

    def _plan(self, request: Request) -> Response:
        text, _ = _query_body(request)
        query, _ = self.rewrites.find(text)
        if query.order and "OrderBy" not in request.headers.get("x-ms-cosmos-supported-query-features", ""):
            raise bad_request(f"Query contained OrderBy, which the calling client does not support. Query: {text}")
        return Response(200, wire.dumps(self.rewrites.plan(text)).encode(), charge=1.0)

    def _query(self, request: Request, container: Container) -> Response:
        text, parameters = _query_body(request)
        query, row = self.rewrites.find(text)
        size = self._page_size(request)
        token = request.headers.get("x-ms-continuation")
        start = query_pages.decode(token, text, parameters) if token else Position()
        part, scope, later = self._scope(request, container, text, query, start)
        query_pages.check_order(query, container.rules.indexing)
        lsn = self._view(request, part)
        documents = self._documents(part, scope, lsn)
        page = query_pages.page(query, parameters, documents, container.rules.indexing, start, size, row)
        headers = _where(container, part, lsn) | {"x-ms-item-count": str(len(page.items))}
        follow = None
        if page.after is not None:
            follow = Position(page.after, start.range_minimum)
        elif later is not None:
            follow = Position(None, later)
        if follow is not None:
            headers["x-ms-continuation"] = query_pages.encode(text, parameters, follow)
        charge = charges.query(page.looked_at, page.bytes_looked_at)
        body = feed.envelope(container, "Documents", page.items)
        return Response(200, body, headers, charge, items=len(page.items))

    def _scope(
        self,
        request: Request,
        container: Container,
        text: str,
        query: Query,
        start: Position,
    ) -> tuple[Range, Scope, str | None]:
        """The range to ask, which part of it, and where the next one begins if the gateway goes on to it."""
        if request.range_id is not None or "x-ms-documentdb-partitionkey" in request.headers:
            return *_part(request, container), None
        if not is_set(request.headers, "x-ms-documentdb-query-enablecrosspartition"):
            raise bad_request(
                "Cross partition query is required but disabled. Please set "
                "x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey, or "
                f"revise your query to avoid this exception. Query: {text}"
            )
        self.rewrites.refuse_across(text, query)
        part = container.range_for(start.range_minimum)
        later = None if part.maximum == "FF" else part.maximum
        return part, Scope(), later

    def _feed(self, request: Request, container: Container) -> Response:
        if request.headers.get("A-IM", "").lower() != "incremental feed":
            raise not_modelled(f"the change feed mode {request.headers.get('A-IM')!r}")
        if request.range_id is None and "x-ms-documentdb-partitionkey" not in request.headers:
            raise bad_request("A change feed read names a partition key range or a partition key.")
        part, scope = _part(request, container)
        lsn = self._view(request, part)
        since, not_before = feed.position(
            request.headers.get("If-None-Match"), request.headers.get("If-Modified-Since"), lsn
        )
        size = self._page_size(request)
        page = feed.changes(part, scope, since, not_before, size, lsn)
        headers = _where(container, part, lsn) | {"etag": f'"{page.lsn}"'}
        charge = charges.feed(len(page.items), page.bytes)
        if not page.items:
            return Response(304, None, headers, charge)
        headers["x-ms-item-count"] = str(len(page.items))
        body = feed.envelope(container, "Documents", page.items)
        return Response(200, body, headers, charge, items=len(page.items))

    def _documents(self, part: Range, scope: Scope, lsn: int) -> list[Document]:
        return [document for document in part.view(lsn).values() if scope.holds(document)]

    # Consistency and pages

    def _view(self, request: Request, part: Range) -> int:
        """The LSN that the answering replica is at: stale if a fault says so, never behind the session token."""
        has_sessions = self.consistency == "Session"
        token = _token_lsn(request.headers.get("x-ms-session-token"), part) if has_sessions else 0
        if token > part.lsn:
            raise session_not_available()
        return max(token, part.lsn - request.behind, part.oldest_view())

    def _page_size(self, request: Request) -> int:
        text = request.headers.get("x-ms-max-item-count", "0")
        try:
            size = int(text)
        except ValueError:
            size = -2
        if size < -1:
            raise bad_request(
                f"The input PageSize {text} is invalid. Ensure to pass a valid page size which must be a positive "
                "integer or -1 for a dynamic page size"
            )
        size = size or self.page_size
        return size if request.page_limit is None else request.page_limit


def _part(request: Request, container: Container) -> tuple[Range, Scope]:
    """The range that a request names, by id or by partition key, and the part of it that is asked for."""
    header = request.headers.get("x-ms-documentdb-partitionkey")
    key = rules.header_key(header) if header is not None else None
    if request.range_id is not None:
        part = container.live_range(request.range_id)
    else:
        assert key is not None
        part = container.range_for(key.epk)
    low = request.headers.get("x-ms-start-epk", "")
    high = request.headers.get("x-ms-end-epk", "FF")
    return part, Scope(key.text if key else None, low, high)


def _token_lsn(token: str | None, part: Range) -> int:
    """The LSN that a session token asks of a range, by its own id or a parent's."""
    highest = 0
    for piece in token.split(",") if token else []:
        range_id, colon, vector = piece.partition(":")
        try:
            lsn = int(vector.split("#")[1])
        except (IndexError, ValueError):
            raise bad_request(f"The session token {token!r} is invalid.") from None
        if colon and range_id in (part.id, *part.parents):
            highest = max(highest, lsn)
    return highest


def _query_body(request: Request) -> tuple[str, dict[str, Any]]:
    body = request.body
    if not isinstance(body, dict) or not isinstance(body.get("query"), str):
        raise bad_request("A query is a JSON object with 'query' and, optionally, 'parameters'.")
    return body["query"], query_pages.bind(body.get("parameters"))


def _where(container: Container, part: Range, lsn: int) -> dict[str, str]:
    """Headers that say which container and range answered, and how far it was."""
    return {
        "x-ms-alt-content-path": container.path,
        "x-ms-content-path": container.rid,
        "x-ms-documentdb-partitionkeyrangeid": part.id,
        "x-ms-session-token": f"{part.id}:-1#{lsn}",
        "lsn": str(lsn),
    }


def _control(status: int, resource: dict[str, Any], **headers: str) -> Response:
    return Response(status, wire.dumps(resource).encode(), headers, charges.CONTROL)
