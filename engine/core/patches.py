"""Patches: which changes of its code a run follows.

Rules:
1. A patch is decided when the code first asks for it in a turn that no driver has run before. The decision is recorded
   with the turn, before anything that follows from it.
2. In a replay, a patch holds from the turn that its event names. In earlier turns the code ran without the patch.
3. If the event of a turn is recorded, a driver has run that turn before, and has recorded the turn's patches with the
   event. Turn 0 has no event. A driver has run it before if the history has an event of the code, or if a driver has
   let go of the execution. The same holds for the turn in which a fork leaves its original.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from engine.ground.names import checked_name
from engine.values.events import Event, Forked, Patched, Restarted, Takeover


def begins_at(history: Sequence[Event]) -> int:
    """The first turn that the run's own drivers run: 0, or the turn in which a fork leaves its original."""
    return max((event.turn for event in history if isinstance(event, Forked)), default=0)


class Patches:
    """The patches of one run. `history`: the events that will be replayed. `has_begun`: a driver has let go before."""

    def __init__(self, history: Sequence[Event], has_begun: bool) -> None:
        self._known = {event.patch: event for event in history if isinstance(event, Patched)}
        self._replayed = len(history)
        forked = max((number for number, event in enumerate(history) if isinstance(event, Forked)), default=-1)
        own = history[forked + 1 :]
        self._first = begins_at(history)
        self._is_new = not has_begun and all(isinstance(event, Restarted | Takeover) for event in own)
        self._asked: set[str] = set()
        """Patches that the code asked for in the turn that their event names."""
        self._new: list[Event] = []

    def holds(self, patch: str, turn: int, now: datetime, deprecated: bool) -> bool:
        """Whether the run follows this patch in this turn. Raises ValueError for an id that can't be recorded."""
        known = self._known.get(checked_name(patch, "patch"))
        if known is None and (turn > self._replayed or (turn == self._first and self._is_new)):
            known = self._known[patch] = Patched(now, patch, turn, deprecated)
            self._new.append(known)
        if known is None or turn < known.turn:
            return False
        if turn == known.turn:
            self._asked.add(patch)
        return True

    def is_asked(self, event: Patched) -> bool:
        """Whether the code asked for a recorded patch in the same turn as then, or no longer has to ask."""
        return event.deprecated or event.patch in self._asked

    def take_new(self) -> list[Event]:
        """The new events to record, since the last call."""
        new, self._new = self._new, []
        return new
