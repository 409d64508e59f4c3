"""A worker that dies as a process dies: at once, and without another store call."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, cast

from engine.core.activity import StandIns, stand_ins
from engine.core.registry import Registry
from engine.driving.lifespan import Opens
from engine.driving.worker import Worker
from engine.ground.clock import Clock
from engine.ground.settings import Settings
from engine.store.base import Store
from engine.store.documents import Execution

Moment = Literal["before", "after"]


@dataclass
class Fate:
    """The store call at which a process of an environment dies. `number` is the number of the call. `moment` says
    whether the process dies before or after the call takes effect. `calls` lists the calls so far."""

    number: int | None = None
    moment: Moment = "before"
    calls: list[str] | None = None


class _Lifeline:
    """A process's connection to the store, which ends with the process. The call in which the process dies never
    answers, and later calls have no effect."""

    def __init__(self, store: Store, process: Process, fate: Fate) -> None:
        self._store = store
        self._process = process
        self._fate = fate

    def __getattr__(self, method: str) -> Any:
        function = getattr(self._store, method)
        if not inspect.iscoroutinefunction(function):
            return function

        async def call(*arguments: Any) -> Any:
            number = self._count(method)
            self._live_through("before", number)
            result = await function(*arguments)
            self._live_through("after", number)
            return result

        return call

    def _count(self, method: str) -> int | None:
        if self._fate.calls is None:
            return None
        self._fate.calls.append(method)
        return len(self._fate.calls) - 1

    def _live_through(self, moment: Moment, number: int | None) -> None:
        if number is not None and (number, moment) == (self._fate.number, self._fate.moment):
            self._process.die()
        if self._process.is_dead:
            raise asyncio.CancelledError


class Process(Worker):
    """A worker of an environment. Its stage decides what its activities run."""

    def __init__(
        self, store: Store, registry: Registry, settings: Settings, clock: Clock, fate: Fate, lifespan: Opens | None
    ) -> None:
        super().__init__(cast(Store, _Lifeline(store, self, fate)), registry, settings, clock, lifespan=lifespan)
        self.is_dead = False
        self.clock = clock
        self.stage: StandIns | None = None

    def _spawn(self, work: Coroutine[Any, Any, None], execution: Execution) -> asyncio.Task[None]:
        """As for any worker. The task is cancelled if the process is dead."""
        token = stand_ins.set(self.stage)
        try:
            task = super()._spawn(work, execution)  # the task keeps this context
        finally:
            stand_ins.reset(token)
        if self.is_dead:
            task.cancel()
        return task

    def die(self) -> None:
        """End the process here, in the middle of its work."""
        self.is_dead = True
        for task in self._tasks:
            task.cancel()

    def evict(self) -> None:
        """Let go of every execution as soon as its running activities are recorded. The next driver has to replay
        it."""
        for drive, _ in self._drives.values():
            drive.drain()

    async def close(self, grace: timedelta = timedelta(seconds=5)) -> None:
        """As for any worker. A dead worker holds nothing, so it only waits for its tasks."""
        if self.is_dead:
            await self._wait_for_tasks(grace)
        await super().close(grace)
