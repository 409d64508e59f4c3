"""Running a query over documents, one page at a time, and the plan for a client that merges several ranges.

1. A page has at most `size` items (-1: as many as fit) and 4 MB.
2. A continuation token says after which item to go on. It belongs to its query: with another query it is a 400.
3. Order without ORDER BY is the order of hashes: not the order of insertion, and not to be relied on.
4. The gateway passes a plain filter or projection from range to range. An ORDER BY or a COUNT it refuses with 400 and
   sub-status 1004, and the plan in `additionalErrorInfo`, with one range too
   (https://learn.microsoft.com/rest/api/cosmos-db/querying-cosmosdb-resources-using-the-rest-api, and the recorded
   exchanges in docs/COSMOS.md of the public repository xo/dbimp). The client then asks each range with a rewritten
   query whose rows it can merge. A rewritten query is only known here because a plan handed it out.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any

from . import wire
from .epk import UNDEFINED
from .errors import CROSS_PARTITION_QUERY_NOT_SERVABLE, CosmosError, bad_request
from .indexing import IndexingPolicy
from .query_eval import Scope, is_true, resolve, sort_value
from .query_parser import Both, Compare, Either, Expression, Function, Not, Path, Query, parse
from .state import Document

MAX_PAGE_BYTES = 4 * 1024 * 1024
_HEADROOM = 64 * 1024  # for the envelope
_FILTER = "{documentdb-formattableorderbyquery-filter}"

Row = Callable[[Document], Any]
"""From a document to its row in the answer; UNDEFINED for none."""


@dataclass(slots=True)
class Page:
    """A page of an answer. `looked_at` and `bytes_looked_at` are what it is charged for."""

    items: list[Any] = field(default_factory=list)
    after: list[Any] | None = None  # the last item's place; None when the query is done
    looked_at: int = 0
    bytes_looked_at: int = 0


@dataclass(slots=True)
class Position:
    """Where a query goes on."""

    after: list[Any] | None = None
    range_minimum: str = ""


class Rewrites:
    """The rewritten queries that plans have handed out, with how to answer them."""

    def __init__(self) -> None:
        self._known: dict[str, Query] = {}

    def find(self, text: str) -> tuple[Query, Row]:
        """The query and its rows: a rewritten one as handed out, any other as parsed."""
        if text in self._known:
            known = self._known[text]
            return known, _row(known) if known.is_count else _merge_row(known)
        query = parse(text)
        return query, _row(query)

    def plan(self, text: str) -> dict[str, Any]:
        """The query plan, as the gateway gives it."""
        query = parse(text)
        order = query.order
        return {
            "partitionedQueryExecutionInfoVersion": 2,
            "queryInfo": {
                "distinctType": "None",
                "top": None,
                "offset": None,
                "limit": None,
                "orderBy": ["Descending" if order.is_descending else "Ascending"] if order else [],
                "orderByExpressions": [_text(query, order.path)] if order else [],
                "groupByExpressions": [],
                "groupByAliases": [],
                "aggregates": ["Count"] if query.is_count else [],
                "groupByAliasToAggregateType": {},
                "rewrittenQuery": self._rewrite(query) if order or query.is_count else "",
                "hasSelectValue": query.is_value,
                "dCountInfo": None,
                "hasNonStreamingOrderBy": False,
            },
            "queryRanges": [{"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}],
            "hybridSearchQueryInfo": None,
        }

    def refuse_across(self, text: str, query: Query) -> None:
        """Refuse a query that the gateway can't pass from range to range."""
        if query.order is None and not query.is_count:
            return
        raise CosmosError(
            400,
            "The provided cross partition query can not be directly served by the gateway. This is a first chance "
            f"(internal) exception that all newer clients will know how to handle gracefully. Query: {text}",
            substatus=CROSS_PARTITION_QUERY_NOT_SERVABLE,
            extra={"additionalErrorInfo": json.dumps(self.plan(text))},
        )

    def _rewrite(self, query: Query) -> str:
        if query.is_count:
            text = f'SELECT VALUE [{{"item": COUNT(1)}}] FROM {query.alias} {query.where_text}'
            self._known[text] = query
            return text
        assert query.order is not None
        key = _text(query, query.order.path)
        where = f"({query.where_text[len('WHERE') :].strip()}) AND {_FILTER}" if query.where_text else _FILTER
        text = (
            f'SELECT {query.alias}._rid, [{{"item": {key}}}] AS orderByItems, {_payload(query)} AS payload '
            f"FROM {query.alias} WHERE {where} ORDER BY {key}{' DESC' if query.order.is_descending else ''}"
        )
        self._known[text.replace(_FILTER, "true")] = query
        return text


def bind(parameters: Any) -> dict[str, Any]:
    """The parameters of a query body."""
    bound: dict[str, Any] = {}
    for given in parameters or []:
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(name, str) or not name.startswith("@") or name in bound:
            raise bad_request(f"Parameter names should be in the format of symbol '@' and once: {name!r} isn't.")
        bound[name] = given.get("value", UNDEFINED)
    return bound


