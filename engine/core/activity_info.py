"""What an activity may know of its own call, while it runs."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass


@dataclass(frozen=True)
class ActivityInfo:
    """What an activity may know of its call. `attempt` counts from 1."""

    execution_id: str
    workflow: str
    step: str
    attempt: int
    run_id: str | None = None
    """Tells this run of the execution from an earlier one, which was purged."""

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step, and for no other step, execution or run. Hand it to systems that
        drop repeats."""
        run = f".{self.run_id}" if self.run_id else ""
        return f"{self.execution_id}{run}-{self.step}"


current: contextvars.ContextVar[ActivityInfo] = contextvars.ContextVar("activity_info")


def current_info() -> ActivityInfo:
    """Of the activity that is running here. Raises RuntimeError outside of one."""
    try:
        return current.get()
    except LookupError:
        raise RuntimeError("activity.info() is for the code of an activity that a workflow called") from None
