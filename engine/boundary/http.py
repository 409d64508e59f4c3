"""The HTTP API of the engine: turns requests into calls of the client, and answers and errors into JSON. This module
knows no web framework.

Errors are problem details (RFC 9457), with `title` and `detail` for people, and `fields` for wrong input. Bad input is
refused before anything is stored.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

from engine.boundary import callers
from engine.boundary.addresses import api_address
from engine.boundary.answers import (
    Problem,
    Request,
    Response,
    answered,
    check_query,
    describe,
    invalid,
    members,
    numbered,
)
from engine.boundary.client import Client
from engine.boundary.filters import Asked, FilterError, parse
from engine.boundary.history import pending
from engine.boundary.runtime import Runtime
from engine.boundary.status import Status
from engine.ground import tokens
from engine.ground.errors import (
    AlreadyEnded,
    UnknownDeferred,
    UnknownExecution,
    UnknownWorkflow,
)
from engine.ground.names import execution_id as derived_id
from engine.ground.names import is_workflow_name
from engine.store.base import Filter
from engine.values.codec import MAX_VALUE_BYTES
from engine.values.outcome import OutcomeKind

MAX_WAIT_SECONDS = 200
"""The longest `?wait=`, in seconds. The platform closes an HTTP request after 230 s."""
_LISTED: dict[str, tuple[str, ...]] = {
    "q": (),
    "workflow": (),
    "status": ("running", "complete"),
    "outcome": get_args(OutcomeKind),
    "stuck": ("false", "true"),
    "limit": (),
    "continuation": (),
}
"""The query parameters of a list, with their allowed values. Empty: any value."""
_STATES = {"running": "status:running", "stuck": "is:stuck"} | {
    kind: f"outcome:{kind}" for kind in get_args(OutcomeKind)
}
"""The states that are counted, each with its filter."""


async def start(runtime: Runtime, request: Request, name: str) -> Response:
    """POST workflows/{name}: the body is the payload. An `Idempotency-Key` header overrides the workflow's own key.

    `?wait=SECONDS` drives the execution in this request. The answer is 200 with the result if the execution has ended,
    otherwise 202 with the address to poll.
    """

    async def work() -> Response:
        wait = _wait(request)
        if runtime.registry.current(name) is None:
            raise _no_workflow(runtime, name)
        key = request.headers.get("idempotency-key") or None
        status = await runtime.client.start_json(name, _json_text(request), key=key, drive=bool(wait))
        if wait and not status.is_complete:
            status = await runtime.client.wait(status.execution_id, wait)
        return _answer(runtime, request, status, 200 if status.is_complete else 202)

    return await answered(work)


async def poll(runtime: Runtime, request: Request, execution_id: str) -> Response:
    """GET executions/{id}: the status. `?wait=SECONDS` delays the answer until the execution has ended, for so long at
    most. `?pending=true` adds what the execution waits for now."""

    return await answered(lambda: _poll(runtime, request, execution_id))


async def poll_by_key(runtime: Runtime, request: Request, name: str) -> Response:
    """GET workflows/{name}/executions?key=…: as `poll`, for the execution of this workflow with this idempotency key.
    404 if there is none."""

    async def work() -> Response:
        check_query(request, {"key": (), "wait": (), "pending": ("false", "true")})
        key = request.query.get("key", "")
        if not key:
            raise invalid("the parameter `key` is missing: give the idempotency key, as in ?key=order-7")
        if not is_workflow_name(name):  # an id is made of both: `a-b` with the key `c` would be `a` with the key `b-c`
            raise _no_workflow(runtime, name)
        try:
            return await _poll(runtime, request, derived_id(name, key))
        except UnknownExecution:
            if runtime.registry.current(name) is None:
                raise _no_workflow(runtime, name) from None
            raise UnknownExecution(f"no execution of workflow {name} has the idempotency key {key[:200]!r}") from None

    return await answered(work)


async def _poll(runtime: Runtime, request: Request, execution_id: str) -> Response:
    wait, client = _wait(request), runtime.client
    status = await client.wait(execution_id, wait) if wait else await client.status(execution_id)
    more = {} if request.query.get("pending", "false") == "false" else await pending(runtime, execution_id)
    return _answer(runtime, request, status, 200, more)


async def interrupt(runtime: Runtime, request: Request, execution_id: str) -> Response:
    """POST executions/{id}/interrupt: 202 if the interrupt is accepted (the execution will end as interrupted), 409 if
    it came too late. The body may be {"reason": "…"}. The status shows the reason, and the workflow sees it."""

    async def work() -> Response:
        given = json.loads(_json_text(request).strip() or "null")
        given = {} if given is None else given
        if not isinstance(given, dict) or given.keys() - {"reason"}:
            raise invalid('the body of an interrupt is empty, or {"reason": "…"}')
        by = callers.name_of_current()
        status = await runtime.client.interrupt(execution_id, reason=given.get("reason"), by=by)
        if status.is_complete and not status.interrupted:
            raise AlreadyEnded(f"the interrupt came too late: execution {execution_id} {_ended(status)}")
        return _answer(runtime, request, status, 202)

    return await answered(work)


async def resume(runtime: Runtime, request: Request, execution_id: str) -> Response:
    """POST executions/{id}/resume: let a suspended execution run again. 409 if it has ended."""
    return await answered(lambda: _with(runtime, request, lambda client: client.resume(execution_id), 202))


async def retry(runtime: Runtime, request: Request, execution_id: str) -> Response:
    """POST executions/{id}/retry: let an execution that failed or was interrupted run again. 409 if it can't."""
    return await answered(lambda: _with(runtime, request, lambda client: client.retry(execution_id), 202))


