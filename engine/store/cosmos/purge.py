"""Deleting an execution, whose documents may be more than one transaction takes.

1. The first request marks the exec document under its etag, and makes it due: from here on nobody else writes it, and a
   purge that dies half way is finished by the sweep.
2. Only then the documents are listed, in the session of that write: what was written before it is on the list.
3. Each batch of deletions also holds a change of the exec document under its etag. So no batch can meet the documents
   of an execution that was purged and started again meanwhile. The exec document goes last.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from engine.ground.errors import Conflict, Missing, Unavailable
from engine.store import transitions
from engine.store.cosmos import patches
from engine.store.cosmos.items import NO_ETAG, Items, Operation
from engine.store.cosmos.query import ALL_IDS
from engine.store.cosmos.schema import MAX_BATCH_OPERATIONS
from engine.store.documents import EXEC, Document, Execution

LISTS = 5
"""Times that the documents are listed, should a list name what is gone."""

_GROUP = MAX_BATCH_OPERATIONS - 1


@dataclass
class Purge:
    """One purge under way. `etag` is that of the exec document, as this purge knows it."""

    items: Items
    execution_id: str
    etag: str

    @classmethod
    async def run(cls, items: Items, execution: Execution) -> None:
        """Delete all documents of a complete execution. Raises Conflict, Missing."""
        purge = cls(items, execution.execution_id, execution.etag or NO_ETAG)
        await purge._mark(transitions.mark_for_purge(execution))
        for _ in range(LISTS):
            if await purge._delete_all():
                return
        raise Unavailable(f"execution {execution.execution_id} can't be purged: its documents can't be listed")

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
        ids = await self.items.query("purge", self.execution_id, ALL_IDS)
        others = sorted(id for id in ids if id != EXEC)
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
                raise Conflict(f"execution {self.execution_id} was purged by someone else meanwhile") from None
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
            if found is not None and found["_etag"] == self.etag:
                return False
            # Gone with this very batch, whose answer was lost, or with another purge's: purged it is.
        return True

    async def _exec(self) -> Document | None:
        return await self.items.find("read back", self.execution_id, EXEC)
