"""A drawing of what an execution did when: a bar for each step, from when the code asked for it until it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from engine.cli.display import state
from engine.cli.output import text

Json = Mapping[str, Any]

WIDTH = 60
"""Columns of the longest bar."""
WORK, WAIT = "━", "─"
"""Steps that work, and steps that wait for a time or for the outside."""
FAILED, TAKEN_OVER = "×", "↯"
WAITS = {"timer", "deferred", "channel"}


@dataclass(frozen=True)
class Scale:
    """Puts instants into columns."""

    start: datetime
    end: datetime

    def column(self, at: datetime) -> int:
        """The column of an instant, from 0 to WIDTH - 1."""
        whole = (self.end - self.start) or timedelta(microseconds=1)
        return min(max(int((at - self.start) / whole * WIDTH), 0), WIDTH - 1)

    def bar(self, start: datetime, end: datetime, body: str, marks: Iterable[datetime], mark: str) -> str:
        """A bar between two instants, with marks on it."""
        first, last = self.column(start), self.column(end)
        columns = [" "] * first + [body] * (last - first + 1)
        for at in marks:
            columns[first:] = columns[first:] + [" "] * (self.column(at) - len(columns) + 1)
            columns[self.column(at)] = mark
        return "".join(columns)


def show_timeline(status: Json, steps: Sequence[Json], events: Sequence[Json], now: datetime) -> RenderableType:
    """The drawing of one execution. `steps` and `events` are what the API says of it."""
    started = _instant(status["createdAt"])
    end = _instant(status["completedAt"]) if "completedAt" in status else max(now, started)
    scale, failed = Scale(started, end), _failed_attempts(events)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("step", "bar", "took"):
        table.add_column(name, no_wrap=True)
    takeovers = [_instant(event["at"]) for event in events if event["kind"] == "takeover"]
    if takeovers:
        marks = scale.bar(takeovers[0], takeovers[0], TAKEN_OVER, takeovers, TAKEN_OVER)
        table.add_row(text("another process went on"), text(marks, "yellow"), text(""))
    for step in steps:
        since, ended = _instant(step["since"]), _instant(step["endedAt"]) if "endedAt" in step else end
        body = WAIT if step["kind"] in WAITS else WORK
        bar = scale.bar(since, ended, body, failed.get(step["step"], ()), FAILED)
        label = step["step"] if step["kind"] in ("activity", step["name"]) else f"{step['kind']} {step['step']}"
        table.add_row(text(label), text(bar, _style(step)), text(_length(ended - since) + _open(step)))
    head = Text.assemble(text(f"{status['workflow']} ", "bold"), state(status), text(f" in {_length(end - started)}"))
    return Group(head, table)


def _failed_attempts(events: Sequence[Json]) -> dict[str, list[datetime]]:
    found = dict[str, list[datetime]]()
    for event in events:
        if event["kind"] == "attempt":
            found.setdefault(event["step"], []).append(_instant(event["at"]))
    return found


def _instant(stored: str) -> datetime:
    return datetime.fromisoformat(stored)


def _length(time: timedelta) -> str:
    """A duration for people: 0.25 s, 12.5 s, 3:05:00, 2 days, 0:00:00."""
    seconds = time.total_seconds()
    return f"{seconds:.3g} s" if seconds < 100 else str(timedelta(seconds=round(seconds)))


def _style(step: Json) -> str:
    return {"open": "yellow", "dropped": "dim"}.get(step["state"], "green")


def _open(step: Json) -> str:
    return {"open": " so far", "dropped": ", given up"}.get(step["state"], "")
