"""The description of the API, as OpenAPI 3.1: the routes, and the types of the app's workflows, deferreds and channels.

1. The description is made from what the code declares. Fields are described under their aliases, in both directions, as
   callers send and receive them.
2. Each workflow, deferred and channel has a path of its own. A path can't carry a name with a slash. For such a name,
   use the general path with the name in the query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from pydantic import TypeAdapter

from engine.boundary.addresses import api_address
from engine.boundary.answers import Request, Response, answered, check_query
from engine.boundary.runtime import Runtime
from engine.boundary.schemas import schema_of
from engine.boundary.shapes import (
    CountsShape,
    ExecutionShape,
    FamilyShape,
    HealthShape,
    HistoryShape,
    ListShape,
    ProblemShape,
    StepsShape,
    TokenShape,
)
from engine.core.declarations import MAX_REASON
from engine.core.registry import Registry
from engine.values.codec import Codec

OPENAPI = "3.1.0"
_SHAPES = (
    ExecutionShape,
    ListShape,
    CountsShape,
    HealthShape,
    HistoryShape,
    StepsShape,
    FamilyShape,
    TokenShape,
    ProblemShape,
)
_REFUSALS = {
    400: "The request is not valid. `detail` says why.",
    401: "The key is missing or wrong. With sign-in: nobody has signed in.",
    403: "With sign-in: the caller doesn't have permission.",
    404: "The workflow, execution, deferred or channel doesn't exist.",
    409: "The request conflicts with something that happened earlier. `detail` says with what.",
    413: "The body is too large.",
    422: "The body doesn't fit the declared type. `fields` lists the fields at fault.",
    500: "The stored execution can't be read.",
    503: "The store can't be reached. Try again after the seconds in `Retry-After`.",
}
_FILTER = ("q", "A filter, as in `workflow:fulfil status:running`.", {"type": "string", "maxLength": 1000})
_WAIT = (
    "wait",
    "How many seconds to wait for the end of the execution.",
    {"type": "number", "minimum": 0, "maximum": 200},
)
_LIMIT = ("limit", "The most entries to return.", {"type": "integer", "minimum": 1})
_CONTINUATION = ("continuation", "The `continuation` of the previous page.", {"type": "string"})
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Repeating the request with the same key has no further effect.",
}


@dataclass(frozen=True)
class _Operation:
    method: Literal["get", "post", "delete"]
    path: str
    id: str
    summary: str
    answers: Mapping[int, str | None]
    """Statuses, and the shapes of their bodies."""
    query: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    takes_key: bool = False
    body: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    is_open: bool = False
    problems: tuple[int, ...] = (400, 401, 403, 404, 500, 503)


async def openapi(runtime: Runtime, request: Request) -> Response:
    """GET openapi.json: describe this app's API."""

    async def work() -> Response:
        check_query(request, {})
        described = describe_api(runtime.registry, api_address(request, runtime.settings))
        return Response(200, json.dumps(described, ensure_ascii=False), {"Content-Type": "application/json"})

    return await answered(work)


def describe_api(registry: Registry, address: str) -> dict[str, Any]:
    """The description of an API at `address`."""
    schemas = _Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for operation in [*_general(), *_typed(registry, schemas)]:
        paths.setdefault(f"/{operation.path}", {})[operation.method] = _described(operation)
    _, shapes = TypeAdapter.json_schemas(
        [(shape.__name__, "serialization", TypeAdapter(shape)) for shape in _SHAPES],
        ref_template="#/components/schemas/{model}",
    )
    return {
        "openapi": OPENAPI,
        "info": {"title": "Durable workflows", "version": "1", "description": "Start, see and steer executions."},
        "servers": [{"url": address}],
        "security": [{"key": []}, {"signedIn": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "x-functions-key"},
                "signedIn": {"type": "http", "scheme": "bearer"},
            },
            "schemas": shapes["$defs"] | schemas.found,
        },
    }


