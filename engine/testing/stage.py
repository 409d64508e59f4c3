"""Controls the activities of a test: a test may replace them, make steps fail, or let the process die in a step."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from engine.core.activity import Activity
from engine.core.activity_info import ActivityInfo, current_info
from engine.testing.process import Process


class Died(BaseException):
    """Ends the thread of a sync activity whose process is dead."""


class Script:
    """The test's plan for the activities of an environment, and a record of the activities that ran.

    replaced: functions that run in place of activities, by the activities' names.
    names: the names of all activities.
    evicts: whether the process lets go after every activity.
    """

    def __init__(self, replaced: Mapping[str, Callable[..., Any]], names: Sequence[str], evicts: bool) -> None:
        for name, function in replaced.items():
            check_step(name, names)
            if not callable(function):
                raise TypeError(f"activities={{{name!r}: …}} takes a function, not {function!r}")
        self.ran: list[ActivityInfo] = []
        self.replaced = dict(replaced)
        self.evicts = evicts
        self.failures: dict[str, tuple[BaseException, int | None]] = {}
        """The planned errors of a step, or of every call of an activity, each with the number of attempts left."""
        self.running: dict[object, datetime] = {}
        """The running attempts with a time limit, each with the time at which the limit ends."""
        self.deaths: dict[str, bool] = {}
        """The steps in which the process dies. True: it dies after the step has run. False: before."""

    def enter(self) -> None:
        """Note that an attempt begins. Raises its planned error, if there is one."""
        info = current_info()
        self.ran.append(info)
        for planned in (info.step, every_call(info.step)):
            if planned not in self.failures:
                continue
            error, left = self.failures[planned]
            if left is not None:
                self.failures[planned] = error, left - 1
                if left <= 1:
                    del self.failures[planned]
            raise error.with_traceback(None)  # the same error may be raised often: its traceback would grow

    @contextlib.contextmanager
    def limited(self, ends: datetime | None) -> Iterator[None]:
        """Note an attempt that may last until `ends`, while it runs."""
        attempt = object()
        if ends is not None:
            self.running[attempt] = ends
        try:
            yield
        finally:
            self.running.pop(attempt, None)

    def dies(self, after: bool) -> bool:
        """Whether the process dies at this point of the current step. Each planned death happens once."""
        step = current_info().step
        if self.deaths.get(step) is not after:
            return False
        del self.deaths[step]
        return True


class Stage:
    """Decides what the activities of one process run. See `engine.core.activity.StandIns`."""

    def __init__(self, script: Script, process: Process) -> None:
        self._script = script
        self._process = process

    def function_of(self, activity: Activity[Any, Any]) -> Callable[..., Any]:
        """The activity's function or its stand-in, wrapped with the script's failures and deaths."""
        function = self._script.replaced.get(activity.name, activity.function)
        ends = None if activity.timeout is None else self._process.clock.now() + activity.timeout
        return self._on_loop(function, ends) if self.is_async(activity) else self._in_thread(function, ends)

    def is_async(self, activity: Activity[Any, Any]) -> bool:
        """Whether the activity runs on the loop. It does so if its function or its stand-in is async."""
        functions = activity.function, self._script.replaced.get(activity.name)
        return any(inspect.iscoroutinefunction(getattr(f, "function", f)) for f in functions)

    def _on_loop(self, function: Callable[..., Any], ends: datetime | None) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if self._script.dies(after=False):
                await self._die()
            self._script.enter()
            try:
                with self._script.limited(ends):
                    result = function(*args, **kwargs)
                    return await result if inspect.isawaitable(result) else result
            finally:
                if self._script.dies(after=True):
                    await self._die()
                self._leave()

        return call

    def _in_thread(self, function: Callable[..., Any], ends: datetime | None) -> Callable[..., Any]:
        loop = asyncio.get_running_loop()

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._script.dies(after=False):
                loop.call_soon_threadsafe(self._process.die)
                raise Died
            self._script.enter()
            try:
                with self._script.limited(ends):
                    result = function(*args, **kwargs)
                return result
            finally:
                if self._script.dies(after=True):
                    loop.call_soon_threadsafe(self._process.die)
                loop.call_soon_threadsafe(self._leave)

        return call

    async def _die(self) -> None:
        self._process.die()
        await asyncio.Event().wait()  # until the dead process's driver cancels the activity

    def _leave(self) -> None:
        if self._script.evicts:
            self._process.evict()


def every_call(step: str) -> str:
    """The key of a failure that is planned for all steps of this step's activity."""
    return f"{step.partition('#')[0]}#*"


def check_step(step: str, names: Sequence[str]) -> None:
    """Raise ValueError if no activity has the name of this step, which is given as `ship` or `ship#2`."""
    name = step.partition("#")[0]
    if name not in names:
        near = difflib.get_close_matches(name, names, 3)
        known = f"; there is {', '.join(near or names[:10])}" if names else "; these workflows call no activity"
        raise ValueError(f"no activity is named {name!r}{known}")
