"""Patches: which changes of its code a run goes by.

Rules:
1. A patch is decided where the code asks for it first in a turn that no driver has run before. It is recorded then,
   with the turn, before anything that follows from it.
2. In a replay a patch holds from the turn that its event names. In the turns before that one, the code went without it.
3. A turn whose event is recorded was run before: whoever recorded the event recorded the turn's patches with it. Turn 0
   has no event. It was run before if anything is recorded of the code, or if a driver has let the execution go.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from engine.ground.names import checked_name
from engine.values.events import Event, Patched, Restarted, Takeover


class Patches:
    """The patches of one run, whose `history` is about to be replayed. `has_begun`: a driver has let it go before."""

    def __init__(self, history: Sequence[Event], has_begun: bool) -> None:
        self._known = {event.patch: event for event in history if isinstance(event, Patched)}
        self._replayed = len(history)
        self._is_new = not has_begun and all(isinstance(event, Restarted | Takeover) for event in history)
        self._asked: set[str] = set()
        """Those for which the code asked in the turn that their event names."""
        self._new: list[Event] = []

    def holds(self, patch: str, turn: int, now: datetime, deprecated: bool) -> bool:
        """Whether the run goes by this patch from this turn on. Raises ValueError for an id that can't be recorded."""
        known = self._known.get(checked_name(patch, "patch"))
        if known is None and (turn > self._replayed or (turn == 0 and self._is_new)):
            known = self._known[patch] = Patched(now, patch, turn, deprecated)
            self._new.append(known)
        if known is None or turn < known.turn:
            return False
        if turn == known.turn:
            self._asked.add(patch)
        return True

    def is_asked(self, event: Patched) -> bool:
        """Whether the code asked for a recorded patch where it did when that was recorded, or may have stopped to."""
        return event.deprecated or event.patch in self._asked

    def take_new(self) -> list[Event]:
        """What is to be recorded since the last call."""
        new, self._new = self._new, []
        return new