async def fork(runtime: Runtime, request: Request, execution_id: str) -> Response:
    """POST executions/{id}/fork: start a new execution that takes over the history up to a step. The body is
    {"from": "STEP", "payload": …, "results": {"STEP": …}, "reason": "…"}. Without a payload, the fork has that of the
    original. `results` are other results for earlier steps. An `Idempotency-Key` header is the fork's key. 409 if the
    execution can't be forked there."""

    async def work(client: Client) -> Status:
        text = _json_text(request)
        given = json.loads(text.strip() or "null")
        if not isinstance(given, dict) or given.keys() - {"from", "payload", "results", "reason"}:
            raise invalid('the body of a fork is {"from": "STEP", "payload": …, "results": {"STEP": …}, "reason": "…"}')
        if not isinstance(given.get("from"), str) or not isinstance(given.get("results", {}), dict):
            raise invalid('in the body of a fork, "from" is the name of a step, and "results" is an object')
        texts, key = members(text), request.headers.get("idempotency-key") or None
        payload, results = texts.get("payload"), members(texts.get("results", "{}"))
        why, by = given.get("reason"), callers.name_of_current()
        return await client.fork_json(execution_id, given["from"], payload, results=results, key=key, reason=why, by=by)

    return await answered(lambda: _with(runtime, request, work, 202))


async def terminate(runtime: Runtime, request: Request, execution_id: str) -> Response:
    """POST executions/{id}/terminate: end an execution at once, and run nothing. 409 if it had ended before."""
    return await answered(lambda: _with(runtime, request, lambda client: client.terminate(execution_id)))


async def purge(runtime: Runtime, execution_id: str) -> Response:
    """DELETE executions/{id}: delete all documents of an execution that has ended. 409 while it runs."""

    async def work() -> Response:
        await runtime.client.purge(execution_id)
        return Response(204, "", {"Content-Type": "application/json"})

    return await answered(work)


async def list_executions(runtime: Runtime, request: Request) -> Response:
    """GET executions: a list, the newest first. `?q=` is a filter (see `engine.boundary.filters`). So are `?workflow=`,
    `?status=running|complete`, `?outcome=` and `?stuck=true` (suspended with a cause). `?limit=` is the most executions
    of one answer, and `?continuation=` comes from the answer before."""

    async def work() -> Response:
        query = request.query
        check_query(request, _LISTED)
        limit = numbered(request, "limit", 50, 500)
        stuck = query.get("stuck") == "true"
        asked = filtered(runtime, request)
        plain = Filter(query.get("workflow"), query.get("status"), query.get("outcome"), stuck)
        filter = replace(plain, conditions=asked.filter.conditions)
        if not asked.is_bounded and plain == Filter():
            raise invalid(too_slow(asked))
        page = await runtime.client.list(filter, limit, _from_url(query.get("continuation")))
        described = [describe(status, runtime.registry) for status in page.executions]
        body: dict[str, Any] = {"executions": described}
        if asked.slow:
            body["slow"] = list(asked.slow)
        if page.continuation:
            body["continuation"] = _for_url(page.continuation)
        return Response(200, json.dumps(body, ensure_ascii=False), {"Content-Type": "application/json"})

    return await answered(work)


