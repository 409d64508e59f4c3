"""The event loop that workflow code runs on: asyncio's own primitives, made deterministic.

Rules:
1. One ready queue, first in first out. Nothing else decides what runs next: no socket, no thread, no clock.
2. Time stands still within a turn. `time()` is the time of the event that was delivered last.
3. `call_at` and `call_later` make durable timers. The loop reports them to its owner, and the owner fires them.
4. Tasks and futures hash by a number that the loop counts up. asyncio keeps tasks in sets (`wait`, `as_completed`, the
   abort of a TaskGroup), and would otherwise walk these sets in the order of memory addresses.
5. An operation that a replay can't repeat raises NotDurable. The loop remembers the fault, so code that catches it
   doesn't hide it.
6. A turn is over when nothing is ready. Suspension is never an exception in the workflow's code.
7. `close` drops parked tasks at once, on this thread, with the loop dead. Requests of their `finally` blocks have no
   effect.

The loop runs inside a running host loop. During a step it takes the host loop's place as the running loop.
"""

from __future__ import annotations

import asyncio
import collections
import collections.abc
import contextvars
import math
import sys
from collections.abc import Callable, Coroutine, Generator
from datetime import timedelta
from typing import Any, Protocol

from engine.core.refusals import (
    CURES,
    all_tasks,
    explain_duration,
    foreign,
    is_asked_by_all_tasks,
    is_of_anyio,
    waits_on_strangers,
    walks_a_set_of_coroutines,
)
from engine.ground.errors import Fault, NotDurable

MAX_IDLE_CALLBACKS = 10_000
"""A turn counts as spinning if it runs more callbacks than this while no task begins or ends."""
MAX_CALLBACKS_PER_TURN = 1_000_000
"""A turn counts as spinning if it runs more callbacks than this, whatever its tasks do."""
MAX_REDELIVERIES = 2
"""How often in one turn an anyio cancel scope may cancel its tasks again. On an ordinary loop the scope does this in
every round, until its tasks have ended. Time stands still within a turn, so here the scope continues at the next
event."""

_undead: list[Coroutine[Any, Any, Any]] = []
"""Coroutines that await again each time they are closed. They are kept, because freeing one would only wake it
again."""


class Timers(Protocol):
    """The owner of a loop's durable timers."""

    def timer_opened(self, timer: DurableTimer) -> None: ...

    def timer_closed(self, timer: DurableTimer) -> None: ...