class _Schemas:
    """Schemas of the app's own types. The parts of each schema have names of their own."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def add(self, name: str, codec: Codec, mode: Literal["validation", "serialization"]) -> dict[str, Any]:
        """Add the schema of the values that `codec` reads or writes, and return a reference to the schema."""
        own = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)
        schema = schema_of(codec, f"#/components/schemas/{own}.{{model}}", mode)
        for part, of in schema.pop("$defs", {}).items():
            self.found[f"{own}.{part}"] = of
        self.found[own] = schema
        return {"$ref": f"#/components/schemas/{own}"}


def _general() -> Iterable[_Operation]:
    one = "executions/{id}"
    execution: Mapping[int, str | None] = {200: "ExecutionShape"}
    late = (400, 401, 403, 404, 409, 500, 503)
    given = (*late, 413, 422)
    any_value: dict[str, Any] = {}
    reason = {"type": ["object", "null"], "properties": {"reason": {"type": "string"}}, "additionalProperties": False}
    pending = ("pending", "Whether to list what the execution waits for.", {"type": "boolean"})
    listed = (
        _FILTER,
        ("workflow", "The workflow's name.", {"type": "string"}),
        ("status", "Whether executions run or have ended.", {"enum": ["running", "complete"]}),
        ("outcome", "How executions ended.", {"enum": ["completed", "failed", "interrupted", "terminated"]}),
        ("stuck", "Whether executions are suspended with a cause.", {"enum": ["true", "false"]}),
        _LIMIT,
        _CONTINUATION,
    )
    large = (
        "Which values to show: `brief` up to 256 characters, `short` up to 4,096, `full` all. Others show their size."
    )
    values = ("values", large, {"enum": ["short", "brief", "full"]})
    state = (
        "state",
        "Which steps to list: `open` lists those that the execution waits for.",
        {"enum": ["all", "open"]},
    )
    named = (("name", "The whole name, if the path can't carry the name.", {"type": "string"}),)
    yield _Operation("get", "executions", "list", "List executions, the newest first", {200: "ListShape"}, listed)
    yield _Operation("get", "counts", "count", "Count executions by state", {200: "CountsShape"}, (_FILTER,))
    yield _Operation("get", "health", "health", "Show whether the app needs attention", {200: "HealthShape"})
    yield _Operation("get", "openapi.json", "describe", "Describe this API", {200: None})
    yield _Operation("get", one, "get", "Show the status of an execution", execution, (_WAIT, pending))
    key = ("key", "The idempotency key.", {"type": "string", "minLength": 1})
    by_key = "workflows/{name}/executions"
    found = "Find an execution by its idempotency key"
    yield _Operation("get", by_key, "getByKey", found, execution, (key, _WAIT, pending))
    yield _Operation("delete", one, "purge", "Delete an execution that has ended", {204: None}, problems=late)
    yield _Operation(
        "post",
        f"{one}/interrupt",
        "interrupt",
        "Ask an execution to stop and clean up",
        {202: "ExecutionShape"},
        body=reason,
        problems=given,
    )
    resumed = "Let a suspended execution run again"
    yield _Operation("post", f"{one}/resume", "resume", resumed, {202: "ExecutionShape"}, problems=late)
    yield _Operation(
        "post",
        f"{one}/retry",
        "retry",
        "Let an execution that failed or was interrupted run again",
        {202: "ExecutionShape"},
        problems=late,
    )
    fork = {
        "type": "object",
        "properties": {
            "from": {"type": "string", "minLength": 1},
            "payload": any_value,
            "results": {"type": "object"},
            "reason": {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_REASON},
        },
        "required": ["from"],
        "additionalProperties": False,
    }
    yield _Operation(
        "post",
        f"{one}/fork",
        "fork",
        "Start a new execution that takes over the history up to a step",
        {202: "ExecutionShape"},
        takes_key=True,
        body=fork,
        problems=given,
    )
    ended = "End an execution at once, without cleanup"
    yield _Operation("post", f"{one}/terminate", "terminate", ended, execution, problems=late)
    pages = (_LIMIT, _CONTINUATION)
    yield _Operation(
        "get", f"{one}/history", "history", "List the events of an execution", {200: "HistoryShape"}, (values, *pages)
    )
    yield _Operation(
        "get", f"{one}/steps", "steps", "List the steps of an execution", {200: "StepsShape"}, (state, *pages)
    )
    family = "Show the parents and children of an execution"
    yield _Operation("get", f"{one}/family", "family", family, {200: "FamilyShape"})
    yield _Operation(
        "post", f"{one}/deferreds/{{name}}", "resolve", "Resolve a deferred", execution, named, body=any_value,
        problems=given,
    )  # fmt: skip
    yield _Operation(
        "post", f"{one}/channels/{{name}}", "send", "Send a value to a channel", {202: "ExecutionShape"}, named,
        takes_key=True, body=any_value, problems=given,
    )  # fmt: skip
    yield _Operation(
        "get", f"{one}/deferreds/{{name}}/token", "token", "Make a token for one deferred", {200: "TokenShape"}, named
    )
    yield _Operation(
        "post", "deferreds/{token}", "resolveByToken", "Resolve the deferred of a token", {204: None}, body=any_value,
        is_open=True, problems=(400, 404, 409, 413, 422, 503),
    )  # fmt: skip


def _typed(registry: Registry, schemas: _Schemas) -> Iterable[_Operation]:
    given = (400, 401, 403, 404, 409, 413, 422, 500, 503)
    for name in registry.names():
        workflow = registry.current(name)
        assert workflow is not None
        body = schemas.add(f"workflow.{name}.payload", workflow.payload, "validation")
        yield _Operation(
            "post",
            f"workflows/{name}",
            f"start.{name}",
            (workflow.function.__doc__ or f"Start {name}").strip().split("\n")[0],
            {200: "ExecutionShape", 202: "ExecutionShape"},
            (_WAIT,),
            takes_key=True,
            body=body if workflow.takes_payload else None,
            result=schemas.add(f"workflow.{name}.result", workflow.result, "serialization"),
            problems=given,
        )
    for name in registry.deferred_names():
        deferred = registry.deferred(name)
        if deferred is not None and "/" not in name:
            value = schemas.add(f"deferred.{name}", deferred.codec, "validation")
            path = f"executions/{{id}}/deferreds/{quote(name, safe='')}"
            answers: Mapping[int, str | None] = {200: "ExecutionShape"}
            yield _Operation("post", path, f"resolve.{name}", f"Resolve {name}", answers, body=value, problems=given)
    for name in registry.channel_names():
        channel = registry.channel(name)
        if channel is not None and "/" not in name:
            value = schemas.add(f"channel.{name}", channel.codec, "validation")
            path = f"executions/{{id}}/channels/{quote(name, safe='')}"
            answers = {202: "ExecutionShape"}
            yield _Operation(
                "post", path, f"send.{name}", f"Send to {name}", answers, takes_key=True, body=value, problems=given
            )


def _described(operation: _Operation) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": text, "schema": schema} for name, text, schema in operation.query
    ]
    if operation.takes_key:
        parameters.append({**_KEY, "schema": {"type": "string", "minLength": 1}})
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            **{str(status): _answer(status, shape, operation) for status, shape in operation.answers.items()},
            **{str(status): _refusal(status) for status in operation.problems},
        },
    }
    if operation.body is not None:
        described["requestBody"] = {"content": {"application/json": {"schema": operation.body}}}
    if operation.is_open:
        described["security"] = []
    if operation.method == "get":
        described["responses"]["304"] = {"description": "Nothing has changed since the `ETag` in `If-None-Match`."}
    return described


def _answer(status: int, shape: str | None, operation: _Operation) -> dict[str, Any]:
    text = {202: "The request is accepted. Poll `Location` for the status.", 204: "The request is done."}.get(
        status, "OK."
    )
    if shape is None:
        return {"description": text}
    schema: dict[str, Any] = {"$ref": f"#/components/schemas/{shape}"}
    if operation.result is not None:
        schema = {"allOf": [schema, {"properties": {"result": operation.result}}]}
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _refusal(status: int) -> dict[str, Any]:
    if status == 401:
        return {"description": _REFUSALS[status]}
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemShape"}}}
    return {"description": _REFUSALS[status], "content": content}
