"""CosmosStore: the production store, one container of Cosmos DB.

How each promise of `engine.store.base` is kept:
1. One call is one item operation or one transactional batch. Only `purge` may need several: see `purge.py`.
2. `replace` and `commit` send If-Match. Creates never overwrite. A signal shares its batch with a create, an interrupt
   has a predicate. So a repeated request changes nothing.
3. Each call writes its own `writeId` into its documents. When a write is refused, the store reads the document back. If
   the document has this `writeId`, the call's own first try wrote it, and only the answer was lost.
4. The session token of each answer goes with the next reads of the execution (`sessions.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

from engine.ground.errors import Conflict, Missing, Taken
from engine.store import transitions
from engine.store.base import Filter, Loaded, Page, sort_in_turns
from engine.store.cosmos import patches
from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.client import Connection
from engine.store.cosmos.feed import CosmosFeed
from engine.store.cosmos.items import Items, Operation
from engine.store.cosmos.purge import Purge
from engine.store.cosmos.query import HISTORY, Selection
from engine.store.cosmos.resend import Resend
from engine.store.cosmos.usage import Usage
from engine.store.documents import EXEC, Chunk, Document, Execution, InboxItem, Large, Record
from engine.store.feed import ChangeFeed
from engine.store.limit_state import LIMIT, LimitState


class CosmosStore:
    """A store in the account's container. The first call opens it; it then belongs to that call's event loop.

    `usage` counts requests and request units.
    """

    def __init__(self, account: CosmosAccount, retry: Resend | None = None) -> None:
        self.account = account
        self.usage = Usage()
        self._connection = Connection(account, self.usage)
        self._items = Items(self._connection.executions, retry or Resend())
        self._feed: CosmosFeed | None = None

    @property
    def resend_window(self) -> timedelta:
        return timedelta(seconds=self._items.retry.budget + self._items.retry.patience)

    async def create(
        self, execution: Execution, input: Large | None = None, beside: Sequence[Chunk | InboxItem] = ()
    ) -> Execution:
        written = _marked(execution)
        others = [_marked(record) for record in (*beside, *([input] if input is not None else []))]
        try:
            if not others:
                etag = await self._items.create("create", written)
            else:
                operations = [Operation.create(document) for document in (written, *others)]
                etag = (await self._items.batch("create", execution.execution_id, operations))[0]["eTag"]
        except Taken:
            # If a lost try of this call created the document, and others have changed it since, it looks like someone
            # else's. That does no harm: the caller then reads the document, and it is the right one.
            found = await self._items.find("read back", execution.execution_id, EXEC)
            if found is None or found.get("writeId") != written["writeId"]:
                raise
            etag = found["_etag"]
        return _execution(written, etag)

    async def read(self, execution_id: str) -> Execution:
        return Execution.from_document(await self._items.read("read", execution_id, EXEC))

    async def load(self, execution_id: str, from_chunk: int = 0) -> Loaded:
        first = f"history::{from_chunk:08d}"
        return await sort_in_turns(await self._items.query("load", execution_id, HISTORY, first=first), from_chunk)

    async def replace(self, execution: Execution) -> Execution:
        written = _marked(execution)
        try:
            etag = await self._items.replace("replace", written, execution.etag)
        except Conflict:
            etag = await self._etag_of_own(written, execution)
        return _execution(written, etag)

    async def append(self, chunk: Chunk) -> None:
        written = _marked(chunk)
        try:
            await self._items.create("append", written)
        except Taken:
            if not await self._is_own(written):
                raise

    async def commit(
        self,
        execution: Execution,
        chunk: Chunk | None = None,
        output: Large | None = None,
        discard: Sequence[str] = (),
    ) -> Execution:
        created = [_marked(record) for record in (chunk, output) if record is not None]
        if not created:
            return await self._replace_and_delete(execution, discard) if discard else await self.replace(execution)
        written = _marked(execution)
        operations = [
            *map(Operation.create, created),
            Operation.replace(written, execution.etag),
            *map(Operation.delete, discard),
        ]
        try:
            # After a Conflict nothing needs to be read back: if a first try of this call had landed, its creates would
            # be refused first, as Taken.
            etag = (await self._items.batch("commit", execution.execution_id, operations))[len(created)]["eTag"]
        except Taken:
            if not await self._is_own(created[0]):
                raise
            found = await self._items.find("read back", execution.execution_id, EXEC)
            # If someone has changed the document since, the etag of the written version is unknown. The old etag makes
            # the caller's next write a Conflict, as it must be.
            landed = found is not None and found.get("writeId") == written["writeId"]
            etag = found["_etag"] if found and landed else execution.etag
        return _execution(written, etag)

    async def signal(self, item: InboxItem, now: datetime) -> Execution:
        created = _marked(item)
        woken = transitions.add_inbox_item(now)
        changes = patches.operations(woken, created["writeId"])
        wake = Operation.patch(EXEC, changes, predicate=patches.predicate(woken.guard))
        try:
            # The exec document comes first in the batch, so that Missing and Conflict win over Taken.
            done = await self._items.batch("signal", item.execution_id, [wake, Operation.create(created)])
        except (Taken, Conflict) as error:
            # A first try of this call may have landed, and the execution may have ended since.
            if not await self._is_own(created, missing_is_old=isinstance(error, Taken)):
                raise
            return await self.read(item.execution_id)
        return Execution.from_document(done[0]["resourceBody"])

    async def read_inbox(self, execution_id: str, id: str) -> InboxItem:
        return InboxItem.from_document(await self._items.read("read_inbox", execution_id, id))

    async def interrupt(
        self, execution_id: str, now: datetime, reason: str | None = None, by: str | None = None
    ) -> Execution:
        interrupted = transitions.interrupt(now, reason, by)
        changes, predicate = patches.operations(interrupted, uuid.uuid4().hex), patches.predicate(interrupted.guard)
        try:
            patched = await self._items.patch("interrupt", execution_id, EXEC, changes, predicate=predicate)
        except Conflict:
            # The predicate refused, so the execution is interrupted or complete. Neither is ever undone. A version that
            # is neither is old.
            def is_old(found: Document | None) -> bool:
                return found is not None and found.get("status") == "running" and found.get("interrupted") is False

            found = await self._items.read_back(execution_id, EXEC, is_old)
            if found is None:  # a later document would be a new run, which nobody asked to interrupt
                raise Missing(f"execution {execution_id} was purged meanwhile") from None
            patched = found
        return Execution.from_document(patched)

    async def due(self, now: datetime, limit: int, continuation: str | None = None) -> Page:
        return await self._page("due", Selection.due(now), limit, continuation)

    async def list(self, filter: Filter, limit: int, continuation: str | None = None) -> Page:
        return await self._page("list", Selection.listed(filter), limit, continuation)

    async def total(self, filter: Filter) -> int:
        return await self._items.ask("total", "total query", Selection.listed(filter).total)

    async def read_limit(self, id: str) -> LimitState:
        return LimitState.from_document(await self._items.read("read_limit", id, LIMIT))

    async def write_limit(self, state: LimitState) -> LimitState:
        written = _marked(state)
        try:
            if state.etag:
                etag = await self._items.replace("write_limit", written, state.etag)
            else:
                etag = await self._items.create("write_limit", written)
        except (Taken, Conflict, Missing):
            found = await self._items.find("read back", state.execution_id, LIMIT)
            if found is None or found.get("writeId") != written["writeId"]:
                raise Conflict(f"limit {state.execution_id} changed since it was read") from None
            etag = found["_etag"]
        return LimitState.from_document({**written, "_etag": etag})

    async def purge(self, execution: Execution) -> None:
        await Purge.run(self._items, execution)

    def change_feed(self) -> ChangeFeed:
        if self._feed is None:
            self._feed = CosmosFeed(self._connection, Connection(self.account, self.usage), self._items.retry)
        return self._feed

    async def close(self) -> None:
        if self._feed is not None:
            await self._feed.close()
        await self._connection.close()

    # -- inside --

    async def _replace_and_delete(self, execution: Execution, ids: Sequence[str]) -> Execution:
        written = _marked(execution)
        # The exec document comes first in the batch, so that a repetition of this very call is a Conflict.
        operations = [Operation.replace(written, execution.etag), *map(Operation.delete, ids)]
        try:
            etag = (await self._items.batch("commit", execution.execution_id, operations))[0]["eTag"]
        except Conflict:
            etag = await self._etag_of_own(written, execution)
        return _execution(written, etag)

    async def _etag_of_own(self, written: Document, execution: Execution) -> str:
        """The etag of a version that a lost first try of this call wrote. Raises Conflict if another writer came
        first."""

        def is_old(found: Document | None) -> bool:
            return found is not None and found["_etag"] == execution.etag

        found = await self._items.read_back(execution.execution_id, EXEC, is_old)
        if found is None or found.get("writeId") != written["writeId"]:
            raise Conflict(f"execution {execution.execution_id} changed since it was read")
        return str(found["_etag"])

    async def _page(self, operation: str, selection: Selection, limit: int, continuation: str | None) -> Page:
        return await self._items.ask(
            operation, f"{operation} query", lambda container: selection.page(container, limit, continuation)
        )

    async def _is_own(self, created: Document, missing_is_old: bool = True) -> bool:
        """Whether this call created the document. For documents that are created once and never changed."""
        found = await self._items.read_back(
            created["executionId"], created["id"], lambda found: found is None and missing_is_old
        )
        return found is not None and found.get("writeId") == created["writeId"]


def _marked(record: Record) -> Document:
    """The document to write, with a new `writeId`."""
    return {**record.to_document(), "writeId": uuid.uuid4().hex}


def _execution(written: Document, etag: str) -> Execution:
    return Execution.from_document({**written, "_etag": etag})
