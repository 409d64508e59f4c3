"""Handing over: an invocation that can't finish its work leaves executions to another invocation, by hints.

1. A hint only names an execution. The receiver reads the exec document, and claims the execution or finds nothing to
   do. So a hint may be lost, late or doubled.
2. Each process remembers its own hints, up to a bound. This memory saves work, and nothing depends on it.
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
"""After this time the sweep hands over the same version of an execution again, because the first hint may be lost."""
REMEMBERED = 10_000
"""The most hints, and the most releases, that a process remembers."""


@dataclass(frozen=True)
class Hint:
    """An execution that has work to do, from the time `at` on (None: now)."""

    execution_id: str
    at: datetime | None = None


HandOver = Callable[[Hint], None]
"""Takes a hint for another invocation. The hint is sent when the present invocation has ended."""


class HandOvers:
    """The executions that this process let go of because an invocation was over, and those it has handed over."""

    def __init__(self) -> None:
        self._releases: OrderedDict[str, str] = OrderedDict()
        self._hints: OrderedDict[str, tuple[str, datetime]] = OrderedDict()

    def note_release(self, execution: Execution) -> None:
        """Note that a drive ended after its invocation was over. An execution that was let go between two steps must be
        handed over."""
        if execution.worker is None and not execution.suspended and not execution.is_complete:
            _remember(self._releases, execution.execution_id, execution.etag)

    def note_claim(self, execution_id: str) -> None:
        """Note that this process drives the execution again."""
        self._releases.pop(execution_id, None)

    def release_of(self, execution_id: str) -> str | None:
        """The etag of the exec document with which this execution was released, or None."""
        return self._releases.get(execution_id)

    def note_hint(self, execution_id: str, etag: str, now: datetime) -> None:
        """Note that this version is handed over."""
        _remember(self._hints, execution_id, (etag, now))

    def is_handed_over(self, execution_id: str, etag: str, now: datetime) -> bool:
        """Whether this version was handed over within REPEATED_AFTER."""
        handed, at = self._hints.get(execution_id, ("", now))
        return handed == etag and now < at + REPEATED_AFTER


def _remember(memory: OrderedDict[str, T], id: str, value: T) -> None:
    memory[id] = value
    memory.move_to_end(id)
    if len(memory) > REMEMBERED:
        memory.popitem(last=False)
