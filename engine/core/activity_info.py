"""What a running activity may know about its own call."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass


@dataclass(frozen=True)
class ActivityInfo:
    """What an activity may know about its call. `attempt` counts from 1."""

    execution_id: str
    workflow: str
    step: str
    attempt: int
    run_id: str | None = None
    """Tells this run of the execution from an earlier one, which was purged."""
    key: str | None = None
    """The idempotency key of the execution, if its workflow derives one from the payload."""

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for every attempt of this step, and differs for every other step, execution and run.
        Pass it to systems that ignore repeated requests with one key."""
        run = f".{self.run_id}" if self.run_id else ""
        return f"{self.execution_id}{run}-{self.step}"


current: contextvars.ContextVar[ActivityInfo] = contextvars.ContextVar("activity_info")


def current_info() -> ActivityInfo:
    """The info of the activity that is running here. Raises RuntimeError outside an activity."""
    try:
        return current.get()
    except LookupError:
        raise RuntimeError("activity.info() is for the code of an activity that a workflow called") from None