async def count_executions(runtime: Runtime, request: Request) -> Response:
    """GET counts: how many of the executions that match `?q=` are in each state."""

    async def work() -> Response:
        check_query(request, {"q": ()})
        asked = filtered(runtime, request)
        if asked.slow:
            raise invalid(f"counts can't filter by {', '.join(asked.slow)}, because no index serves these fields")
        counted = await asyncio.gather(*(_count(runtime, asked, state) for state in _STATES))
        return Response(200, json.dumps(dict(zip(_STATES, counted, strict=True))), {"Content-Type": "application/json"})

    return await answered(work)


async def _count(runtime: Runtime, asked: Asked, state: str) -> int:
    mine = parse(_STATES[state], runtime.clock.now()).filter.conditions
    return await runtime.store.total(Filter(conditions=(*asked.filter.conditions, *mine)))


def filtered(runtime: Runtime, request: Request) -> Asked:
    """The filter in `?q=`. Raises Problem."""
    try:
        return parse(request.query.get("q", ""), runtime.clock.now())
    except FilterError as error:
        raise Problem(400, "The filter can't be read", str(error), position=error.position) from None


def too_slow(asked: Asked) -> str:
    """The message for a filter that would read every execution."""
    fields = ", ".join(asked.slow)
    return f"no index serves {fields}: narrow the filter by workflow:, status:, outcome: or created> as well"


async def health(runtime: Runtime) -> Response:
    """GET health: 200 with `ok`, or with `attention` if something is late or waits for a person. 503 if the store can't
    be reached."""

    async def work() -> Response:
        found = await runtime.client.health()
        body = {
            "status": "ok" if found.is_well else "attention",
            "overdueSeconds": round(found.overdue.total_seconds(), 1),
            "stuck": dict(found.stuck),
            "leftAlone": dict(found.left_alone),
            "unreadable": dict(found.unreadable),
        }
        return Response(200, json.dumps(body), {"Content-Type": "application/json"})

    return await answered(work)


async def send(runtime: Runtime, request: Request, execution_id: str, name: str) -> Response:
    """POST executions/{id}/channels/{name}: the body is one more value. With an `Idempotency-Key` header, sending the
    value again changes nothing."""

    async def work(client: Client) -> Status:
        key = request.headers.get("idempotency-key") or None
        return await client.send_json(execution_id, _named(request, name), _json_text(request), key=key)

    return await answered(lambda: _with(runtime, request, work, 202))


async def resolve_deferred(runtime: Runtime, request: Request, execution_id: str, name: str) -> Response:
    """POST executions/{id}/deferreds/{name}: the body is the value. The same value again is a success. Another value
    gets a 409 that shows the first."""

    async def work(client: Client) -> Status:
        return await client.resolve_json(execution_id, _named(request, name), _json_text(request))

    return await answered(lambda: _with(runtime, request, work))


async def deferred_token(runtime: Runtime, request: Request, execution_id: str, name: str) -> Response:
    """GET executions/{id}/deferreds/{name}/token: a signed token for this deferred, and the address at which any holder
    of the token may use it."""

    async def work() -> Response:
        keys = _signing_keys(runtime)
        status = await runtime.client.status(execution_id)
        deferred = _named(request, name)
        if runtime.registry.deferred(deferred) is None:
            raise UnknownDeferred(f"no deferred is named {deferred!r}")
        token = tokens.sign(tokens.encode(tokens.Target(status.workflow, execution_id, deferred)), keys)
        body = {"token": token, "url": f"{api_address(request, runtime.settings)}/deferreds/{token}"}
        return Response(200, json.dumps(body), {"Content-Type": "application/json"})

    return await answered(work)


