"""The watchdog: names the activity or the workflow whose code blocks the event loop.

A blocked loop sends no heartbeat, and leases expire. Recorded events stay correct, but steps run again.

1. The watchdog looks only while the process drives an execution. It runs in a thread of its own, which ends soon after.
2. It logs one warning for each blockage, while the loop is still blocked.
3. If the loop is blocked for longer than `exit_after`, the process exits, with the stacks of its threads on stderr.
   faulthandler does this, because no Python thread runs while a regular expression is being matched. Other processes
   take over the leases. The claims count, so an execution whose code blocks every driver is quarantined.
4. A process that was frozen as a whole was not blocked by its code. So the watchdog sends the loop one question, and
   waits PATIENCE times for the answer. A freeze can use up only one of these waits.
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any

from engine.core import activity_info
from engine.core.run import Run
from engine.driving import attempt
from engine.driving.log_fields import fields_of_attempt
from engine.driving.notices import Notice
from engine.ground import telemetry

_ACTIVITY = attempt._run.__code__
_WORKFLOW = Run._run_until_idle.__code__
_WARNING = (
    "the event loop has stood still for %.1f s, and leases lapse meanwhile. Blocking code belongs in an activity that "
    "is a plain def, which runs in a thread. It is blocked by %s"
)
PATIENCE = 5
"""How many times the watchdog waits for an answer before it warns. These waits and the pause between two questions add
up to the time that the loop may stand still."""
_log = logging.getLogger("engine")


@dataclass(frozen=True)
class Blockage:
    """What blocks a thread."""

    text: str
    """Whose code, where, and the calls from there on."""
    fields: Mapping[str, Any]
    """The fields of a log line about it: which execution, step and attempt, where that is known."""


def find(frame: FrameType | None, task: asyncio.Task[Any] | None) -> Blockage | None:
    """What blocks a thread. None if the thread waits for events. `frame` is the thread's innermost frame, `task` the
    current task of its loop."""
    inner: list[FrameType] = []
    while frame is not None:
        if frame.f_code is _ACTIVITY:
            own = inspect.unwrap(frame.f_locals["step"].activity)
            info = frame.f_locals["info"]
            return Blockage(_report(_activity(info), inner or [frame], own), fields_of_attempt(info))
        if frame.f_code is _WORKFLOW:
            run: Run = frame.f_locals["self"]
            who = f"the code of workflow {run.workflow.name} (execution {run.execution_id})"
            names = {"execution_id": run.execution_id, "workflow": run.workflow.name}
            return Blockage(_report(who, inner or [frame], inspect.unwrap(run.workflow)), names)
        inner.append(frame)
        frame = frame.f_back
    if task is None or not inner:
        return None
    context: Any = getattr(task, "get_context", dict)()  # before Python 3.12, a task doesn't give its context
    info = context.get(activity_info.current)
    if info is None:
        return Blockage(_report(f"task {task.get_name()}", inner, task.get_coro()), {})
    return Blockage(_report(_activity(info), inner, task.get_coro()), fields_of_attempt(info))


def _activity(info: activity_info.ActivityInfo) -> str:
    return f"activity {info.step.partition('#')[0]} (step {info.step} of execution {info.execution_id})"


def _report(who: str, inner: list[FrameType], own: object) -> str:
    """`inner`: the frames, the innermost first. `own`: the author's function or coroutine. Its line is reported, if it
    is among the frames."""
    code = getattr(own, "cr_code", getattr(own, "__code__", None))
    at = next((frame for frame in inner if frame.f_code is code), inner[0])
    calls = traceback.format_list(traceback.extract_stack(inner[0])[-len(inner) :])
    return f"{who} at {at.f_code.co_filename}:{at.f_lineno}\n{''.join(calls)}"


class Watchdog:
    """Watches the event loop of one worker. `after`: how long the loop may stand still before the warning; zero turns
    the watchdog off. `exit_after`: how long it may stand still before the process exits; zero: the process never
    exits."""

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
        """Watch the running loop while the caller drives an execution on it."""
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
        """End the watchdog's thread."""
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
                    self._warn(time.monotonic() - asked, blocked)
                while not self._wait(beats) and loop.is_running():
                    pass
            self._pause()

    @staticmethod
    def _warn(seconds: float, blocked: Blockage) -> None:
        telemetry.measure("durable.loop.blocked", seconds)
        fields = {**blocked.fields, "notice": Notice.BLOCKED, "blocked_seconds": seconds}
        _log.warning(_WARNING, seconds, blocked.text, extra=fields)

    def _goes_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        with self._state:
            goes_on = self._watched > 0 and not self._is_closed and loop.is_running()
            if not goes_on:
                self._thread = None
                self._disarm()
            return goes_on

    def _arm(self) -> None:
        """Let the process exit after `exit_after`, unless the loop answers before."""
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
        """Wait for one part of the time. Returns whether the loop answered, or the watchdog was closed."""
        with self._state:
            return self._state.wait_for(lambda: self._beats > beats or self._is_closed, self._part)
