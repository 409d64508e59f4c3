"""What a request is about: its kind, its operation, and the names in it. No rule of the service is applied here.

| kind | operations |
| --- | --- |
| account | read |
| database, container | create, read |
| pkranges | read |
| item | create, read, replace, patch, delete |
| batch, query, plan, feed | the same word |
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from . import wire
from .errors import CosmosError, bad_request

_ITEM_OPERATIONS = {"GET": "read", "PUT": "replace", "PATCH": "patch", "DELETE": "delete"}


@dataclass(slots=True)
class Request:
    """A request, as faults and the log see it."""

    method: str
    headers: Mapping[str, str]
    raw: bytes
    segments: tuple[str, ...]
    kind: str
    operation: str
    resource_type: str
    body: Any = None
    database: str | None = None
    container: str | None = None
    id: str | None = None
    partition_key: Any = None
    """The value in the partition key header, decoded; None without the header."""
    range_id: str | None = None
    problem: CosmosError | None = None
    """Why the body can't be read; raised when the request is handled."""
    behind: int = field(default=0)
    """Set by `StaleRead`: how many commits behind the answering replica is."""
    page_limit: int | None = field(default=None)
    """Set by `ShortPage`."""
    cut: bool = field(default=False)
    """Set by `Cut`: the answer breaks off."""

    @property
    def resource_link(self) -> str:
        """The link that the signature covers: names as they are."""
        return "/".join(self.segments if len(self.segments) % 2 == 0 else self.segments[:-1])


def parse(method: str, raw_path: str, headers: Mapping[str, str], raw: bytes) -> Request:
    """Read method, path, headers and body; never raises."""
    segments = tuple(unquote(part) for part in raw_path.split("?")[0].split("/") if part)
    kind, operation = _classify(method, segments, headers)
    request = Request(
        method,
        headers,
        raw,
        segments,
        kind,
        operation,
        resource_type="" if not segments else segments[(len(segments) - 1) // 2 * 2],
        database=segments[1] if len(segments) > 1 else None,
        container=segments[3] if len(segments) > 3 else None,
        id=segments[5] if len(segments) > 5 else None,
        partition_key=_first(headers.get("x-ms-documentdb-partitionkey")),
        range_id=headers.get("x-ms-documentdb-partitionkeyrangeid"),
    )
    if raw:
        try:
            request.body = wire.loads(raw)
        except CosmosError as problem:
            request.problem = problem
    elif method in ("POST", "PUT", "PATCH"):
        request.problem = bad_request("The request payload is invalid: it is empty.")
    if kind == "item" and request.id is None and isinstance(request.body, dict):
        found = request.body.get("id")
        request.id = found if isinstance(found, str) else None
    return request


def is_set(headers: Mapping[str, str], name: str) -> bool:
    return headers.get(name, "").lower() == "true"


def _classify(method: str, segments: tuple[str, ...], headers: Mapping[str, str]) -> tuple[str, str]:
    shape = segments[::2]
    whole = len(segments) % 2 == 0
    if not segments:
        return "account", "read" if method == "GET" else "unknown"
    if shape == ("dbs",) or shape == ("dbs", "colls"):
        kind = "database" if len(shape) == 1 else "container"
        operations = {(True, "GET"): "read", (False, "POST"): "create"}
        return kind, operations.get((whole, method), "unknown")
    if shape == ("dbs", "colls", "pkranges") and not whole:
        return "pkranges", "read" if method == "GET" else "unknown"
    if shape == ("dbs", "colls", "docs"):
        if whole:
            return "item", _ITEM_OPERATIONS.get(method, "unknown")
        if method == "POST":
            return _classify_post(headers)
        if method == "GET" and headers.get("A-IM"):
            return "feed", "feed"
        return "item", "unknown"
    return "unknown", "unknown"


def _classify_post(headers: Mapping[str, str]) -> tuple[str, str]:
    if is_set(headers, "x-ms-cosmos-is-batch-request"):
        return "batch", "batch"
    if is_set(headers, "x-ms-cosmos-is-query-plan-request"):
        return "plan", "plan"
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() == "application/query+json":
        return "query", "query"  # it's the content type that tells, whatever x-ms-documentdb-isquery says
    return "item", "unknown" if is_set(headers, "x-ms-documentdb-is-upsert") else "create"


def _first(text: str | None) -> Any:
    try:
        return json.loads(text)[0] if text is not None else None
    except (ValueError, LookupError, TypeError):
        return text
