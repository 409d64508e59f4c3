"""Handing over: what one invocation can't drive to an end is left to another, as a hint.

1. A hint names an execution and nothing else that counts. Whoever gets it reads the exec document and claims it, or
   finds nothing to do. So a hint may be lost, late or doubled.
2. The memory of hints is one process's own, and bounded. It saves work, and nothing depends on it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from engine.store.documents import Execution

T = TypeVar("T")

REPEATED_AFTER = timedelta(seconds=60)
"""When the sweep hands over the same version of an execution again: its hint may be lost."""
REMEMBERED = 10_000
"""Hints that a process remembers."""


@dataclass(frozen=True)
class Hint:
    """Which execution there is something to do in, and from when on (None: now)."""

    execution_id: str
    at: datetime | None = None


HandOver = Callable[[Hint], None]
"""Takes a hint for another invocation. It is sent when the present invocation has ended."""


class HandOvers:
    """What this process let go of because an invocation was over, and what it has handed over."""

    def __init__(self) -> None:
        self._releases: OrderedDict[str, str] = OrderedDict()
        self._hints: OrderedDict[str, tuple[str, datetime]] = OrderedDict()

    def note_release(self, execution: Execution) -> None:
        """An invocation was over. If this execution was let go between two steps, it has to be handed over."""
        if execution.worker is None and not execution.suspended and not execution.is_complete:
            _remember(self._releases, execution.execution_id, execution.etag)

    def note_claim(self, execution_id: str) -> None:
        """It is driven here again."""
        self._releases.pop(execution_id, None)

    def release_of(self, execution_id: str) -> str | None:
        """The version in which this execution was let go so, if it was. It is a version of the exec document."""
        return self._releases.get(execution_id)

    def note_hint(self, execution_id: str, etag: str, now: datetime) -> None:
        """That version is handed over."""
        _remember(self._hints, execution_id, (etag, now))

    def is_handed_over(self, execution_id: str, etag: str, now: datetime) -> bool:
        """Whether that version was handed over a short while ago."""
        handed, at = self._hints.get(execution_id, ("", now))
        return handed == etag and now < at + REPEATED_AFTER


def _remember(memory: OrderedDict[str, T], id: str, value: T) -> None:
    memory[id] = value
    memory.move_to_end(id)
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)
