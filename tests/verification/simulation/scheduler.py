"""One event loop for all processes of a world: virtual time, and a seeded choice of who runs next.

Rules:
1. A process runs its callbacks in the order in which they became ready, as asyncio promises. Which process runs its
   next one is chance, drawn from the seed.
2. Running takes no time. Time passes only when nobody can run: it jumps to the next timer.
3. A frozen process runs nothing until it is thawed; what became ready meanwhile runs then, in order. A dead one never
   runs again: no `finally` of it is heard.
4. A callback belongs to the process of its context. What belongs to none is the network's.
5. Tasks and futures hash by a number, so that no set of them is walked in the order of memory addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

MAX_STEPS = 300_000
"""Callbacks after which a world counts as spinning."""


class Process:
    """A place where callbacks run one after the other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[asyncio.Handle] = deque()
        self.frozen = False
        self.dead = False
        self.freezes = 0
        self.context_of_all = contextvars.Context()
        self.context_of_all.run(PROCESS.set, self)

    def context(self) -> contextvars.Context:
        """A fresh context for a task of this process."""
        return self.context_of_all.copy()

    def __repr__(self) -> str:
        return self.name


PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("process")


class SimLoop(asyncio.AbstractEventLoop):
    """The loop. `rng` draws who runs next."""

    def __init__(self, rng: random.Random) -> None:
        self.network = Process("network")
        self.failure: BaseException | None = None
        self._rng = rng
        self._now = 0.0
        self._processes = [self.network]
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = 0
        self._tasks: list[SimTask] = []
        self._closed = False

    # -- what a world calls --

    def add(self, process: Process) -> Process:
        """A process that starts."""
        self._processes.append(process)
        return process

    def kill(self, process: Process) -> None:
        """A process that ends in the middle of whatever it does."""
        process.dead = True
        process.ready.clear()
        self._processes.remove(process)

    def freeze(self, process: Process) -> None:
        """A process that stands still until it is thawed."""
        process.frozen = True
        process.freezes += 1

    def thaw(self, process: Process) -> None:
        process.frozen = False

    def spawn(self, process: Process, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task in that process."""
        return self.create_task(coro, context=process.context())

    def fail(self, failure: BaseException) -> None:
        """Stop the world with this, whoever would have caught it."""
        self.failure = self.failure or failure

    def run(self, process: Process, main: Coroutine[Any, Any, T]) -> T:
        """Run until `main`, a coroutine of that process, has ended. Raises what it raises, or the failure."""
        asyncio._set_running_loop(self)
        try:
            task = self.spawn(process, main)
            for _ in range(MAX_STEPS):
                if task.done() or self.failure is not None:
                    break
                self._step()
            else:
                self.fail(RuntimeError("the world spins"))
            if self.failure is not None:
                raise self.failure
            return task.result()
        finally:
            self._close()
            asyncio._set_running_loop(None)

    def _step(self) -> None:
        able = [process for process in self._processes if process.ready and not process.frozen]
        if not able:
            self._pass_time()
            return
        process = able[0] if len(able) == 1 else self._rng.choice(able)
        handle = process.ready.popleft()
        if not handle.cancelled():
            handle._run()

    def _pass_time(self) -> None:
        if not self._timers:
            self.fail(RuntimeError("nobody can run, and nothing will change that"))
            return
        self._now = max(self._now, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now:
            self._enqueue(heapq.heappop(self._timers)[2])

    def _enqueue(self, handle: asyncio.Handle) -> None:
        process = handle._context.get(PROCESS, self.network)  # type: ignore[attr-defined]
        if not process.dead and not self._closed:
            process.ready.append(handle)

    def _close(self) -> None:
        self._closed = True
        self._timers.clear()
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(BaseException):
                    task.get_coro().close()
        self._tasks.clear()
        for process in self._processes:
            process.ready.clear()

    # -- what asyncio calls --

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._enqueue(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        # Whole microseconds: a sum of many floats must not decide which of two timers comes first.
        when = round(max(when, self._now), 6)
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, self.next_number(), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its moment has come."""

    def create_future(self) -> SimFuture:
        return SimFuture(self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_: Any,
    ) -> SimTask:
        task = SimTask(self, coro, name, context)
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback that raised is a fault of the engine or of the simulation. A task's exception that nobody asked
        for is reported when the garbage collector finds it, which is no moment of this world."""
        if "handle" in context:
            self.fail(context["exception"])

    def next_number(self) -> int:
        """The number of the next task, future or timer."""
        self._numbers += 1
        return self._numbers


class SimFuture(asyncio.Future[Any]):
    """A future that hashes by its number in the loop."""

    def __init__(self, loop: SimLoop) -> None:
        self._number = loop.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number

    __eq__ = object.__eq__


class SimTask(asyncio.Task[Any]):
    """A task that hashes by its number in the loop."""

    def __init__(
        self,
        loop: SimLoop,
        coro: Coroutine[Any, Any, Any],
        name: str | None,
        context: contextvars.Context | None,
    ) -> None:
        self._number = loop.next_number()  # first: asyncio hashes the task while it builds it
        super().__init__(coro, loop=loop, name=name or f"task-{self._number}", context=context)

    def __hash__(self) -> int:
        return self._number

    __eq__ = object.__eq__
