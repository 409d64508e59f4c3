"""Deleting an execution, whose documents may be more than one transaction takes.

1. Most executions go with one transaction, under the etag of the exec document: all of them or nothing. If nothing but
   its own drivers has written to it, the exec document says which documents there are. Otherwise they are listed, and
   the list must hold every document that the exec document counts. Nobody adds to an execution that has ended.
2. One that was terminated may have a driver still, whose chunks nobody counts. It takes the long way, and so does one
   that is too long for a transaction, or whose documents a lagging replica hides. Its first request marks the exec
   document under its etag, and makes it due: from here on nobody else writes it, and a purge that dies half way is
   finished by the sweep.
3. Only then the documents are listed, in the session of that write: what was written before it is on the list.
4. Each batch of deletions also holds a change of the exec document under its etag. So no batch can meet the documents
   of an execution that was purged and started again meanwhile. The exec document goes last.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass

from engine.ground.errors import Conflict, Missing, Unavailable
from engine.store import transitions
from engine.store.cosmos import patches
from engine.store.cosmos.items import NO_ETAG, Items, Operation
from engine.store.cosmos.query import ALL_IDS
from engine.store.cosmos.schema import MAX_BATCH_OPERATIONS
from engine.store.documents import CHUNK, EXEC, INBOX, INPUT, OUTPUT, Document, Execution, chunk_id

LISTS = 5
"""Times that the documents are listed, should a list name what is gone."""

_GROUP = MAX_BATCH_OPERATIONS - 1


@dataclass
class Purge:
    """One purge under way. `etag` is that of the exec document, as this purge knows it."""

    items: Items
    execution_id: str
    run_id: str | None
    etag: str

    @classmethod
    async def run(cls, items: Items, execution: Execution) -> None:
        """Delete all documents of a complete execution. Raises Conflict, Missing."""
        purge = cls(items, execution.execution_id, execution.run_id, execution.etag or NO_ETAG)
        if execution.is_complete and execution.outcome != "terminated" and await purge._delete_at_once(execution):
            return
        await purge._mark(transitions.mark_for_purge(execution))
        for _ in range(LISTS):
            if await purge._delete_all():
                return
        raise Unavailable(f"execution {execution.execution_id} can't be purged: its documents can't be listed")

    async def _delete_at_once(self, execution: Execution) -> bool:
        """False if one transaction can't be trusted with all of it."""
        known = _known_ids(execution)
        if known is not None and len(known) <= _GROUP and await self._delete_exactly(known):
            return True
        ids = await self._list()
        others = [id for id in ids if id != EXEC]
        if len(ids) == len(others) or len(others) > _GROUP or not _are_whole(others, execution):
            return False
        return await self._delete_exactly(others)

    async def _delete_exactly(self, others: list[str]) -> bool:
        """False if one of these documents doesn't exist."""
        try:
            return await self._delete_last(others)
        except Conflict:
            raise Conflict(f"execution {self.execution_id} changed since it was read") from None

    async def _mark(self, mark: transitions.Patch) -> None:
        write_id = uuid.uuid4().hex
        changes, predicate = patches.operations(mark, write_id), patches.predicate(mark.guard)
        try:
            marked = await self.items.patch(
                "purge", self.execution_id, EXEC, changes, predicate=predicate, etag=self.etag
            )
        except Conflict:
            found = await self._exec()
            if found is None or found["writeId"] != write_id:
                raise
            marked = found
        self.etag = marked["_etag"]

    async def _delete_all(self) -> bool:
        """False if the list of documents turned out to be old."""
        others = [id for id in await self._list() if id != EXEC]
        # One operation of each batch is for the exec document.
        while len(others) > _GROUP:
            if not await self._delete(others[:_GROUP]):
                return False
            del others[:_GROUP]
        return await self._delete_last(others)

    async def _delete(self, ids: list[str]) -> bool:
        write_id = uuid.uuid4().hex
        guard = Operation.patch(EXEC, patches.mark_write(write_id), etag=self.etag)
        try:
            done = await self.items.batch("purge", self.execution_id, [guard, *map(Operation.delete, ids)])
            self.etag = done[0]["eTag"]
        except (Conflict, Missing) as error:
            found = await self._exec()
            if found is None:
                raise Conflict(f"execution {self.execution_id} was purged by another process meanwhile") from None
            if found["writeId"] != write_id:
                if isinstance(error, Missing) and found["_etag"] == self.etag:
                    return False
                raise Conflict(f"execution {self.execution_id} changed since it was read") from None
            self.etag = found["_etag"]
        return True

    async def _delete_last(self, ids: list[str]) -> bool:
        last = Operation.delete(EXEC, self.etag)
        try:
            await self.items.batch("purge", self.execution_id, [last, *map(Operation.delete, ids)])
        except Missing:
            found = await self._exec()
            if found is not None and (found["_etag"] == self.etag or found.get("runId") == self.run_id):
                return False
            # Gone with this very batch, whose answer was lost, or with another purge's: purged it is.
        return True

    async def _list(self) -> list[str]:
        """The ids of all documents."""
        return sorted(await self.items.query("purge", self.execution_id, ALL_IDS))

    async def _exec(self) -> Document | None:
        return await self.items.find("read back", self.execution_id, EXEC)


def _known_ids(execution: Execution) -> list[str] | None:
    """The ids of all documents but exec. None if the exec document doesn't tell them."""
    others_wrote = execution.inbox_count or execution.restarts or execution.reopenings or execution.forked_from
    if others_wrote or execution.purging:
        return None
    chunks = map(chunk_id, range(_stored_chunks(execution)))
    return [*chunks, *([INPUT] if execution.payload is None else []), *([OUTPUT] if _has_output(execution) else [])]


def _stored_chunks(execution: Execution) -> int:
    """How many chunks have a document."""
    return execution.history_length - (execution.last_events is not None)


def _has_output(execution: Execution) -> bool:
    return execution.outcome == "completed" and execution.completed_result is None


def _are_whole(ids: Collection[str], execution: Execution) -> bool:
    """Whether these are at least the documents that the exec document counts."""
    chunks = sum(1 for id in ids if id.startswith(CHUNK))
    items = sum(1 for id in ids if id.startswith(INBOX))
    has_input = execution.payload is not None or INPUT in ids
    has_output = not _has_output(execution) or OUTPUT in ids
    return chunks >= _stored_chunks(execution) and items >= execution.inbox_count and has_input and has_output
