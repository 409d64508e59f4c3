"""The double itself: HTTP on loopback, and the order of things for each request.

For each request: read it, log it, let the faults act before, check the signature, handle it in one step, let the
faults act after, answer. A fault can end this at either of its moments; the log says what happened.
"""

import uuid
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from . import auth, charges, rules, wire
from .errors import CosmosError
from .faults import Dropped, Faults
from .handlers import LEVELS, Handlers, Response
from .log import Entry, RequestLog
from .request import Request, parse
from .state import Account, Container

# The key that every emulator of Cosmos DB has; it is published and guards nothing:
# https://learn.microsoft.com/azure/cosmos-db/emulator
WELL_KNOWN_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="


class CosmosDouble:
    """A Cosmos DB account in memory.

    `ranges` is the number of physical partitions of a new container, `consistency` the level of the account,
    `page_size` the items in a page when the request names no number, `history` how many commits of a range a
    stale read can go back, `log_limit` how many requests the log remembers (None: all).
    """

    def __init__(
        self,
        *,
        ranges: int = 1,
        key: str = WELL_KNOWN_KEY,
        host: str = "127.0.0.1",
        port: int = 0,
        consistency: str = "Session",
        page_size: int = 1000,
        history: int = 1000,
        log_limit: int | None = None,
    ) -> None:
        if consistency not in LEVELS:
            raise ValueError(f"consistency is one of {', '.join(LEVELS)}")
        self.key = key
        self.faults = Faults()
        self.log = RequestLog(log_limit)
        self.account = Account(ranges, history)
        self._host, self._port = host, port
        self._consistency = consistency
        self._page_size = page_size
        self._handlers: Handlers | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def endpoint(self) -> str:
        """The address for the SDK; known once the double has started."""
        return f"http://{self._host}:{self._port}/"

    async def start(self) -> None:
        app = web.Application(client_max_size=4 * rules.MAX_BYTES)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._handlers = Handlers(self.account, self.endpoint, self._consistency, self._page_size)

    async def stop(self) -> None:
        """Close the port; requests that a fault still holds are abandoned."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    # State, for tests: none of this is a request, none of it is charged or logged.

    def add_container(
        self,
        database: str,
        container: str,
        partition_key: str = "/pk",
        *,
        indexing_policy: dict[str, Any] | None = None,
        default_ttl: int | None = None,
        ranges: int | None = None,
    ) -> Container:
        """Make a container, and its database if need be, as infrastructure would have done beforehand."""
        owner = self.account.databases.get(database) or self.account.add(database)
        body: dict[str, Any] = {
            "id": container,
            "partitionKey": {"paths": [partition_key], "kind": "Hash", "version": 2},
        }
        if indexing_policy is not None:
            body["indexingPolicy"] = indexing_policy
        if default_ttl is not None:
            body["defaultTtl"] = default_ttl
        return owner.add(rules.container_rules(body), ranges or self.account.ranges)

    def container(self, database: str, container: str) -> Container:
        """The state of a container: `documents()`, `split()`, `live_ranges()`."""
        return self.account.database(database).container(container)

    # Requests

    async def _serve(self, http: web.Request) -> web.StreamResponse:
        try:
            raw = await http.read()
        except web.HTTPRequestEntityTooLarge:
            raw = b" " * (rules.MAX_BYTES + 1)
        request = parse(http.method, http.raw_path, http.headers, raw)
        entry = self.log.open(request)
        activity = http.headers.get("x-ms-activity-id") or str(uuid.UUID(int=entry.number))
        try:
            response = await self._answer(request, entry, activity)
        except Dropped:
            if http.transport is not None:
                http.transport.abort()
            return web.Response()
        entry.status, entry.substatus = response.status, response.substatus
        if entry.effect is None:
            entry.charge = response.charge
        return await _cut(http, response, activity) if request.cut else _http(response, activity)

    async def _answer(self, request: Request, entry: Entry, activity: str) -> Response:
        actions = list(self.faults.matching(request))
        entry.faults = [type(action).__name__ for action in actions]
        try:
            for action in actions:
                await action.at("before", request, self.account)
        except CosmosError as error:
            return _refusal(error, activity)
        response = self._handle(request, activity)
        entry.effect, entry.charge, entry.items = response.status, response.charge, response.items
        try:
            for action in actions:
                await action.at("after", request, self.account)
        except CosmosError as error:
            return _refusal(error, activity)
        return response

    def _handle(self, request: Request, activity: str) -> Response:
        assert self._handlers is not None
        try:
            auth.check(
                request.headers,
                method=request.method,
                resource_type=request.resource_type,
                resource_link=request.resource_link,
                key=self.key,
            )
            return self._handlers.handle(request)
        except CosmosError as error:
            return _refusal(error, activity)


def _refusal(error: CosmosError, activity: str) -> Response:
    charge = charges.THROTTLED if error.status == 429 else charges.REFUSED
    body = wire.dumps(error.body(activity)).encode("utf-8", "replace")
    return Response(error.status, body, dict(error.headers), charge, error.substatus)


def _http(response: Response, activity: str) -> web.Response:
    headers = {
        "x-ms-activity-id": activity,
        "x-ms-request-charge": str(response.charge),
        "x-ms-gatewayversion": "version=2.14.0",
        "Cache-Control": "no-store, no-cache",
        **response.headers,
    }
    if response.substatus:
        headers["x-ms-substatus"] = str(response.substatus)
    if response.body is not None:
        headers["Content-Type"] = "application/json"
    return web.Response(status=response.status, body=response.body, headers=headers)


async def _cut(http: web.Request, response: Response, activity: str) -> web.StreamResponse:
    """Send the headers of an answer and half of its body, and close the connection."""
    body = response.body or b"{}"
    answer = web.StreamResponse(status=response.status, headers=_http(response, activity).headers)
    answer.content_length = len(body)
    await answer.prepare(http)
    await answer.write(body[: len(body) // 2])
    if http.transport is not None:
        http.transport.close()
    return answer