class DurableLoop(asyncio.AbstractEventLoop):
    """A deterministic event loop. `now` is the time in seconds since the epoch. The loop reports timers to `owner`."""

    def __init__(self, now: float, owner: Timers) -> None:
        self.now = now
        self.fault: Fault | None = None
        self.owner = owner
        self.origin: Callable[[Any], Any] | None = None
        """Called with the coroutine of each new task. The result stays with the task."""
        self._ready: collections.deque[asyncio.Handle] = collections.deque()
        self._redeliveries: list[asyncio.Handle] = []
        self._numbers = 0
        self._numbers_of_tasks = 0
        self._alive: dict[int, _Guard] = {}
        self._failed: list[tuple[str, asyncio.Task[Any]]] = []
        """Tasks that failed, and whose exceptions nobody had asked for by the end of the turn."""
        self._closed = False

    # -- what the owner calls --

    def run_until_idle(self) -> None:
        """Run callbacks until none is ready. Raises the fault that the loop remembers, if any."""
        with _Installed(self):
            for _ in range(MAX_REDELIVERIES):
                self._drain()
                if not self._redeliveries:
                    break
                self._ready.extend(self._redeliveries)
                self._redeliveries.clear()
            else:
                self._drain()
        self._failed = [(name, task) for name, task in self._failed if task._log_traceback]
        if self.fault is not None:
            raise self.fault

    def _drain(self) -> None:
        idle, tasks = 0, (self._numbers_of_tasks, len(self._alive))
        for _ in range(MAX_CALLBACKS_PER_TURN):
            if not self._ready:
                return
            handle = self._ready.popleft()
            if not handle.cancelled():
                try:  # noqa: SIM105 - each step of each task comes by here, and `suppress` takes longer
                    handle._run()
                except (SystemExit, KeyboardInterrupt):  # its task has recorded it
                    pass
            idle += 1
            if tasks != (now := (self._numbers_of_tasks, len(self._alive))):
                idle, tasks = 0, now
            elif idle > MAX_IDLE_CALLBACKS:
                break
        self._ready.clear()
        self.declare(NotDurable("the workflow spins: it never waits for a step, a timer or a deferred"))

    def fire(self, timer: DurableTimer) -> None:
        """Let a due timer call its callback."""
        self._ready.append(timer)

    def declare(self, fault: Fault) -> Fault:
        """Remember the first fault of the workflow's code. Returns `fault`, for the caller to raise."""
        self.fault = self.fault or fault
        return fault

    def unseen_failures(self) -> list[tuple[str, BaseException]]:
        """The tasks that failed and that nobody awaited, by name."""
        # `exception()` would mark the exception as seen.
        return [(name, task._exception) for name, task in self._failed if task._log_traceback and task._exception]

    def unfinished_tasks(self) -> list[str]:
        """The names of tasks that have not ended."""
        return [guard.name for guard in self._alive.values()]

    def close(self) -> None:
        """Drop all parked tasks. Their last code has no effect through the loop."""
        self._closed = True
        self._ready.clear()
        with _Installed(self):
            while self._alive:  # a `finally` may start tasks: they are dropped before they run
                for number, guard in list(self._alive.items()):
                    self._alive.pop(number, None)
                    guard.drop()
        self._ready.clear()

    def is_closed(self) -> bool:
        return self._closed

    # -- what asyncio calls --

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if getattr(callback, "__name__", "") == "_deliver_cancellation" and is_of_anyio(callback):
            self._redeliveries.append(handle)
        else:
            self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float | timedelta,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if isinstance(delay, timedelta):
            raise TypeError("asyncio takes seconds, and was given a timedelta: write duration.total_seconds()")
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if math.isnan(when):
            raise ValueError("a timer can't be set to NaN")
        timer = DurableTimer(when, callback, args, self, context)
        if self._closed:
            return timer
        if when <= self.now:
            self._ready.append(timer)
        else:
            self.owner.timer_opened(timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if isinstance(handle, DurableTimer):
            self.owner.timer_closed(handle)

    def create_future(self) -> DurableFuture:
        if (fault := waits_on_strangers(sys._getframe(1), self, (DurableFuture, DurableTask))) is not None:
            raise self.declare(fault)
        return DurableFuture(self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_options: Any,
    ) -> DurableTask:
        if not asyncio.iscoroutine(coro):
            raise TypeError(f"a coroutine was expected, got {coro!r}")
        if walks_a_set_of_coroutines(sys._getframe(1)):
            coro.close()
            raise self.declare(
                NotDurable(
                    "asyncio.as_completed over bare coroutines starts them in the order of their memory addresses; "
                    "use workflow.as_completed, or make tasks of them first"
                )
            )
        return DurableTask(self, coro, name, context)

    def get_debug(self) -> bool:
        return False

    def get_task_factory(self) -> None:
        """None: the loop makes all tasks itself."""

    def is_running(self) -> bool:
        return True

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore reports of exceptions that nobody awaited. They depend on the garbage collector."""

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: dropped generators are never woken."""

    # -- inside --

    def next_number(self) -> int:
        """The number of the next task or future."""
        self._numbers += 1
        return self._numbers

    def adopt(self, number: int, guard: _Guard) -> None:
        """Keep a task's code until the task ends. asyncio itself keeps only weak references to tasks."""
        self._alive[number] = guard
        self._numbers_of_tasks += 1

    def release(self, number: int, error: BaseException | None = None) -> None:
        """Note that the code of the current task has ended, with `error` if it raised one."""
        guard = self._alive.pop(number, None)
        if error is not None:
            explain_duration(error)
        if guard is not None and not isinstance(error, StopIteration | asyncio.CancelledError | None):
            task = asyncio.current_task(self)
            self._failed += [] if task is None else [(guard.name, task)]


class _Installed:
    """Makes a loop the running one in place of the host's, for a turn. Each turn enters it, and a class takes less time
    than a generator."""

    __slots__ = ("_hooks", "_loop", "_outer")

    def __init__(self, loop: DurableLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        self._outer = asyncio._get_running_loop()
        self._hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self._loop)
        # Nobody may close an async generator that is dropped unfinished, neither the host's loop nor later code.
        sys.set_asyncgen_hooks(firstiter=_leave_open, finalizer=_leave_open)

    def __exit__(self, *_: object) -> None:
        sys.set_asyncgen_hooks(*self._hooks)
        asyncio._set_running_loop(self._outer)


def _leave_open(_: object) -> None:
    """Do nothing with an async generator that begins, or that is dropped."""


class DurableFuture(asyncio.Future[Any]):
    """A future that hashes by its number in the loop."""

    def __init__(self, loop: DurableLoop) -> None:
        self._number = loop.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number

    __eq__ = object.__eq__


class DurableTask(asyncio.Task[Any]):
    """A task that hashes by its number in the loop. Its code may await only the loop's own futures."""

    def __init__(
        self,
        loop: DurableLoop,
        coro: Coroutine[Any, Any, Any],
        name: str | None,
        context: contextvars.Context | None,
    ) -> None:
        self._number = loop.next_number()  # before super().__init__(), in which asyncio hashes the task
        self._log_destroy_pending = False
        guard = _Guard(coro, loop, self._number, name)
        super().__init__(guard, loop=loop, name=name or f"task-{self._number}", context=context)
        loop.adopt(self._number, guard)

    def __hash__(self) -> int:
        return self._number

    __eq__ = object.__eq__

    def set_name(self, value: object, /) -> None:
        super().set_name(value)
        guard = self.get_coro()
        assert isinstance(guard, _Guard)
        guard.name = str(value)

    def get_loop(self) -> DurableLoop:
        loop = super().get_loop()
        assert isinstance(loop, DurableLoop)
        if asyncio._get_running_loop() is loop and is_asked_by_all_tasks(sys._getframe(1)):
            raise loop.declare(all_tasks())
        return loop


class DurableTimer(asyncio.TimerHandle):
    """A timer of a durable loop. Its owner sets `key`."""

    key: Any = None


class _Guard(collections.abc.Coroutine[Any, Any, Any]):
    """Wraps a task's coroutine and checks that it awaits only the loop's own futures."""

    __slots__ = ("_coro", "_loop", "_number", "made_by", "name")

    def __init__(self, coro: Coroutine[Any, Any, Any], loop: DurableLoop, number: int, name: str | None) -> None:
        self.name = name or str(getattr(coro, "__qualname__", f"task-{number}"))
        """The name for messages: the task's own name, or the name of its function."""
        self._coro = coro
        self._loop = loop
        self._number = number
        self.made_by = loop.origin(coro) if loop.origin is not None else None
        """The result of the loop's `origin` for this task: where the task was made. None without `origin`."""

    def send(self, value: Any) -> Any:
        try:
            awaited = self._coro.send(value)
        except BaseException as error:
            self._loop.release(self._number, error)
            raise
        return self._checked(awaited)

    def throw(self, *error: Any) -> Any:
        try:
            awaited = self._coro.throw(*error)
        except BaseException as error:
            self._loop.release(self._number, error)
            raise
        return self._checked(awaited)

    def close(self) -> None:
        self._loop.release(self._number)
        self._coro.close()

    def drop(self) -> None:
        # Each close may run a `finally` up to its next await. A dead loop never answers that await.
        for _ in range(100):
            try:
                self._coro.close()
            except RuntimeError as error:
                if "ignored GeneratorExit" not in str(error):
                    return
            except BaseException:  # noqa: BLE001 - errors of dropped code are ignored
                return
            else:
                return
        _undead.append(self._coro)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coro.__await__()

    @property
    def cr_code(self) -> Any:
        return getattr(self._coro, "cr_code", None)

    @property
    def cr_frame(self) -> Any:
        return getattr(self._coro, "cr_frame", None)

    def _checked(self, awaited: Any) -> Any:
        if awaited is None or (isinstance(awaited, asyncio.Future) and awaited.get_loop() is self._loop):
            return awaited
        return self.throw(self._loop.declare(foreign(awaited)))


def _not_durable(name: str) -> Callable[..., Any]:
    def refuse(self: DurableLoop, *_args: Any, **_kwargs: Any) -> Any:
        what = CURES.get(name, f"loop.{name}: a workflow's loop has no sockets, threads or processes; use an activity")
        raise self.declare(NotDurable(f"a workflow can't use {what}"))

    refuse.__name__ = name
    return refuse


for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and getattr(DurableLoop, _name) is getattr(asyncio.AbstractEventLoop, _name):
        setattr(DurableLoop, _name, _not_durable(_name))
