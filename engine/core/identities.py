"""The identity under which a run's code asks for its steps. It changes where a fork leaves its original.

Rules:
1. The ids of children, the random numbers and `workflow.execution_id()` follow from the identity. So the turns that a
   fork took over run under the identity of the original, as they did when they were recorded.
2. From the turn of its Forked event on, a fork has its own identity: nothing recorded depends on that turn.
3. A fork of a fork takes over more than one Forked event. Each one says until which turn its identity holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.values.events import Event, Forked


@dataclass(frozen=True)
class Identity:
    """An execution and its run, as its code sees them. `ancestors`: the executions that started it."""

    execution_id: str
    run_id: str | None
    ancestors: tuple[str, ...]

    @property
    def run(self) -> str:
        """Tells this run from all others."""
        return self.execution_id if self.run_id is None else f"{self.execution_id}/{self.run_id}"


class Identities:
    """The identities of one run, by turn. `own` is the last one. `history`: the events that will be replayed."""

    def __init__(self, own: Identity, history: Sequence[Event]) -> None:
        self._own = own
        self._taken_over = [event for event in history if isinstance(event, Forked)]

    def at(self, turn: int) -> Identity:
        """The identity in that turn. Turns are asked for in order."""
        while self._taken_over and turn >= self._taken_over[0].turn:
            del self._taken_over[0]
        if not self._taken_over:
            return self._own
        first = self._taken_over[0]
        return Identity(first.execution_id, first.run_id, first.ancestors)