async def resolve_by_token(runtime: Runtime, request: Request, token: str) -> Response:
    """POST deferreds/{token}: resolve the deferred that a signed token names. Any holder of the token may do so."""

    async def work() -> Response:
        target = tokens.verify(token, _signing_keys(runtime))
        await runtime.client.resolve_json(target.execution_id, target.deferred, _json_text(request))
        return Response(204, "", {"Content-Type": "application/json"})

    return await answered(work)


def _named(request: Request, in_path: str) -> str:
    """The name of a deferred or channel, from `?name=` or from the path. The platform doesn't decode `%2F` in a path,
    so `a%2Fb` could mean `a/b` or itself. Such a name must come in the query."""
    if "name" in request.query:
        return request.query["name"]
    if re.search("%2f|/", in_path, re.IGNORECASE):
        detail = (
            f"the name {in_path[:80]!r} holds a slash, which a path can't carry: put `-` in its place in the path, and "
            "send the name in the query, as ?name=vote%5Ba%2Fb%5D"
        )
        raise Problem(400, "The request is not valid", detail)
    return in_path


def _no_workflow(runtime: Runtime, name: str) -> UnknownWorkflow:
    return UnknownWorkflow(f"no workflow is named {name!r}; there are: {', '.join(runtime.registry.names())}")


def _signing_keys(runtime: Runtime) -> tuple[str, ...]:
    if not runtime.settings.signing_keys:
        raise Problem(404, "No signed tokens", "this app has no ENGINE_SIGNING_KEY: it can't make or accept tokens")
    return runtime.settings.signing_keys


async def _with(
    runtime: Runtime, request: Request, work: Callable[[Client], Awaitable[Status]], code: int = 200
) -> Response:
    return _answer(runtime, request, await work(runtime.client), code)


def _for_url(continuation: str) -> str:
    return base64.urlsafe_b64encode(continuation.encode()).decode().rstrip("=")


def _from_url(continuation: str | None) -> str | None:
    if continuation is None:
        return None
    try:
        return base64.b64decode(continuation + "=" * (-len(continuation) % 4), altchars=b"-_", validate=True).decode()
    except ValueError:
        raise Problem(
            400, "The request is not valid", "the continuation isn't one that a previous page returned"
        ) from None


def _answer(
    runtime: Runtime, request: Request, status: Status, code: int, more: Mapping[str, Any] | None = None
) -> Response:
    location = f"{api_address(request, runtime.settings)}/executions/{status.execution_id}"
    headers = {"Content-Type": "application/json"}
    if code == 202:
        headers |= {"Location": location, "Retry-After": "1"}
    body = describe(status, runtime.registry) | dict(more or {}) | {"links": _links(location)}
    return Response(code, json.dumps(body, ensure_ascii=False), headers)


def _links(location: str) -> dict[str, str]:
    return {
        "self": location,
        "pending": f"{location}?pending=true",
        "history": f"{location}/history",
        "steps": f"{location}/steps",
        "family": f"{location}/family",
        "interrupt": f"{location}/interrupt",
        "resume": f"{location}/resume",
        "retry": f"{location}/retry",
        "fork": f"{location}/fork",
        "terminate": f"{location}/terminate",
        "deferreds": f"{location}/deferreds/{{name}}",
        "channels": f"{location}/channels/{{name}}",
    }


def _ended(status: Status) -> str:
    return f"has ended as {status.outcome}"


def _wait(request: Request) -> timedelta | None:
    text = request.query.get("wait")
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        raise Problem(
            400,
            "The request is not valid",
            f"wait must be a number of seconds from 0 to {MAX_WAIT_SECONDS}, not {text!r}",
        )
    return timedelta(seconds=seconds)


def _json_text(request: Request) -> str:
    if len(request.body) > MAX_VALUE_BYTES:
        raise Problem(
            413, "The body is too large", f"it has {len(request.body):,} bytes; the limit is {MAX_VALUE_BYTES:,}"
        )
    try:
        text = request.body.decode("utf-8")
        if text.strip():
            json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "The body is not JSON", str(error)) from None
    return text


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
