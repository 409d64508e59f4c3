"""The steps that a workflow's code waits for now, and the commands that follow from opening and dropping them.

Rules:
1. Only the run and its context change the table. Steps are frozen, so a changed step replaces the old one.
2. A step's id is unique in its run. Only a deferred may open again under its id, because it is awaited by name.
3. A step leaves the table in one of two ways: an event resolves it, or the code drops it. Only a drop makes a command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, Protocol

from engine.core.commands import Command, DropActivity, DropChild, StartActivity, StartChild
from engine.core.loop import DurableFuture
from engine.core.steps import ActivityStep, ChannelStep, ChildStep, DeferredStep, Step, TimerStep
from engine.ground.clock import FAR_FUTURE
from engine.values.error_records import ErrorClasses, rebuild
from engine.values.events import StepKind, StepResolved

Answer = tuple[Any, BaseException | None]
"""The result of a step for the code: a value, or an exception."""


class Watcher(Protocol):
    """Is told of each step that opens or closes."""

    def step_opened(self, step: Step) -> None: ...

    def step_closed(self, step: Step, how: Literal["resolved", "dropped"]) -> None: ...


class StepTable:
    """The open steps of one run, by kind and id."""

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        self.activities: dict[str, ActivityStep] = {}
        self.timers: dict[str, TimerStep] = {}
        self.deferreds: dict[str, DeferredStep] = {}
        self.children: dict[str, ChildStep] = {}
        self.channels: dict[str, ChannelStep] = {}
        self._calls: Counter[str] = Counter()
        self._commands: list[tuple[type[Command], ActivityStep | ChildStep]] = []
        self._outliving: set[str] = set()
        """The execution ids of children that a step asked for as outliving their parent."""

    def of_kind(self, kind: StepKind) -> dict[str, Any]:
        """The open steps of one kind, by id."""
        match kind:
            case "activity":
                return self.activities
            case "timer":
                return self.timers
            case "deferred":
                return self.deferreds
            case "child":
                return self.children
            case "channel":
                return self.channels

    def all(self) -> list[Step]:
        """Every open step."""
        return [
            *self.activities.values(),
            *self.timers.values(),
            *self.deferreds.values(),
            *self.children.values(),
            *self.channels.values(),
        ]

    def number(self, name: str) -> str:
        """The id of the next step of that name: `name`, `name#2`, `name#3`."""
        self._calls[name] += 1
        return name if self._calls[name] == 1 else f"{name}#{self._calls[name]}"

    def open(self, step: Step) -> None:
        """Add a step that the code now waits for."""
        self.of_kind(step.kind)[step.id] = step
        if self.watcher is not None:
            self.watcher.step_opened(step)
        self.start(step)
        if isinstance(step, ChildStep) and (step.abandon or not step.waits):
            self._outliving.add(step.execution_id)

    def change(self, step: Step) -> None:
        """Replace the open step that has the same id."""
        self.of_kind(step.kind)[step.id] = step

    def delay_timers(self, by: timedelta) -> None:
        """Let each open timer end later: its remaining time is the same, and the clock has moved on without it."""
        for timer in list(self.timers.values()):
            self.change(replace(timer, due=timer.due + min(by, FAR_FUTURE - timer.due)))

    def start(self, step: Step) -> None:
        """Ask the driver to start `step`, if it is an activity or a child."""
        if isinstance(step, ActivityStep):
            self._commands.append((StartActivity, step))
        elif isinstance(step, ChildStep):
            self._commands.append((StartChild, step))

    def resolve(self, step: Step) -> None:
        """Remove `step`, which an event has resolved."""
        del self.of_kind(step.kind)[step.id]
        if self.watcher is not None:
            self.watcher.step_closed(step, "resolved")

    def drop(self, step: Step) -> None:
        """Remove `step`, for which the code no longer waits. Nothing happens if an event resolved it before."""
        open = self.of_kind(step.kind).pop(step.id, None)
        if open is not None and self.watcher is not None:
            self.watcher.step_closed(step, "dropped")
        match open:
            case ActivityStep() as dropped:
                self._commands.append((DropActivity, dropped))
            case ChildStep() as dropped:
                self._commands.append((DropChild, dropped))

    def take_commands(self) -> list[Command]:
        """The commands since the last call. Steps that have closed in the meantime aren't started."""
        commands = list[Command]()
        for kind, step in self._commands:
            if kind is DropActivity and isinstance(step, ActivityStep):
                commands.append(DropActivity(step))
            elif kind is DropChild and isinstance(step, ChildStep):
                commands.append(DropChild(step, self.outlives(step)))
            elif kind is StartActivity and (activity := self.activities.get(step.id)) is not None:
                commands.append(StartActivity(activity))
            elif kind is StartChild and (child := self.children.get(step.id)) is not None and not child.begun:
                commands.append(StartChild(child))
        self._commands.clear()
        return commands

    def outlives(self, step: ChildStep) -> bool:
        """Whether this step or another one asked for the child to outlive its parent."""
        return step.abandon or step.execution_id in self._outliving


def answer(event: StepResolved, decode: Callable[[str], Any], raises: ErrorClasses = ()) -> Answer:
    """The decoded result of an event. Raises DecodingError."""
    if event.error is not None:
        return None, rebuild(event.error, raises)
    return decode(event.value or "null"), None


def settle(future: DurableFuture, answer: Answer) -> None:
    """Give an answer to the code that awaits `future`."""
    if future.done():  # cancelled in the same turn
        return
    value, error = answer
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
