"""The watchdog: names the activity, or the workflow, whose code keeps the event loop from everything else.

While the loop stands still no heartbeat is sent, and leases lapse: what is recorded stays right, but steps run again.

1. It looks only while something is driven, from a thread of its own, which ends soon after.
2. One warning for each blockage, while it lasts.
3. A process whose loop stands still for longer than `exit_after` is ended, with the stacks of its threads on stderr. No
   Python thread could do that while a regular expression runs, so faulthandler does. Its leases pass on, and its claims
   count: code that blocks each of its drivers is quarantined.
4. A process that was frozen as a whole has blocked nothing. The loop is asked once, and waited for PATIENCE times:
   only one of these waits can end by the freeze.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import inspect
import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from datetime import timedelta
from types import FrameType
from typing import Any

from engine.core import activity_info
from engine.core.run import Run
from engine.driving import attempt
from engine.ground import telemetry

_ACTIVITY = attempt._run.__code__
_WORKFLOW = Run._run_until_idle.__code__
_WARNING = (
    "the event loop has stood still for %.1f s, and leases lapse meanwhile. Blocking code belongs in an activity that "
    "is a plain def, which runs in a thread. It is blocked by %s"
)
PATIENCE = 5
"""Waits for a sign of life before the warning. With the pause between two questions they make up the time that the
loop may stand still."""
_log = logging.getLogger("engine")


def find(frame: FrameType | None, task: asyncio.Task[Any] | None) -> str | None:
    """What a thread is busy with whose innermost frame and whose loop's current task are these: who, where, and the
    calls from there on. None if it waits for events."""
    inner: list[FrameType] = []
    while frame is not None:
        if frame.f_code is _ACTIVITY:
            own = inspect.unwrap(frame.f_locals["step"].activity)
            return _report(_activity(frame.f_locals["info"]), inner or [frame], own)
        if frame.f_code is _WORKFLOW:
            run: Run = frame.f_locals["self"]
            who = f"the code of workflow {run.workflow.name} (execution {run.execution_id})"
            return _report(who, inner or [frame], inspect.unwrap(run.workflow))
        inner.append(frame)
        frame = frame.f_back
    if task is None or not inner:
        return None
    context: Any = getattr(task, "get_context", dict)()  # until 3.12 a task doesn't tell who made it
    info = context.get(activity_info.current)
    who = _activity(info) if info is not None else f"task {task.get_name()}"
    return _report(who, inner, task.get_coro())


def _activity(info: activity_info.ActivityInfo) -> str:
    return f"activity {info.step.partition('#')[0]} (step {info.step} of execution {info.execution_id})"


def _report(who: str, inner: list[FrameType], own: object) -> str:
    """`inner`: its frames, the innermost first; `own`: the function or coroutine whose line says most to its author."""
    code = getattr(own, "cr_code", getattr(own, "__code__", None))
    at = next((frame for frame in inner if frame.f_code is code), inner[0])
    calls = traceback.format_list(traceback.extract_stack(inner[0])[-len(inner) :])
    return f"{who} at {at.f_code.co_filename}:{at.f_lineno}\n{''.join(calls)}"


class Watchdog:
    """Watches the event loop of one worker. `after`: how long it may stand still; zero: nobody looks. `exit_after`: how
    long before its process is ended; zero: never."""

    def __init__(self, after: timedelta, exit_after: timedelta = timedelta(0)) -> None:
        self._exit_after = exit_after.total_seconds()
        self._part = after.total_seconds() / (PATIENCE + 1)
        self._state = threading.Condition()
        self._watched = 0
        self._beats = 0
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """While something is driven on the running loop."""
        with self._state:
            self._watched += 1
            if self._part and self._thread is None and not self._is_closed:
                loop = asyncio.get_running_loop(), threading.get_ident()
                self._thread = threading.Thread(target=self._watch, args=loop, name="watchdog", daemon=True)
                self._thread.start()
                self._arm()
        try:
            yield
        finally:
            with self._state:
                self._watched -= 1

    def close(self) -> None:
        """End its thread."""
        with self._state:
            self._is_closed, thread = True, self._thread
            self._state.notify_all()
        if thread is not None:
            thread.join(1)

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        while self._goes_on(loop):
            asked, beats = time.monotonic(), self._beats
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(self._beat)
            if not any(self._wait(beats) for _ in range(PATIENCE)):
                blocked = find(sys._current_frames().get(thread), asyncio.current_task(loop))
                if blocked is not None:
                    telemetry.measure("durable.loop.blocked", time.monotonic() - asked)
                    _log.warning(_WARNING, time.monotonic() - asked, blocked)
                while not self._wait(beats) and loop.is_running():
                    pass
            self._pause()

    def _goes_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        with self._state:
            goes_on = self._watched > 0 and not self._is_closed and loop.is_running()
            if not goes_on:
                self._thread = None
                self._disarm()
            return goes_on

    def _arm(self) -> None:
        """Have the process ended, unless the loop gives a sign of life before."""
        if self._exit_after and sys.__stderr__ is not None:
            faulthandler.dump_traceback_later(self._exit_after, exit=True, file=sys.__stderr__)

    def _disarm(self) -> None:
        if self._exit_after:
            faulthandler.cancel_dump_traceback_later()

    def _pause(self) -> None:
        with self._state:
            self._state.wait_for(lambda: self._is_closed, self._part)

    def _beat(self) -> None:
        with self._state:
            self._beats += 1
            self._state.notify_all()
            if self._thread is not None:
                self._arm()

    def _wait(self, beats: int) -> bool:
        """Whether the loop gave a sign of life, or nobody cares any more, before a part of the time was over."""
        with self._state:
            return self._state.wait_for(lambda: self._beats > beats or self._is_closed, self._part)
