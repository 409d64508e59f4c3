"""A replay's record of each step: when the code asked for the step, from which line, and how the step closed.

Rules:
1. Only a replay makes a trace. Nothing of a trace is stored, and a live run pays nothing for it.
2. The lines show where the author's code was when it asked. Lines of the engine and of the standard library are left
   out. In a task that the author made, the lines that made the task follow.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from types import CodeType
from typing import Any, Literal

from engine.core import loop, wind_up
from engine.core.run import Run
from engine.core.steps import Step
from engine.values.events import Event, Forked, StepKind

MAX_LINES = 20
"""The most lines of one stack, the innermost first."""

_ENGINE = __file__.removesuffix("trace.py").rstrip("/\\").removesuffix("core")
_STANDARD = sysconfig.get_paths()["stdlib"]
_EDGES = {loop.__file__, wind_up.__file__}
"""The files at the edge of a stack: frames beyond them belong to the driver."""


Place = tuple[str, int, str]
"""File, line and function, as Python gives them."""


@dataclass(frozen=True)
class Line:
    """A place in the author's source."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True)
class Asked:
    """A step that the code asked for.

    turn, at: the number of the event after which the code asked, and the time that the code saw. A step that was open
        where a fork left its original runs anew there, so `at` is the time of the fork.
    lines: the stack of the author's code, the innermost line first.
    ended: the number of the event that resolved the step or made the code drop it; None while it is open.
    """

    kind: StepKind
    step: str
    turn: int
    at: datetime
    lines: tuple[Line, ...]
    target: Step
    ended: int | None = None
    how: Literal["open", "resolved", "dropped"] = "open"


class Trace:
    """A run with a trace. Events that are applied through the trace also show which lines made each coroutine."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._asked: list[Asked] = []
        self._open: dict[tuple[StepKind, str], int] = {}
        run.steps.watcher = self
        run.context.loop.origin = _lines

    @property
    def asked(self) -> tuple[Asked, ...]:
        """Every step that the code asked for, in that order."""
        return tuple(self._asked)

    def begin(self) -> None:
        """As `Run.begin`."""
        with _origins():
            self.run.begin()

    def apply(self, events: Iterable[Event]) -> None:
        """As `Run.apply`, for each event."""
        with _origins():
            for event in events:
                self.run.apply(event)
                if isinstance(event, Forked):
                    self._ask_anew()

    def step_opened(self, step: Step) -> None:
        """Note that the code asked for a step."""
        self._open[step.key] = len(self._asked)
        self._asked.append(Asked(step.kind, step.id, self.run.turn, self.run.now, _lines(), step))

    def step_closed(self, step: Step, how: Literal["resolved", "dropped"]) -> None:
        """Note that an event resolved a step, or that the code dropped it."""
        number = self._open.pop(step.key, None)
        if number is not None:
            self._asked[number] = replace(self._asked[number], ended=self.run.turn, how=how)

    def _ask_anew(self) -> None:
        for number in self._open.values():
            self._asked[number] = replace(self._asked[number], at=self.run.now)


@contextmanager
def _origins() -> Iterator[None]:
    """Let each coroutine remember the lines that made it."""
    before = sys.get_coroutine_origin_tracking_depth()
    sys.set_coroutine_origin_tracking_depth(MAX_LINES)
    try:
        yield
    finally:
        sys.set_coroutine_origin_tracking_depth(before)


def _lines(coroutine: Any = None) -> tuple[Line, ...]:
    """The stack of the code that runs now, up to its task, and then the stack that made the task. With `coroutine`, a
    task is being made from it: then the stack begins where the coroutine was made, if it knows that."""
    frame, places = sys._getframe(1), list[Place]()
    while frame is not None and not _is_edge(frame):
        places.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None or frame.f_code.co_name not in ("send", "throw"):
        return ()
    made = takewhile(lambda place: place[0] not in _EDGES, getattr(coroutine, "cr_origin", None) or ())
    lines = _of_the_author(made) or _of_the_author(places)
    return (*lines, *(frame.f_locals["self"].made_by or ()))[:MAX_LINES]


def line_of(code: CodeType) -> Line:
    """The line where a function begins."""
    return Line(_short(code.co_filename), code.co_firstlineno, code.co_name)


def _of_the_author(places: Iterable[Place]) -> tuple[Line, ...]:
    return tuple(Line(_short(file), line, name) for file, line, name in places if _is_of_the_author(file))


def _is_edge(frame: Any) -> bool:
    name, file = frame.f_code.co_name, frame.f_code.co_filename
    return file in _EDGES and name in ("send", "throw", "begin", "proceed", "_drain")


@functools.cache
def _is_of_the_author(file: str) -> bool:
    if file.startswith(_ENGINE):
        return False
    return not file.startswith(_STANDARD) or "-packages" in file


@functools.cache
def _short(file: str) -> str:
    """A file's path, relative to the folder from which Python imports it."""
    folders = [f"{folder}/" for folder in sys.path if folder and file.startswith(f"{folder}/")]
    return file.removeprefix(max(folders, key=len, default=""))
