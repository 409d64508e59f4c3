"""What the engine asks of a store, in the engine's words.

Promises of every store:
1. Documents of one partition change atomically within one call; a call that raised Conflict, Taken or Missing changed
   nothing. After Unavailable the change may have happened or not.
2. `replace` and `commit` succeed only if the exec document is the version that was read (its etag). `create` and
   `append` succeed only where no document stands.
3. Conflict and Taken mean another writer. A store that sends a write again after a lost answer recognises its own
   first try by the document's `writeId`, and reports success.
4. What is returned carries the new etag. A read in the same store object sees the writes made through it.
5. Reads may be old, writes never are: nothing is decided by a read alone.
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
from engine.store.documents import EXEC, INPUT, OUTPUT, Chunk, Document, Execution, InboxItem, Large, Record
from engine.store.feed import ChangeFeed

R = TypeVar("R", bound=Record)

MAX_READS = 6
"""Reads that may be older than what is known to exist, before it counts as gone."""
_INBOX = ("deferred::", "child::", "channel::")
_log = logging.getLogger("engine")


@dataclass(frozen=True)
class Loaded:
    """What an execution's partition holds beside the exec document."""

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


class Store(Protocol):
    """The durable edge of the engine."""

    @property
    def resend_window(self) -> timedelta:
        """How long a call may go on: what was asked at its beginning may happen once more at its end, if the answer to
        a first try was lost and what that had written is gone."""
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
        """Set `interrupted` on a running execution that isn't yet: its `wake` grows, its `dueAt` becomes `now`.
        Returns the execution as it stands after that, also when there was nothing to do. Raises Missing."""
        ...

    async def due(self, now: datetime, limit: int, continuation: str | None = None) -> Page:
        """Executions whose `dueAt` has passed, the longest overdue first."""
        ...

    async def list(self, filter: Filter, limit: int, continuation: str | None = None) -> Page:
        """Executions, the newest first."""
        ...

    async def purge(self, execution: Execution) -> None:
        """Delete all documents of a complete execution, the exec document last. Raises Conflict, Missing."""
        ...

    def change_feed(self) -> ChangeFeed:
        """The feed of changed documents, for a host of ours."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


async def wait_for_replica(clock: Clock, reads: int) -> None:
    """Give a replica time to catch up, after so many reads that were too old."""
    await clock.wait(asyncio.Event(), min(0.05 * 2**reads, 1.0))


def sort_documents(documents: Iterable[Document]) -> Loaded:
    """The documents of a partition, but for exec, by what they are; the chunks in order. Raises DecodingError for one
    that can't be read."""
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
    """The exec documents among `documents`. What is none, or not to be read, is reported and left out."""
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
