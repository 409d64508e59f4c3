"""The description of the API, as OpenAPI 3.1: the routes, and the types of the app's workflows, deferreds and channels.

1. It is made from what the code declares. Values from outside are described under their aliases, and results under the
   names of their fields, as the codec reads and writes them.
2. Each workflow, deferred and channel has a path of its own. Names that a path can't carry are reached by the general
   path, with the name in the query.
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
    400: "The request makes no sense: `detail` says why.",
    401: "No key, or a wrong one.",
    403: "With sign-in: the caller may not do that.",
    404: "There is no such workflow, execution, deferred or channel.",
    409: "It came too late: `detail` says what had happened before.",
    413: "The body is too large.",
    422: "The body doesn't fit its type: `fields` says where.",
    500: "The stored execution can't be read.",
    503: "The store can't be reached.",
}
_FILTER = ("q", "A filter, as in `workflow:fulfil status:running`.", {"type": "string", "maxLength": 1000})
_WAIT = ("wait", "Seconds to wait for the end.", {"type": "number", "minimum": 0, "maximum": 200})
_LIMIT = ("limit", "How many at most.", {"type": "integer", "minimum": 1})
_CONTINUATION = ("continuation", "From the answer before.", {"type": "string"})
_KEY = {"name": "Idempotency-Key", "in": "header", "description": "Doing it twice with one key is doing it once."}


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
    """GET openapi.json: the description of this app's API."""

    async def work() -> Response:
        check_query(request, {})
        described = describe_api(runtime.registry, api_address(request, runtime.settings))
        return Response(200, json.dumps(described, ensure_ascii=False), {"Content-Type": "application/json"})

    return await answered(work)


def describe_api(registry: Registry, address: str) -> dict[str, Any]:
    """The description, for an API at that address."""
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
    """Schemas of the app's own types, each with its parts under names of its own."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def add(self, name: str, codec: Codec, mode: Literal["validation", "serialization"]) -> dict[str, Any]:
        """A reference to the schema of what `codec` takes or gives."""
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
    pending = ("pending", "Whether to say what it waits for.", {"type": "boolean"})
    listed = (
        _FILTER,
        ("workflow", "The workflow's name.", {"type": "string"}),
        ("status", "", {"enum": ["running", "complete"]}),
        ("outcome", "", {"enum": ["completed", "failed", "interrupted", "terminated"]}),
        ("stuck", "Whether only those that are suspended with a cause.", {"enum": ["true", "false"]}),
        _LIMIT,
        _CONTINUATION,
    )
    values = ("values", "How large values may be that stand in the list.", {"enum": ["short", "brief", "full"]})
    state = ("state", "Which steps.", {"enum": ["all", "open"]})
    named = (("name", "The whole name, if a path can't carry it.", {"type": "string"}),)
    yield _Operation("get", "executions", "list", "List executions, the newest first", {200: "ListShape"}, listed)
    yield _Operation("get", "counts", "count", "Count executions by state", {200: "CountsShape"}, (_FILTER,))
    yield _Operation("get", "health", "health", "Say whether something wants attention", {200: "HealthShape"})
    yield _Operation("get", "openapi.json", "describe", "Describe this API", {200: None})
    yield _Operation("get", one, "get", "Say how an execution stands", execution, (_WAIT, pending))
    key = ("key", "The idempotency key.", {"type": "string", "minLength": 1})
    by_key = "workflows/{name}/executions"
    yield _Operation("get", by_key, "getByKey", "The execution of a key", execution, (key, _WAIT, pending))
    yield _Operation("delete", one, "purge", "Delete an execution that has ended", {204: None}, problems=late)
    yield _Operation(
        "post", f"{one}/interrupt", "interrupt", "Ask it to stop", {202: "ExecutionShape"}, body=reason, problems=given
    )
    yield _Operation("post", f"{one}/resume", "resume", "Let it run again", {202: "ExecutionShape"}, problems=late)
    yield _Operation(
        "post",
        f"{one}/retry",
        "retry",
        "Open it again, from the step that failed",
        {202: "ExecutionShape"},
        problems=late,
    )
    yield _Operation("post", f"{one}/terminate", "terminate", "End it at once", execution, problems=late)
    pages = (_LIMIT, _CONTINUATION)
    yield _Operation(
        "get", f"{one}/history", "history", "Its events, in order", {200: "HistoryShape"}, (values, *pages)
    )
    yield _Operation("get", f"{one}/steps", "steps", "What its code asked for", {200: "StepsShape"}, (state, *pages))
    yield _Operation("get", f"{one}/family", "family", "Its parents and children", {200: "FamilyShape"})
    yield _Operation(
        "post", f"{one}/deferreds/{{name}}", "resolve", "Resolve a deferred", execution, named, body=any_value,
        problems=given,
    )  # fmt: skip
    yield _Operation(
        "post", f"{one}/channels/{{name}}", "send", "Send a value", {202: "ExecutionShape"}, named, takes_key=True,
        body=any_value, problems=given,
    )  # fmt: skip
    yield _Operation(
        "get", f"{one}/deferreds/{{name}}/token", "token", "A token for one deferred", {200: "TokenShape"}, named
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
        described["responses"]["304"] = {"description": "Unchanged since the `ETag` in `If-None-Match`."}
    return described


def _answer(status: int, shape: str | None, operation: _Operation) -> dict[str, Any]:
    text = {202: "Accepted: ask again at `Location`.", 204: "Done."}.get(status, "Done, or as it stands.")
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
