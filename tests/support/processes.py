"""Several processes on one store: each has a worker and a client of its own, a clock that may be wrong, and a view of
the store that may lag or fail."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta

from engine.boundary.client import Client
from engine.driving.worker import Worker
from engine.ground.clock import Clock
from engine.ground.errors import Unavailable
from engine.store.base import Loaded, Store
from engine.store.documents import Document, Execution
from engine.store.wrapper import Hook
from engine.testing import Call, Environment, ManualClock, WatchedStore
from tests.support.gates import Gate

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

    @contextlib.asynccontextmanager
    async def stopped(self, id: str, moment: str, which: Callable[[Call], bool]) -> AsyncIterator[asyncio.Task[None]]:
        """Drive an execution up to a store call, and stop there, "before" or "after" its effect. At the end of the
        block it goes on, and its drive comes to an end."""
        gate = Gate(which)
        setattr(self.store, moment, gate)
        driving = await self.drive(id)
        assert await gate.reached_by(driving), "its drive ended before it came there"
        yield driving
        gate.open()
        await driving

    async def die(self, id: str) -> None:
        """The process is gone: its drive ends in the middle of whatever it does."""
        task = self.worker.running(id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


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


async def nothing(_: Call) -> None:
    """A hook without a fault."""


def away(call: Call) -> Unavailable:
    """What a store that is away raises."""
    return Unavailable(f"no answer to {call.method}")


def unanswered(*methods: str) -> Hook:
    """A hook in which these calls fail: no answer."""

    async def hook(call: Call) -> None:
        if call.method in methods:
            raise away(call)

    return hook


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
