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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from engine.ground.clock import Clock
from engine.ground.errors import DecodingError, Unreadable
from engine.store.conditions import Condition
from engine.store.documents import (
    CHUNK,
    EXEC,
    INBOX,
    INPUT,
    OUTPUT,
    Chunk,
    Document,
    Execution,
    InboxItem,
    Large,
    Record,
    chunk_id,
)
from engine.store.feed import ChangeFeed
from engine.store.limit_state import LimitState
from engine.values.events import Event, Restarted

R = TypeVar("R", bound=Record)

MAX_READS = 6
"""Reads that may lack a document which is known to exist, before the document counts as deleted."""
DOCUMENTS_AT_A_TIME = 200
"""Documents that are validated before other executions of the process get a turn."""
MAX_DISCARD = 90
"""Documents that one commit deletes. A transaction of Cosmos DB has 100 operations."""
MAX_BESIDE = 90
"""Documents that are created together with an execution."""


@dataclass(frozen=True)
class Loaded:
    """All documents of an execution's partition but the exec document."""

    chunks: list[Chunk] = field(default_factory=list)
    inbox: list[InboxItem] = field(default_factory=list)
    input: Large | None = None
    output: Large | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Documents that can't be read, by id, each with what is wrong. They are not among the others."""

    def check(self, *ids: str) -> None:
        """Raise DecodingError if one of these documents can't be read. None given: if any can't."""
        for id in ids or sorted(self.unreadable):
            if id in self.unreadable:
                raise DecodingError(self.unreadable[id])


@dataclass(frozen=True)
class Page:
    """A page of executions, and the continuation for the next one (None: there is none)."""

    executions: list[Execution]
    continuation: str | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Executions whose exec document can't be read, by id, each with what is wrong. They are passed over."""


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

    async def create(
        self, execution: Execution, input: Large | None = None, beside: Sequence[Chunk | InboxItem] = ()
    ) -> Execution:
        """Store a new execution, its large payload, and what else it begins with (MAX_BESIDE documents at most), in one
        transaction. Raises Taken if one of the documents exists."""
        ...

    async def read(self, execution_id: str) -> Execution:
        """The exec document. Raises Missing, and Unreadable, as does every call that reads an exec document."""
        ...

    async def load(self, execution_id: str, from_chunk: int = 0) -> Loaded:
        """All other documents of the execution; of the history, the chunks from that number on, in order. Documents
        that can't be read are in `unreadable`."""
        ...

    async def replace(self, execution: Execution) -> Execution:
        """Write a new version of the exec document. Raises Conflict, Missing."""
        ...

    async def append(self, chunk: Chunk) -> None:
        """Add a chunk to the history. Raises Taken if one with its number exists."""
        ...

    async def commit(
        self,
        execution: Execution,
        chunk: Chunk | None = None,
        output: Large | None = None,
        discard: Sequence[str] = (),
    ) -> Execution:
        """`replace`, the creation of the other documents and the deletion of those with the ids `discard` (MAX_DISCARD
        at most), in one transaction. Raises Conflict, Taken, Missing."""
        ...

    async def signal(self, item: InboxItem, now: datetime) -> Execution:
        """Add to the inbox of a running execution: its `wake` and `inboxCount` grow, its `dueAt` becomes `now`.

        Raises Taken if that item exists, Conflict if the execution is complete, Missing if there is none.
        """
        ...

    async def read_inbox(self, execution_id: str, id: str) -> InboxItem:
        """One inbox document. Raises Missing, DecodingError."""
        ...

    async def interrupt(
        self, execution_id: str, now: datetime, reason: str | None = None, by: str | None = None
    ) -> Execution:
        """Set `interrupted`, its reason and who asked (`by`) on a running execution: its `wake` grows, its `dueAt`
        becomes `now`. An execution that is interrupted or complete already isn't changed. Returns the execution as it
        then stands. Raises Missing."""
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

    async def read_limit(self, id: str) -> LimitState:
        """The document of a limit. Raises Missing, DecodingError."""
        ...

    async def write_limit(self, state: LimitState) -> LimitState:
        """Write a limit's document under its etag, or create it if it has none. Returns it with the new etag. Raises
        Conflict if another writer came first."""
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


