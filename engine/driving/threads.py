"""The threads of one process for sync activities. Python can't stop a thread: an activity that hangs keeps its thread.

1. One activity gets at most half of the threads. If its calls hang for ever, the other half still serves the others.
2. A free thread goes to the waiting activity that holds the fewest threads. The calls of one activity run in order.
3. A thread is taken until its function has returned, even if nothing waits for the result any more.
4. The log warns of a call that waits too long, and names the activities that hold the threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from engine.core.activity_info import ActivityInfo
from engine.driving.log_fields import fields_of_attempt
from engine.ground.clock import Clock

T = TypeVar("T")

PATIENCE = timedelta(seconds=60)
"""How long a call waits for a thread before the log warns. Also the least time between two warnings of one activity."""

_log = logging.getLogger("engine")


@dataclass(eq=False)
class _Call:
    """One call of an activity. The call waits for a thread until `began`, and then holds a thread."""

    info: ActivityInfo
    has_thread: asyncio.Event = field(default_factory=asyncio.Event)
    began: datetime | None = None


class Threads:
    """A pool of `total` threads for one event loop. One activity may hold up to half of them, but at least one."""

    def __init__(self, clock: Clock, total: int) -> None:
        self._clock = clock
        self._total = total
        self._share = max(1, total // 2)
        self._pool = concurrent.futures.ThreadPoolExecutor(total, thread_name_prefix="activity")
        self._waiting: dict[str, deque[_Call]] = {}
        self._running: dict[str, dict[_Call, None]] = {}
        self._warned_at: dict[str, datetime] = {}

    async def run(self, activity: str, info: ActivityInfo, function: Callable[[], T]) -> T:
        """Call `function` in a thread, as soon as the activity may hold one more, and return its result. Raises what
        `function` raises. After a cancellation, a function that has begun still runs to its end."""
        loop, call = asyncio.get_running_loop(), _Call(info)
        self._waiting.setdefault(activity, deque()).append(call)
        self._hand_out()
        try:
            while not call.has_thread.is_set():
                await self._clock.wait(call.has_thread, PATIENCE.total_seconds())
                if not call.has_thread.is_set():
                    self._warn(activity, call)
            future = self._pool.submit(function)
        except BaseException:
            self._leave(activity, call)
            raise

        def end(_: concurrent.futures.Future[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(self._leave, activity, call)

        future.add_done_callback(end)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Begin no further call."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _hand_out(self) -> None:
        while sum(map(len, self._running.values())) < self._total:
            served = [name for name in self._waiting if self._count(name) < self._share]
            if not served:
                return
            name = min(served, key=self._count)
            call = self._waiting[name].popleft()
            if not self._waiting[name]:
                del self._waiting[name]
            call.began = self._clock.now()
            self._running.setdefault(name, {})[call] = None
            call.has_thread.set()

    def _count(self, activity: str) -> int:
        return len(self._running.get(activity, ()))

    def _leave(self, activity: str, call: _Call) -> None:
        among = self._running if call.began is not None else self._waiting
        calls = among[activity]
        calls.pop(call) if isinstance(calls, dict) else calls.remove(call)
        if not calls:
            del among[activity]
        self._hand_out()

    def _warn(self, activity: str, call: _Call) -> None:
        now, before = self._clock.now(), self._warned_at.get(activity)
        if before is not None and now - before < PATIENCE:
            return
        self._warned_at[activity] = now
        _log.warning(
            "activity %s (step %s of execution %s) has waited %d s for a thread. One activity gets at most %d of the "
            "%d threads of this process. These activities hold threads: %s. Python can't stop a thread: a call that "
            "hangs keeps its thread until the process ends. Give the client that hangs a timeout of its own",
            activity,
            call.info.step,
            call.info.execution_id,
            PATIENCE.total_seconds(),
            self._share,
            self._total,
            "; ".join(self._holders(now)),
            extra=fields_of_attempt(call.info),
        )

    def _holders(self, now: datetime) -> list[str]:
        """The activities that hold threads, starting with the one that holds the most."""
        holders = []
        for name, calls in sorted(self._running.items(), key=lambda one: -len(one[1])):
            oldest = next(iter(calls))
            since = (now - oldest.began).total_seconds() if oldest.began else 0
            holders.append(
                f"{name} ({len(calls)}, the longest for {since:.0f} s: step {oldest.info.step} of execution "
                f"{oldest.info.execution_id})"
            )
        return holders
