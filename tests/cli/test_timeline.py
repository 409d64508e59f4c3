"""The drawing of a timeline: where bars begin and end, and what is marked on them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console

from engine.cli.timeline import WIDTH, show_timeline

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def step(kind: str, name: str, since: float, ended: float | None, state: str = "resolved") -> dict[str, Any]:
    end = {} if ended is None else {"endedAt": at(ended)}
    return {"kind": kind, "step": name, "name": name.partition("#")[0], "since": at(since), "state": state} | end


def drawn(status: dict[str, Any], steps: list[dict[str, Any]], events: list[dict[str, Any]]) -> list[str]:
    console = Console(width=200, markup=False, highlight=False, emoji=False)
    with console.capture() as printed:
        console.print(show_timeline(status | {"createdAt": at(0)}, steps, events, START + timedelta(seconds=60)))
    return [line.rstrip() for line in printed.get().splitlines()]


def test_bars_stand_where_their_time_is() -> None:
    """One column for each of 60 seconds."""
    assert WIDTH == 60
    status = {"workflow": "fulfil", "status": "complete", "outcome": "completed", "completedAt": at(60)}
    steps = [step("activity", "charge", 0, 10), step("timer", "timer#2", 10, 60), step("activity", "ship", 59.99, 60)]
    events = [
        {"kind": "attempt", "step": "charge", "at": at(5)},
        {"kind": "takeover", "at": at(30)},
        {"kind": "takeover", "at": at(40)},
    ]
    label = "another process went on  "
    assert drawn(status, steps, events) == [
        "fulfil completed in 60 s",
        label + " " * 30 + "↯" + " " * 9 + "↯",
        "charge".ljust(25) + "━" * 5 + "×" + "━" * 5 + " " * 49 + "  10 s",
        "timer#2".ljust(25) + " " * 10 + "─" * 50 + "  50 s",
        "ship".ljust(25) + " " * 59 + "━  0.01 s",
    ]


def test_open_steps_reach_until_now_and_odd_times_stay_in_the_drawing() -> None:
    """An attempt that fails after its step was given up; a step from before the start; nothing at all."""
    status = {"workflow": "w", "status": "running", "suspended": True}
    steps = [step("deferred", "approval", 30, None, "open"), step("activity", "early", -5, 1, "dropped")]
    rows = drawn(status, steps, [{"kind": "attempt", "step": "early", "at": at(30)}])
    assert rows == [
        "w suspended in 60 s",
        "deferred approval  " + " " * 30 + "─" * 30 + "  30 s so far",
        "early".ljust(19) + "━━" + " " * 28 + "×" + " " * 29 + "  6 s, given up",
    ]
    assert drawn({"workflow": "w", "status": "complete", "outcome": "failed", "completedAt": at(0)}, [], []) == [
        "w failed in 0 s"
    ]