def check_order(query: Query, indexing: IndexingPolicy) -> None:
    """Refuse an ORDER BY that no index serves."""
    if query.order is not None and not indexing.is_indexed(query.order.path.segments):
        reason = f"The index path corresponding to the specified order-by item is excluded. Query: {query.text}"
        raise CosmosError(400, reason, detail=[{"message": reason}])


def page(
    query: Query,
    parameters: dict[str, Any],
    documents: Iterable[Document],
    indexing: IndexingPolicy,
    position: Position,
    size: int,
    row: Row,
) -> Page:
    """The page of a query's answer that begins at a position."""
    found = [(d, query.where is None or is_true(query.where, Scope(d.body, parameters))) for d in documents]
    if query.where is None or _is_indexed(query.where, indexing):
        found = [(document, matches) for document, matches in found if matches]
    places = sorted(((_place(query, d), d, matches) for d, matches in found), key=_sort_key(query))
    if position.after is not None:
        places = [entry for entry in places if _compare(query, entry[0], position.after) > 0]
    if size == 0 and places:  # a page may be empty and yet not the last
        return Page(after=position.after or [])
    if query.is_count:
        counted, size = sum(matches for _, _, matches in places), sum(document.size for _, document, _ in places)
        return Page([[{"item": counted}]], None, len(places), size)
    result = Page()
    used = 0
    for place, document, matches in places:
        item = row(document) if matches else UNDEFINED
        if item is not UNDEFINED:
            used += wire.size(item) + 1
            if result.items and (len(result.items) == size or used > MAX_PAGE_BYTES - _HEADROOM):
                return result
            result.items.append(item)
        result.looked_at += 1
        result.bytes_looked_at += document.size
        result.after = place
    result.after = None
    return result


def encode(query_text: str, parameters: dict[str, Any], position: Position) -> str:
    """A continuation token."""
    content = [_fingerprint(query_text, parameters), position.after, position.range_minimum]
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


def decode(token: str, query_text: str, parameters: dict[str, Any]) -> Position:
    """The position that a token of this very query stands for."""
    try:
        fingerprint, after, minimum = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError):
        raise bad_request("Invalid Continuation Token") from None
    if fingerprint != _fingerprint(query_text, parameters):
        raise bad_request(f"Invalid Continuation Token: it belongs to another query than: {query_text}")
    return Position(after, minimum)


def _fingerprint(query_text: str, parameters: dict[str, Any]) -> int:
    shown = {name: repr(value) for name, value in parameters.items()}
    return zlib.crc32(json.dumps([query_text, shown], sort_keys=True).encode())


def _row(query: Query) -> Row:
    """What the query's own SELECT makes of a document."""

    def row(document: Document) -> Any:
        if query.columns is None:
            return dict(document.body)
        values = {path.segments[-1]: resolve(path, document.body) for path in query.columns}
        if query.is_value:
            return next(iter(values.values()))
        return {name: value for name, value in values.items() if value is not UNDEFINED}

    return row


def _merge_row(query: Query) -> Row:
    """A row of a rewritten query: what the client needs to merge, beside the query's own row."""
    assert query.order is not None
    order, own = query.order, _row(query)

    def row(document: Document) -> Any:
        value = resolve(order.path, document.body)
        items = [{} if value is UNDEFINED else {"item": value}]
        return {"_rid": document.body["_rid"], "orderByItems": items, "payload": own(document)}

    return row


def _place(query: Query, document: Document) -> list[Any]:
    keys = [sort_value(resolve(query.order.path, document.body))] if query.order else []
    return [*keys, list(document.order)]


def _sort_key(query: Query) -> Callable[[tuple[list[Any], Document, bool]], Any]:
    return cmp_to_key(lambda left, right: _compare(query, left[0], right[0]))


def _compare(query: Query, left: list[Any], right: list[Any]) -> int:
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            sign = 1 if one > other else -1
            return -sign if index == 0 and query.order is not None and query.order.is_descending else sign
    return len(left) - len(right)


def _is_indexed(expression: Expression, indexing: IndexingPolicy) -> bool:
    """Whether the index finds the matches; otherwise the query loads, and pays for, every item."""
    match expression:
        case Both(operands):
            return any(_is_indexed(operand, indexing) for operand in operands)
        case Either(operands) | Function(_, operands):
            return all(_is_indexed(operand, indexing) for operand in operands)
        case Not(operand):
            return _is_indexed(operand, indexing)
        case Compare(_, left, right):
            return _is_indexed(left, indexing) and _is_indexed(right, indexing)
        case Path(segments):
            return indexing.is_indexed(segments)
        case _:
            return True


def _text(query: Query, path: Path) -> str:
    return ".".join([query.alias, *path.segments])


def _payload(query: Query) -> str:
    if query.columns is None:
        return query.alias
    if query.is_value:
        return _text(query, query.columns[0])
    return "{" + ", ".join(f'"{path.segments[-1]}": {_text(query, path)}' for path in query.columns) + "}"
