"""Timers that are due soon. A process keeps them in memory if it suspended the execution, or if its sweep found them.

A kept timer is a hint like every other: the exec document says when the timer is due. If this process ends, the next
sweep finds the execution.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from engine.ground.clock import Clock
from engine.store.documents import Execution


def is_soon(execution: Execution, now: datetime, ahead: timedelta) -> bool:
    """Whether an execution waits for a timer that is due within `ahead`."""
    is_parked, due = execution.suspended and not execution.is_complete, execution.due_at
    return is_parked and due is not None and now < due <= now + ahead


class Timers:
    """The timers that one process keeps. `fire` is called with an execution whose timer is due, and must not raise."""

    def __init__(self, clock: Clock, fire: Callable[[Execution], Awaitable[None]]) -> None:
        self._clock = clock
        self._fire = fire
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, execution: Execution) -> asyncio.Task[None]:
        """Call `fire` when this execution is due. The returned task ends when `fire` has ended."""
        self.drop(execution.execution_id)
        task = asyncio.create_task(self._wait(execution), name=f"timer of {execution.execution_id}")
        self._waiting[execution.execution_id] = task
        return task

    def drop(self, execution_id: str) -> None:
        """Forget the timer of an execution that is driven now. A call of `fire` that has begun goes on."""
        if (task := self._waiting.pop(execution_id, None)) is not None:
            task.cancel()

    def close(self) -> None:
        """Fire no more."""
        self._closed.set()

    async def _wait(self, execution: Execution) -> None:
        assert execution.due_at is not None
        left = (execution.due_at - self._clock.now()).total_seconds()
        await self._clock.wait(self._closed, max(0.0, left))
        self._waiting.pop(execution.execution_id, None)
        if not self._closed.is_set():
            await self._fire(execution)