def sort_documents(
    documents: Iterable[Document], from_chunk: int = 0, unreadable: Mapping[str, str] | None = None
) -> Loaded:
    """The documents of a partition by what they are; the chunks in order. Of the exec document, only the last chunk
    counts, if that lies in it. `unreadable`: ids of documents that are known to be none, each with what is wrong."""
    by_id = {each["id"]: each for each in documents}
    document = by_id.pop(EXEC, None)
    loaded = _sorted(by_id, unreadable or {})
    return _with_last_chunk(loaded, document, from_chunk)


async def sort_in_turns(documents: Sequence[Document], from_chunk: int = 0) -> Loaded:
    """As `sort_documents`, DOCUMENTS_AT_A_TIME of them at a time: others run in between."""
    chunks, inbox, unreadable = list[Chunk](), list[InboxItem](), dict[str, str]()
    input: Large | None = None
    output: Large | None = None
    document: Document | None = None
    for start in range(0, len(documents), DOCUMENTS_AT_A_TIME):
        by_id = {each["id"]: each for each in documents[start : start + DOCUMENTS_AT_A_TIME]}
        document = by_id.pop(EXEC, document)
        part = _sorted(by_id, {})
        chunks += part.chunks
        inbox += part.inbox
        unreadable.update(part.unreadable)
        input, output = input or part.input, output or part.output
        await asyncio.sleep(0)
    loaded = Loaded(sorted(chunks, key=lambda chunk: chunk.number), inbox, input, output, unreadable)
    return _with_last_chunk(loaded, document, from_chunk)


def _sorted(by_id: Mapping[str, Document], unreadable: Mapping[str, str]) -> Loaded:
    problems = dict(unreadable)

    def read(kind: type[R], id: str) -> Iterator[R]:
        try:
            yield kind.from_document(by_id[id])
        except DecodingError as error:
            problems[id] = str(error)

    chunks = [chunk for id in by_id if id.startswith(CHUNK) for chunk in read(Chunk, id)]
    inbox = [item for id in by_id if id.startswith(INBOX) for item in read(InboxItem, id)]
    input = next(read(Large, INPUT), None) if INPUT in by_id else None
    output = next(read(Large, OUTPUT), None) if OUTPUT in by_id else None
    return Loaded(sorted(chunks, key=lambda chunk: chunk.number), inbox, input, output, problems)


def _with_last_chunk(loaded: Loaded, document: Document | None, from_chunk: int) -> Loaded:
    """With the last chunk, if it lies in the exec document. A late driver of a purged run may have taken its number:
    then it gets the next one."""
    try:
        last = Execution.from_document(document).last_chunk if document is not None else None
    except Unreadable as error:
        return replace(loaded, unreadable={**loaded.unreadable, EXEC: str(error)})
    if last is not None and loaded.chunks and loaded.chunks[-1].number >= last.number:
        last = last.model_copy(update={"id": chunk_id(loaded.chunks[-1].number + 1)})
    return loaded if last is None or last.number < from_chunk else replace(loaded, chunks=[*loaded.chunks, last])


def payload_of(execution: Execution, loaded: Loaded, history: Sequence[Event]) -> str | None:
    """The payload of an execution's run, as JSON text. `history` holds at least the first event of the run, if any."""
    if history and isinstance(history[0], Restarted):
        return history[0].payload
    return loaded.input.value if loaded.input else execution.payload


def page_of(documents: Iterable[Mapping[str, Any]], continuation: str | None = None) -> Page:
    """The exec documents among any documents of the container, as a page."""
    executions, problems = list[Execution](), dict[str, str]()
    for document in documents:
        if not isinstance(document, Mapping) or document.get("id") != EXEC:
            continue
        try:
            executions.append(Execution.from_document(dict(document)))
        except Unreadable as error:
            problems[str(document.get("executionId"))] = str(error)
    return Page(executions, continuation, problems)
