"""HTTP triggers: routes, keys, and the translation between aiohttp's requests and those of azure-functions.

A function gets a request as the platform's host sends it:
1. Header names are in lower case.
2. The values of a repeated header or query key are joined by commas.
3. A query key without a value is left out.
4. A missing body is b"".
5. Only this host sets the headers that name the caller (`devhost.user`).
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

import azure.functions as func
from aiohttp import web

from devhost.functions import Function, HttpTrigger
from devhost.invoke import Invoker
from devhost.routes import RouteTable, Template, decode_path
from devhost.user import StandIn, signed_in

MAX_BODY_BYTES = 100 * 1024 * 1024
"""The platform's own limit. If an app has a lower limit, the app checks it."""
STATUS_PATH = "/admin/host/status"

_UNOWNED_HEADERS = frozenset({"content-length", "transfer-encoding", "connection"})
"""Response headers that the server sets."""

_log = logging.getLogger("devhost")


class HttpFront:
    """Serves the HTTP functions of an app.

    `prefix` comes before every route. Functions that aren't anonymous ask for `key`; None means that no function needs
    a key. If there is a `user`, each caller with the key has signed in as that user. Raises LoadError if a route can't
    be read.
    """

    def __init__(
        self,
        functions: Iterable[Function],
        prefix: str,
        key: str | None,
        invoker: Invoker,
        user: StandIn | None = None,
    ) -> None:
        self._key, self._invoker, self._user = key, invoker, user
        self._stopped = False
        self._routes: RouteTable[tuple[Function, HttpTrigger]] = RouteTable()
        for function in functions:
            if isinstance(function.trigger, HttpTrigger):
                template = Template(full_route(prefix, function.trigger))
                self._routes.add(template, function.trigger.methods, (function, function.trigger))

    def application(self) -> web.Application:
        """An aiohttp application that answers every path."""
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._answer)
        return application

    def stop(self) -> None:
        """Answers every further request with 503."""
        self._stopped = True

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = decode_path(request.rel_url.raw_path)
        if self._stopped:
            return web.Response(status=503)
        if path == STATUS_PATH:
            return web.json_response({"state": "Running"})
        found = self._routes.find(request.method, path)
        if found is None:
            return web.Response(status=404)
        (function, trigger), route_parameters = found
        if not trigger.anonymous and not self._has_key(request):
            return web.Response(status=401)
        body = await request.read()  # answers 413 by itself

        started = time.perf_counter()
        try:
            user = self._user if self._has_key(request) else None
            given = _to_function(request, route_parameters, body, user)
            response = _to_response(function, await self._invoker.call(function, given))
        except Exception:  # noqa: BLE001 - the caller gets an answer, no matter what the function raises
            _log.exception("HTTP function %s failed: %s %s", function.name, request.method, path)
            response = web.Response(status=500)
        milliseconds = (time.perf_counter() - started) * 1000
        _log.info("%s %s -> %d in %.0f ms", request.method, path, response.status, milliseconds)
        return response

    def _has_key(self, request: web.Request) -> bool:
        if self._key is None:
            return True
        given = request.headers.get("x-functions-key") or request.query.get("code", "")
        return hmac.compare_digest(given.encode(), self._key.encode())


def full_route(prefix: str, trigger: HttpTrigger) -> str:
    """The route's template with the prefix of all routes, without slashes at its ends."""
    return "/".join(part for part in (prefix, trigger.route) if part)


def _to_function(
    request: web.Request, route_parameters: Mapping[str, str], body: bytes, user: StandIn | None
) -> func.HttpRequest:
    query = parse_qsl(request.rel_url.raw_query_string)  # drops keys without a value
    return func.HttpRequest(
        method=request.method,
        url=str(request.url),
        headers=signed_in(_joined((name.lower(), value) for name, value in request.headers.items()), user),
        params=_joined(query),
        route_params=route_parameters,
        body=body,
    )


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The values of each name, joined by commas. Names that differ only in case are one name, in the first spelling."""
    spelled: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(spelled.setdefault(name.lower(), name), []).append(value)
    return {name: ",".join(several) for name, several in values.items()}


def _to_response(function: Function, result: object) -> web.Response:
    """The response to a function's result. Raises TypeError for a result that the platform's worker can't encode."""
    if not function.has_return:
        return web.Response(status=204)
    converter: Any = func.get_binding_registry().get("http")  # type: ignore[no-untyped-call]
    try:
        datum = converter.encode(result, expected_type=None)
    except NotImplementedError:
        raise TypeError(f"an HTTP function returns an HttpResponse or text, not {type(result).__name__}") from None
    if datum.type == "string":
        return web.Response(text=datum.value)
    return _from_parts(**datum.value)


def _from_parts(
    status_code: Any, headers: Mapping[str, Any], cookies: Sequence[SimpleCookie] | None, body: Any
) -> web.Response:
    response = web.Response(status=int(status_code.value), body=body.value)
    for name, value in headers.items():
        if name.lower() not in _UNOWNED_HEADERS:
            response.headers[name] = value.value
    for cookie in cookies or ():
        for morsel in cookie.values():
            response.headers.add("Set-Cookie", morsel.OutputString())
    return response
