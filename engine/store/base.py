"""The interface of a store: what the engine needs from it.

Every store promises:
1. A call changes the documents of one partition atomically. A call that raises Conflict, Taken or Missing has changed
   nothing. After Unavailable nobody knows whether the change happened.
2. `replace` and `commit` succeed only if the stored exec document still has the etag that was read. `create` and
   `append` succeed only if no document has that id.
3. Conflict and Taken mean that another writer came first. A store that repeats a write after a lost answer recognises
   its own first try by the document's `writeId`, and reports success.
4. Returned executions carry the new etag. A read through a store object sees the writes made through that object.
5. A read may return an old version. A write never succeeds against an old version. So nothing is decided by a read
   alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from pydantic import ValidationError

from engine.ground.clock import Clock
from engine.ground.errors import DecodingError
from engine.store.conditions import Condition
from engine.store.documents import EXEC, INPUT, OUTPUT, Chunk, Document, Execution, InboxItem, Large, Record
from engine.store.feed import ChangeFeed

R = TypeVar("R", bound=Record)

MAX_READS = 6
"""Reads that may lack a document which is known to exist, before the document counts as deleted."""
_INBOX = ("deferred::", "child::", "channel::")
_log = logging.getLogger("engine")


@dataclass(frozen=True)
class Loaded:
    """All documents of an execution's partition but the exec document."""

    chunks: list[Chunk] = field(default_factory=list)
    inbox: list[InboxItem] = field(default_factory=list)
    input: Large | None = None
    output: Large | None = None


@dataclass(frozen=True)
class Page:
    """A page of executions, and the continuation for the next one (None: there is none)."""

    executions: list[Execution]
    continuation: str | None = None


@dataclass(frozen=True)
class Filter:
    """Which executions to list. None means any."""

    workflow: str | None = None
    status: str | None = None
    outcome: str | None = None
    suspended_with_cause: bool = False
    conditions: tuple[Condition, ...] = ()
    """Further ones. All must hold."""


class Store(Protocol):
    """The durable edge of the engine."""

    @property
    def resend_window(self) -> timedelta:
        """How long one call may repeat its request. If the first answer is lost, and the written document is purged
        meanwhile, the last repetition takes effect a second time."""
        ...

    async def create(self, execution: Execution, input: Large | None = None) -> Execution:
        """Store a new execution. Raises Taken if there is one with its id."""
        ...

    async def read(self, execution_id: str) -> Execution:
        """The exec document. Raises Missing."""
        ...

    async def load(self, execution_id: str, from_chunk: int = 0) -> Loaded:
        """All other documents of the execution; of the history, the chunks from that number on, in order.
        Raises DecodingError."""
        ...

    async def replace(self, execution: Execution) -> Execution:
        """Write a new version of the exec document. Raises Conflict, Missing."""
        ...

    async def append(self, chunk: Chunk) -> None:
        """Add a chunk to the history. Raises Taken if one with its number exists."""
        ...

    async def commit(self, execution: Execution, chunk: Chunk | None = None, output: Large | None = None) -> Execution:
        """`replace`, and the creation of the other documents, in one transaction. Raises Conflict, Taken, Missing."""
        ...

    async def signal(self, item: InboxItem, now: datetime) -> Execution:
        """Add to the inbox of a running execution: its `wake` and `inboxCount` grow, its `dueAt` becomes `now`.

        Raises Taken if that item exists, Conflict if the execution is complete, Missing if there is none.
        """
        ...

    async def read_inbox(self, execution_id: str, id: str) -> InboxItem:
        """One inbox document. Raises Missing."""
        ...

    async def interrupt(self, execution_id: str, now: datetime) -> Execution:
        """Set `interrupted` on a running execution: its `wake` grows, its `dueAt` becomes `now`. An execution that is
        interrupted or complete already isn't changed. Returns the execution as it then stands. Raises Missing."""
        ...

    async def due(self, now: datetime, limit: int, continuation: str | None = None) -> Page:
        """Executions whose `dueAt` has passed, the longest overdue first."""
        ...

    async def list(self, filter: Filter, limit: int, continuation: str | None = None) -> Page:
        """Executions, the newest first."""
        ...

    async def total(self, filter: Filter) -> int:
        """How many executions there are. They may change meanwhile."""
        ...

    async def purge(self, execution: Execution) -> None:
        """Delete all documents of a complete execution, the exec document last. Raises Conflict, Missing."""
        ...

    def change_feed(self) -> ChangeFeed:
        """The feed of changed documents, for devhost."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


async def wait_for_replica(clock: Clock, reads: int) -> None:
    """Wait for a replica to catch up. `reads` is the number of stale reads so far; the pause grows with it."""
    await clock.wait(asyncio.Event(), min(0.05 * 2**reads, 1.0))


def sort_documents(documents: Iterable[Document]) -> Loaded:
    """The documents of a partition, except exec, sorted by kind; the chunks are in order. Raises DecodingError for a
    document that can't be read."""
    by_id = {document["id"]: document for document in documents}
    chunks = [_parsed(Chunk, d) for id, d in by_id.items() if id.startswith("history::")]
    return Loaded(
        chunks=sorted(chunks, key=lambda chunk: chunk.number),
        inbox=[_parsed(InboxItem, d) for id, d in by_id.items() if id.startswith(_INBOX)],
        input=_parsed(Large, by_id[INPUT]) if INPUT in by_id else None,
        output=_parsed(Large, by_id[OUTPUT]) if OUTPUT in by_id else None,
    )


def _parsed(kind: type[R], document: Document) -> R:
    try:
        return kind.from_document(document)
    except ValidationError as error:
        raise DecodingError(f"document {document['id']} can't be read: {_problems(error)}") from error


def _problems(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])


def parse_executions(documents: Iterable[Document]) -> list[Execution]:
    """The exec documents among `documents`. One that can't be read is logged and left out."""
    executions = []
    for document in documents:
        if document.get("id") != EXEC:
            continue
        try:
            executions.append(Execution.from_document(document))
        except ValidationError as error:
            _log.error(
                "exec document of partition %r can't be read and is left alone: %s",
                document.get("executionId"),
                _problems(error),
            )
    return executions
