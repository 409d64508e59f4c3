"""Quarantine: an execution whose drivers die again and again is suspended, so that it does no more harm.

1. Each claim counts until there is progress. Before the history is read nobody knows of progress, so the limit is twice
   as high there. `Lease.load` lowers the count if there was some.
2. The claim of the driver that checks isn't counted: that driver is alive.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.ground.errors import Quarantined
from engine.store.documents import Execution
from engine.values.events import AttemptFailed, Begun, Event, StepHeld, StepResolved


def check_before_load(execution: Execution, max_claims: int) -> None:
    """Raises Quarantined if drivers keep dying before they have read the history."""
    before = execution.claims - 1
    if before >= 2 * max_claims:
        raise Quarantined(
            f"claimed {before} times in a row: its driver dies each time, before it has read what is stored. Find "
            "out what that is, then resume it."
        )


def check_progress(execution: Execution, max_claims: int, history: Sequence[Event]) -> None:
    """Raises Quarantined if drivers keep dying without progress."""
    before = execution.claims - 1
    if before >= max_claims:
        raise Quarantined(
            f"claimed {before} times in a row without any progress: its driver dies each time, in what follows "
            f"{_last_step(history)}. {_place(execution)}Find out what it does, then resume it."
        )


def _place(execution: Execution) -> str:
    return f"The workflow was at work at {execution.at_work}. " if execution.at_work else ""


def _last_step(history: Sequence[Event]) -> str:
    """What was recorded last, for people."""
    steps = (
        event.step for event in reversed(history) if isinstance(event, StepResolved | AttemptFailed | StepHeld | Begun)
    )
    return f"step {step}" if (step := next(steps, None)) is not None else "its beginning"
