"""Exec documents on their way through the transitions, for tests that need one in a certain state."""

from __future__ import annotations

from datetime import datetime, timedelta

from engine.store import transitions
from engine.store.documents import Execution
from engine.values.error_records import ErrorRecord
from engine.values.outcome import OutcomeKind

LEASE, SKEW = timedelta(seconds=30), timedelta(seconds=5)
DRIVER = "me"
"""The token of the driver that makes what only a driver may make."""


def claimed(
    execution: Execution, now: datetime, worker: str = DRIVER, lease: timedelta = LEASE, skew: timedelta = SKEW
) -> Execution:
    return transitions.claim(worker, now, lease, skew).apply(execution)


def extended(execution: Execution, now: datetime, worker: str = DRIVER, lease: timedelta = LEASE) -> Execution:
    return transitions.extend(worker, now, lease, SKEW).apply(held(execution, worker))


def suspended(
    execution: Execution, now: datetime, due_at: datetime | None = None, cause: ErrorRecord | None = None
) -> Execution:
    return transitions.suspend(DRIVER, due_at, now, cause).apply(held(execution))


def released(execution: Execution, now: datetime) -> Execution:
    return transitions.release(DRIVER, now).apply(held(execution))


def completed(
    execution: Execution,
    now: datetime,
    outcome: OutcomeKind = "completed",
    result: str | None = "1",
    error: ErrorRecord | None = None,
) -> Execution:
    return transitions.complete(DRIVER, outcome, result, error, now).apply(held(execution))


def held(execution: Execution, worker: str = DRIVER) -> Execution:
    """The execution as if this driver held it."""
    return execution.model_copy(update={"worker": worker})
