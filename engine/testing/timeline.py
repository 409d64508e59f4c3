"""Describes an execution in words: its timeline, and what it waits for. For people who read the output of a test."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from engine.boundary.inspection import Inspection
from engine.core.steps import ActivityStep, ChildStep, TimerStep
from engine.core.trace import Asked
from engine.store.documents import Execution
from engine.values.events import AttemptFailed, Begun, Event, Patched, StepHeld, StepResolved


def timeline(seen: Inspection) -> str:
    """A line for each step that the code asked for, and for each event. Times count from the start of the run."""
    one, start = seen.execution, seen.execution.run_started_at
    asked = [((each.turn, 1), each.at, f"asks for {_step(each)}{_line(each)}") for each in seen.asked]
    events = [((number, 0), event.at, shown(event)) for number, event in enumerate(seen.events, 1)]
    lines = [_at(at, start, words) for _, at, words in sorted([*asked, *events], key=lambda entry: entry[0])]
    if one.is_complete:
        lines.append(_at(one.completed_at or one.updated_at, start, str(one.outcome)))
    return "\n".join([f"{one.workflow} {one.execution_id} began at {start:%Y-%m-%d %H:%M:%S}", *lines, *_problem(seen)])


def why(seen: Inspection) -> str:
    """A line for each step that the execution waits for now, with the line of source. Or why it doesn't wait."""
    one = seen.execution
    if one.is_complete:
        error = f": {one.error.type}: {one.error.message}" if one.error else ""
        return f"it has ended: {one.outcome}{error}"
    if one.cause is not None:
        return f"it is suspended: {one.cause.type}: {one.cause.message}"
    if not seen.events and not one.logged:
        return "it hasn't begun: nobody has driven it"
    failed = {event.step: event for event in seen.events if isinstance(event, AttemptFailed | StepHeld)}
    waits = [
        f"it waits for {_step(each)}{_held_back(each, one)}{_more(each, failed.get(each.step))}{_line(each)}"
        for each in seen.open
    ]
    return "\n".join([*waits, *_problem(seen)]) or "it waits for nothing that can come"


def shown(event: Event) -> str:
    """An event in a few words."""
    match event:
        case StepResolved(error=None):
            return f"{event.kind} {event.step} ended"
        case StepResolved() | AttemptFailed() | StepHeld() if event.error is not None:
            return f"{event.step} failed: {event.error.type}: {event.error.message[:80]}"
        case Begun():
            return f"child {event.step} began"
        case Patched():
            return f"patch {event.patch} holds"
    return event.kind


def _at(at: datetime, start: datetime, words: str) -> str:
    return f"+{str(at - start).partition('.')[0]:<16} {words}"


def _step(one: Asked) -> str:
    return one.kind if one.step == one.kind else f"{one.kind} {one.step}"


def _line(one: Asked) -> str:
    return f", {one.lines[0].file}:{one.lines[0].line} in {one.lines[0].function}" if one.lines else ""


def _held_back(one: Asked, execution: Execution) -> str:
    limits = execution.parked.get(one.step)
    return f", held back by its limits ({limits})" if limits else ""


def _more(one: Asked, failed: AttemptFailed | StepHeld | None) -> str:
    match one.target:
        case TimerStep(due=due):
            return f" until {due:%Y-%m-%d %H:%M:%S}"
        case ChildStep(execution_id=id):
            return f" (execution {id})"
        case ActivityStep() if isinstance(failed, AttemptFailed):
            error = f"{failed.error.type}: {failed.error.message[:80]}"
            return f", attempt {failed.attempt + 1} at {failed.retry_at:%Y-%m-%d %H:%M:%S} after {error}"
    return ""


def _problem(seen: Inspection) -> Iterator[str]:
    if seen.problem is not None:
        yield f"the replay stopped here: {seen.problem}"
