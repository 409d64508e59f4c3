"""What the fault tests share: processes of their own on one store, stores that freeze, clocks that disagree."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from engine.boundary.client import Client
from engine.driving.worker import Worker
from engine.ground.clock import Clock
from engine.ground.errors import Unavailable
from engine.store.base import Loaded, Store
from engine.store.cosmos.store import CosmosStore
from engine.store.documents import Document, Execution
from engine.store.wrapper import Hook
from engine.testing import Call, Environment, ManualClock, WatchedStore

PAST_LEASE = timedelta(seconds=36)
"""A lease and the allowance for skew, and a little more."""
SWEEPS_NEW_AFTER = timedelta(seconds=6)
"""When the sweep looks at what nobody has claimed, and a little more."""


class SkewedClock:
    """A clock that is wrong by a fixed time."""

    def __init__(self, right: Clock, by: timedelta) -> None:
        self._right = right
        self._by = by

    def now(self) -> datetime:
        return self._right.now() + self._by

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        await self._right.wait(event, seconds)


class ImpatientClock(ManualClock):
    """Short pauses, as between two reads, pass by themselves. `passed` has each of them, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[float] = []

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        if 0 < seconds <= 1:
            self.passed.append(seconds)
            self.advance(timedelta(seconds=seconds))
            await asyncio.sleep(0)
        else:
            await super().wait(event, seconds)


class Process:
    """One more process on an environment's store: a view of the store, a worker and a client of its own."""

    def __init__(self, env: Environment, clock: Clock | None = None, store: WatchedStore | None = None) -> None:
        self._env = env
        self.store = store or WatchedStore(env.store.inner)
        self.clock = clock or env.clock
        self.worker = Worker(self.store, env.registry, env.settings, self.clock)
        self.client = Client(self.store, env.registry, env.settings, self.clock, self.worker)

    async def drive(self, id: str) -> asyncio.Task[None]:
        """Begin to drive an execution as it now stands."""
        return self.worker.start(await self._env.store.inner.read(id))

    async def die(self, id: str) -> None:
        """The process is gone: its drive ends in the middle of whatever it does."""
        task = self.worker.running(id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


class Freezer:
    """A hook in which one call stops until it is thawed: the call for which `which` holds, and only the first."""

    def __init__(self, which: Callable[[Call], bool]) -> None:
        self._which = which
        self.frozen = asyncio.Event()
        self.thaw = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        if not self.frozen.is_set() and self._which(call):
            self.frozen.set()
            await self.thaw.wait()


class StaleStore(WatchedStore):
    """A view of the store whose replica lags: of each state, the first `lag` loads give the one before."""

    def __init__(self, inner: Store, lag: int) -> None:
        super().__init__(inner)
        self._lag = lag
        self._old: dict[str, Loaded] = {}
        self._left: dict[str, tuple[Loaded, int]] = {}

    async def load(self, execution_id: str, from_chunk: int = 0) -> Loaded:
        fresh = await super().load(execution_id)
        known, left = self._left.get(execution_id, (Loaded(), 0))
        if fresh != known:
            self._old[execution_id], left = known, self._lag
        self._left[execution_id] = fresh, left - 1
        shown = self._old[execution_id] if left > 0 else fresh
        chunks = [chunk for chunk in shown.chunks if chunk.number >= from_chunk]
        return Loaded(chunks, list(shown.inbox), fresh.input, shown.output)


def nth(method: str, number: int = 0) -> Callable[[Call], bool]:
    """The call of that method before which there were `number` of it."""
    return lambda call: call.method == method and call.of_method == number


def away(call: Call) -> Unavailable:
    """What a store that is away raises."""
    return Unavailable(f"no answer to {call.method}")


def unanswered(*methods: str) -> Hook:
    """A hook in which these calls fail: no answer."""

    async def hook(call: Call) -> None:
        if call.method in methods:
            raise away(call)

    return hook


async def purge(env: Environment, id: str) -> None:
    """Purge it as soon as that is possible: what started it is not under way any more."""
    env.clock.advance(env.store.resend_window + env.settings.skew)
    await env.client.purge(id)


def store_of(env: Environment) -> Any:
    """The store under an environment's hooks."""
    return env.store.inner


async def image(env: Environment, id: str) -> list[Any]:
    """Everything in an execution's partition, with its etags."""
    store = store_of(env)
    if isinstance(store, CosmosStore):
        documents = await store._items.query("image", id, "SELECT * FROM c")
        return sorted(json.dumps(document, sort_keys=True) for document in documents)
    query = "SELECT id, body, etag, seq FROM documents WHERE execution_id = ? ORDER BY id"
    return list(await store._read(lambda db: db.execute(query, (id,)).fetchall()))


async def delete(env: Environment, id: str, document: str) -> None:
    """Remove a document behind the engine's back."""
    query = "DELETE FROM documents WHERE execution_id = ? AND id = ?"
    deleted = await store_of(env)._write(lambda db: db.execute(query, (id, document)).rowcount)
    assert deleted == 1, f"there is no {document}"


async def overwrite(env: Environment, id: str, document: str, body: str) -> None:
    """Put another text in a document's place behind the engine's back."""
    query = "UPDATE documents SET body = ? WHERE execution_id = ? AND id = ?"
    changed = await store_of(env)._write(lambda db: db.execute(query, (body, id, document)).rowcount)
    assert changed == 1, f"there is no {document}"


async def fed(env: Environment, *ids: str) -> list[Document]:
    """The exec documents as the change feed hands them over."""
    return [as_fed(await env.store.inner.read(id)) for id in ids]


def as_fed(execution: Execution) -> Document:
    """A version of an exec document as the change feed hands it over."""
    return {**execution.to_document(), "_etag": execution.etag, "_ts": 1}


async def until(condition: Callable[[], bool], turns: int = 100_000) -> None:
    """Let the others run until the condition holds. Raises AssertionError if it doesn't come about."""
    for _ in range(turns):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came about")
