"""Requests and answers of the HTTP API: problems for people, and executions and errors as JSON.

Errors are problem details (RFC 9457), with `title` and `detail` for people, and `fields` for wrong input.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.boundary.shapes import ErrorShape, ForkedFromShape
from engine.boundary.status import Status
from engine.core.registry import Registry
from engine.ground.clock import isoformat
from engine.ground.errors import (
    AlreadyEnded,
    AlreadyResolved,
    AlreadySent,
    AlreadyStarted,
    ClientError,
    InvalidInput,
    LaterEngine,
    NotEnded,
    NotForked,
    NotReopened,
    StoreError,
    UnknownDeferred,
    UnknownExecution,
    UnknownWorkflow,
    UnreadableExecution,
)
from engine.values.error_records import ErrorRecord
from engine.values.unseen import plain_json

_OF_THE_PLATFORM = {"code", "clientId"}
"""Query parameters in which the Functions host takes a key."""

_MEMBER = re.compile(r'[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*')

_log = logging.getLogger("engine")


@dataclass(frozen=True)
class Request:
    """A request. `url` is the address as the caller sees it. `headers` have lower-case names."""

    url: str
    body: bytes = b""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Response:
    """An answer. `body` is its text, mostly JSON."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Problem(Exception):
    """Refuses a request, with the status and the problem details of the answer. `more` are further fields."""

    def __init__(self, status: int, title: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail, self.more = status, title, detail, more


async def answered(work: Callable[[], Awaitable[Response]]) -> Response:
    """The answer of `work`, or the problem details for the error that `work` raises."""
    try:
        return await work()
    except Problem as error:
        return problem(error.status, error.title, error.detail, **error.more)
    except InvalidInput as error:
        fields = [{"field": name, "problem": what} for name, what in error.fields]
        malformed = any(name in ("executionId", "token") for name, _ in error.fields)
        return problem(400 if malformed else 422, "The input is not valid", str(error), fields=fields)
    except (UnknownWorkflow, UnknownExecution, UnknownDeferred) as error:
        return problem(404, "Not found", str(error))
    except AlreadyStarted as error:
        more: dict[str, Any] = {"executionId": error.execution_id, "differences": list(error.outer_differences)}
        return problem(409, "Already started with another payload", error.outer_message, **more)
    except AlreadySent as error:
        more = {"differences": list(error.outer_differences)}
        return problem(409, "Already sent with another value", error.outer_message, **more)
    except AlreadyResolved as error:
        return problem(409, "Already resolved with another value", str(error), first=json.loads(error.first))
    except AlreadyEnded as error:
        return problem(409, "Already ended", str(error))
    except NotReopened as error:
        return problem(409, "Can't run again", str(error))
    except NotForked as error:
        return problem(409, "Can't be forked", str(error))
    except LaterEngine as error:
        return problem(409, "Written by a later version of the engine", str(error))
    except NotEnded as error:
        return problem(409, "Can't be purged yet", str(error))
    except UnreadableExecution as error:
        return problem(500, "The execution can't be read", str(error))
    except ClientError as error:
        return problem(400, "The request can't be met", str(error))
    except StoreError as error:
        _log.error("the store can't be reached: %s", error)
        return problem(503, "The store can't be reached", "try again in a moment", headers={"Retry-After": "2"})


def problem(status: int, title: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """An answer with problem details. `more` are further fields."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return Response(
        status, json.dumps(body, ensure_ascii=False), {"Content-Type": "application/problem+json", **(headers or {})}
    )


def describe(status: Status, registry: Registry | None = None) -> dict[str, Any]:
    """An execution as the outside sees it, in plain JSON data. What is not there is left out. `registry` knows the type
    of its result."""
    described = {
        "executionId": status.execution_id,
        "workflow": status.workflow,
        "version": status.version,
        "status": status.status,
        "outcome": status.outcome,
        "suspended": status.suspended,
        "interrupted": status.interrupted,
        "interruptReason": status.interrupt_reason,
        "interruptedBy": status.interrupted_by,
        "cause": describe_error(status.cause),
        "error": describe_error(status.error),
        "compensationErrors": [describe_error(error) for error in status.compensation_errors] or None,
        "leftovers": list(status.leftovers) or None,
        "unreadValues": status.unread_values or None,
        "heartbeats": dict(status.heartbeats) or None,
        "tags": status.tags or None,
        "customStatus": status.custom_status,
        "createdAt": isoformat(status.created_at),
        "updatedAt": isoformat(status.updated_at),
        "completedAt": isoformat(status.completed_at) if status.completed_at else None,
        "dueAt": isoformat(status.due_at) if status.due_at else None,
        "leftAlone": status.left_alone,
        "forkedFrom": ForkedFromShape.of(status.forked_from).to_json() if status.forked_from else None,
    }
    described = {name: value for name, value in described.items() if value is not None}
    if status.outcome == "completed":
        described["result"] = _result(status, registry)
    return described


def _result(status: Status, registry: Registry | None) -> Any:
    workflow = registry.find(status.workflow, status.version) if registry is not None else None
    if workflow is None or status.result is None:
        return plain_json(status.result)
    return workflow.result.shown(status.result)


def describe_error(error: ErrorRecord | None) -> dict[str, Any] | None:
    """An error as callers see it: without its traceback."""
    return None if error is None else ErrorShape.of(error).to_json()


def check_query(request: Request, known: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse query parameters that are not `known`, and values that aren't listed for them. Raises Problem."""
    query = request.query
    for name, values in known.items():
        if values and query.get(name, values[0]) not in values:
            raise invalid(f"{name} must be {' or '.join(values)}, not {query[name][:80]!r}")
    if unknown := sorted(query.keys() - known.keys() - _OF_THE_PLATFORM):
        raise invalid(f"{unknown[0][:80]!r} is not one of {', '.join(known) or 'the parameters: it takes none'}")
    for name, text in query.items():
        if text != text.encode("utf-8", "replace").decode():
            raise invalid(f"{name} holds half a character")


def numbered(request: Request, name: str, usual: int, most: int) -> int:
    """The whole number of a query parameter, from 1 to `most`. `usual` if the query lacks it. Raises Problem."""
    text = request.query.get(name, str(usual))
    if not re.fullmatch("[0-9]{1,5}", text) or not 1 <= int(text) <= most:
        raise invalid(f"{name} must be a number from 1 to {most}, not {text[:20]!r}")
    return int(text)


def continued(request: Request) -> int:
    """Where the answer before ended, from its continuation. Raises Problem."""
    text = request.query.get("continuation", "0")
    if not re.fullmatch("[0-9]{1,9}", text):
        raise invalid("the continuation isn't one that a previous page returned")
    return int(text)


def members(text: str) -> dict[str, str]:
    """The members of a JSON object, each with its text as it was sent: no digit of a number is lost. `text` must be the
    JSON text of an object."""
    found, decoder, at = dict[str, str](), json.JSONDecoder(), text.index("{") + 1
    while (member := _MEMBER.match(text, at)) is not None:
        _, at = decoder.raw_decode(text, member.end())
        found[json.loads(member[1])] = text[member.end() : at]
    return found


def etag_of(body: str) -> str:
    """The ETag of an answer."""
    return f'"{hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:32]}"'


def unchanged(request: Request, response: Response) -> Response:
    """The answer to a GET, with its ETag. 304 without a body if the caller already has this version."""
    if response.status != 200:
        return response
    etag = response.headers.get("ETag") or etag_of(response.body)
    headers = {**response.headers, "ETag": etag}
    known = [part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")]
    return Response(304, "", headers) if etag in known or known == ["*"] else Response(200, response.body, headers)


def invalid(detail: str) -> Problem:
    """The problem of a request that makes no sense."""
    return Problem(400, "The request is not valid", detail)
