"""A store around a store, for tests, measurements and injected faults."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from engine.store.base import Filter, Loaded, Page, Store
from engine.store.documents import Chunk, Execution, InboxItem, Large
from engine.store.feed import ChangeFeed
from engine.store.limit_state import LimitState

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """One call of a store. `number` counts the calls before it, `of_method` those of the same method."""

    method: str
    number: int
    of_method: int
    arguments: tuple[Any, ...]


Hook = Callable[[Call], Awaitable[None]]


async def _nothing(_: Call) -> None:
    return None


class WatchedStore:
    """Passes every call on and keeps a list of them. `before` and `after` are called around each; they may wait or
    raise.

    An error from `before` looks to the caller like a refusal of the store. An error from `after` looks like a lost
    answer: the change has happened.
    """

    def __init__(self, inner: Store, before: Hook = _nothing, after: Hook = _nothing) -> None:
        self.inner = inner
        self.before = before
        self.after = after
        self.calls: list[Call] = []

    @property
    def resend_window(self) -> timedelta:
        return self.inner.resend_window

    def count(self, *methods: str) -> int:
        """The number of calls of these methods, or of all methods."""
        return sum(1 for call in self.calls if not methods or call.method in methods)

    async def create(
        self, execution: Execution, input: Large | None = None, beside: Sequence[Chunk | InboxItem] = ()
    ) -> Execution:
        return await self._pass("create", self.inner.create, execution, input, beside)

    async def read(self, execution_id: str) -> Execution:
        return await self._pass("read", self.inner.read, execution_id)

    async def load(self, execution_id: str, from_chunk: int = 0) -> Loaded:
        return await self._pass("load", self.inner.load, execution_id, from_chunk)

    async def replace(self, execution: Execution) -> Execution:
        return await self._pass("replace", self.inner.replace, execution)

    async def append(self, chunk: Chunk) -> None:
        return await self._pass("append", self.inner.append, chunk)

    async def commit(
        self,
        execution: Execution,
        chunk: Chunk | None = None,
        output: Large | None = None,
        discard: Sequence[str] = (),
    ) -> Execution:
        return await self._pass("commit", self.inner.commit, execution, chunk, output, discard)

    async def signal(self, item: InboxItem, now: datetime) -> Execution:
        return await self._pass("signal", self.inner.signal, item, now)

    async def read_inbox(self, execution_id: str, id: str) -> InboxItem:
        return await self._pass("read_inbox", self.inner.read_inbox, execution_id, id)

    async def interrupt(
        self, execution_id: str, now: datetime, reason: str | None = None, by: str | None = None
    ) -> Execution:
        return await self._pass("interrupt", self.inner.interrupt, execution_id, now, reason, by)

    async def due(self, now: datetime, limit: int, continuation: str | None = None) -> Page:
        return await self._pass("due", self.inner.due, now, limit, continuation)

    async def list(self, filter: Filter, limit: int, continuation: str | None = None) -> Page:
        return await self._pass("list", self.inner.list, filter, limit, continuation)

    async def total(self, filter: Filter) -> int:
        return await self._pass("total", self.inner.total, filter)

    async def read_limit(self, id: str) -> LimitState:
        return await self._pass("read_limit", self.inner.read_limit, id)

    async def write_limit(self, state: LimitState) -> LimitState:
        return await self._pass("write_limit", self.inner.write_limit, state)

    async def purge(self, execution: Execution) -> None:
        return await self._pass("purge", self.inner.purge, execution)

    def change_feed(self) -> ChangeFeed:
        return self.inner.change_feed()

    async def close(self) -> None:
        await self.inner.close()

    async def _pass(self, method: str, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        call = Call(method, len(self.calls), self.count(method), arguments)
        self.calls.append(call)
        await self.before(call)
        result = await function(*arguments)
        await self.after(call)
        return result
