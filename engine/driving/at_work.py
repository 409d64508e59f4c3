"""The place in the author's source where a driver is at work, stored before the work may end the driver's process.

1. Only the last driver before a quarantine stores places. The first recorded step ends that.
2. A place is stored before the code goes on from there, and before activities start that were asked for there. So it is
   known also of code that stops its whole process.
"""

from __future__ import annotations

import inspect

from engine.core.activity import plain
from engine.core.run import Run
from engine.core.steps import ActivityStep, ChildStep
from engine.core.trace import Asked, Trace, line_of
from engine.driving.lease import Lease
from engine.values.events import Event, Interrupted, StepResolved

MAX_NOTES = 50
"""The most places that one driver stores. Code that takes many waiting values isn't held up for longer."""
MAX_PLACES = 3
"""The most places in one note."""


class AtWork:
    """Stores, under `lease`, where the code of `run` is at work."""

    def __init__(self, lease: Lease, run: Run) -> None:
        self._lease = lease
        self._run = run
        self._trace = Trace(run)
        self._left = MAX_NOTES

    async def before_the_beginning(self) -> None:
        """The code is about to begin. Raises LeaseLost, StoreError."""
        await self._note(str(line_of(inspect.unwrap(plain(self._run.workflow.function)).__code__)))

    async def before(self, event: Event) -> None:
        """The code is about to take in an event. Raises LeaseLost, StoreError."""
        if isinstance(event, StepResolved):
            waiting = [each for each in self._open() if (each.kind, each.step) == (event.kind, event.step)]
            await self._note(_shown(waiting, "after"))
        elif isinstance(event, Interrupted):
            await self._note(_shown(self._open(), "after"))

    async def before_starting(self) -> None:
        """Activities and children are about to start. Raises LeaseLost, StoreError."""
        asked = [each for each in self._open() if isinstance(each.target, ActivityStep | ChildStep)]
        if asked:
            await self._note(_shown(asked, "in"))

    def _open(self) -> list[Asked]:
        return [each for each in self._trace.asked if each.ended is None]

    async def _note(self, place: str | None) -> None:
        self._left -= 1
        if self._left >= 0:
            await self._lease.note_place(place if self._left else None)


def _shown(asked: list[Asked], where: str) -> str | None:
    places = [f"{each.lines[0]}, {where} {each.kind} {each.step}" for each in asked if each.lines]
    more = f", and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
    return "; ".join(places[:MAX_PLACES]) + more or None
