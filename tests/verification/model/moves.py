"""What may happen next, and what it takes."""

from __future__ import annotations

from typing import NamedTuple

from tests.verification.model.state import State


class Move(NamedTuple):
    """What may happen next. `who`: the driver's number, or None for the outside and time; `wrong`: the rule that it
    breaks."""

    label: str
    next: State
    who: int | None = None
    fair: bool = True
    wrong: str | None = None


def fault(state: State) -> State:
    """That state, after one fault more."""
    return state._replace(faults=state.faults - 1, started=None)
