"""Workflows as pure functions of their history: what they wait for, and how they end.

An event is a short text: `A` (an activity's result is recorded), `D=x` (a deferred was resolved with x), `W` (a timer
fired), `I` (the interrupt reached the code), `T` (a takeover, which the code doesn't see). Each program has a twin in
`test_ties.py`, written as a workflow and run by the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

TAKEOVER = "T"
INTERRUPTED = "I"
TIMER = "W"

Events = tuple[str, ...]
Log = tuple[Events, ...]
"""The history as it is stored: chunks of events."""


class Run(NamedTuple):
    """Where a history leaves the code."""

    activities: frozenset[str] = frozenset()
    deferreds: frozenset[str] = frozenset()
    timer: bool = False
    outcome: str | None = None


class Program(NamedTuple):
    """A workflow. `values`: what the outside may resolve its deferreds with, in this order for each; `terminates`:
    whether it may terminate it."""

    code: Callable[[Events], Run]
    values: tuple[str, ...]
    terminates: bool = False


def together(events: Events) -> Run:
    """An activity beside a deferred: `a = create_task(A()); value = await D; await a; return value`."""
    if INTERRUPTED in events:
        return Run(outcome="interrupted")
    value = _value(events, "D")
    if value and "A" in events:
        return Run(outcome=value)
    return Run(frozenset({"A"} - set(events)), frozenset({"D"} if not value else ()))


def after(events: Events) -> Run:
    """An activity after a deferred, with a compensation: `compensate(C); value = await D; await A(); return value`."""
    if INTERRUPTED in events:
        return Run(outcome="interrupted") if "C" in events else Run(frozenset({"C"}))
    value = _value(events, "D")
    if not value:
        return Run(deferreds=frozenset({"D"}))
    return Run(outcome=value) if "A" in events else Run(frozenset({"A"}))


def race(events: Events) -> Run:
    """A deferred or a timer, whichever is first, then an activity."""
    if INTERRUPTED in events:
        return Run(outcome="interrupted")
    first = next((event for event in events if event == TIMER or event.startswith("D=")), None)
    if first is None:
        return Run(deferreds=frozenset({"D"}), timer=True)
    return Run(outcome="late" if first == TIMER else first[2:]) if "A" in events else Run(frozenset({"A"}))


def steps(events: Events) -> Run:
    """One activity after another: `await A(); await B()`."""
    if INTERRUPTED in events:
        return Run(outcome="interrupted")
    open = [name for name in ("A", "B") if name not in events]
    return Run(frozenset(open[:1])) if open else Run(outcome="done")


def two(events: Events) -> Run:
    """Two deferreds, and no activity."""
    if INTERRUPTED in events:
        return Run(outcome="interrupted")
    open = frozenset(name for name in ("D", "E") if not _value(events, name))
    return Run(deferreds=open) if open else Run(outcome=_value(events, "D"))


def _value(events: Events, name: str) -> str | None:
    return next((event[2:] for event in events if event.startswith(f"{name}=")), None)


PROGRAMS = {
    "steps": Program(steps, ()),
    "together": Program(together, ("D=x", "D=y"), terminates=True),
    "after": Program(after, ("D=x", "D=y")),
    "race": Program(race, ("D=x", "D=y")),
    "two": Program(two, ("D=x", "E=z")),
}


@cache
def run(program: str, events: Events) -> Run:
    """Where these events leave the program's code."""
    return PROGRAMS[program].code(events)


@cache
def recorded(log: Log) -> Events:
    """What a history says to the code."""
    return tuple(event for chunk in log for event in chunk if event != TAKEOVER)
