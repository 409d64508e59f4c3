"""The log of all requests, so that tests can count requests, charges and outcomes."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .request import Request


@dataclass(slots=True)
class Entry:
    """One request and what became of it."""

    number: int
    method: str
    kind: str
    operation: str
    container: str | None
    id: str | None
    partition_key: Any
    range_id: str | None
    headers: dict[str, str]
    status: int | None = None
    """The status that was sent; None when the connection was dropped, or while it is being handled."""
    substatus: int = 0
    effect: int | None = None
    """The status that handling gave; None when a fault kept the request from being handled."""
    charge: float = 0.0
    """What was paid: for the effect if there was one, also when its answer was lost or replaced."""
    items: int = 0
    """Operations of a batch; items of a page."""
    faults: list[str] = field(default_factory=list)
    """Names of the actions that touched it."""


class RequestLog:
    """Entries in the order in which the requests arrived."""

    def __init__(self, limit: int | None = None) -> None:
        self._entries: deque[Entry] = deque(maxlen=limit)
        self._numbers = 0

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> Entry:
        return self._entries[index]

    def select(self, **wanted: Any) -> list[Entry]:
        """Entries whose attributes equal these: `select(kind="item", operation="create", status=409)`."""
        return [e for e in self._entries if all(getattr(e, name) == value for name, value in wanted.items())]

    def count(self, **wanted: Any) -> int:
        return len(self.select(**wanted))

    def charge(self, **wanted: Any) -> float:
        """Request units of the entries."""
        return round(sum(entry.charge for entry in self.select(**wanted)), 2)

    def clear(self) -> None:
        """Forget all entries: begin to count here."""
        self._entries.clear()

    def open(self, request: Request) -> Entry:
        self._numbers += 1
        entry = Entry(
            self._numbers,
            request.method,
            request.kind,
            request.operation,
            request.container,
            request.id,
            request.partition_key,
            request.range_id,
            dict(request.headers),
        )
        self._entries.append(entry)
        return entry
