"""The exec document of the model: the engine's own, with moments and counts for which only a few values matter.

The engine's predicates and its table of transitions (`engine/store/transitions.py`) are asked and applied themselves:
an `Exec` is made into an `Execution` at the moment T, changed, and read back. An `Exec` says of each time only what the
protocol can tell apart.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from engine.store import transitions
from engine.store.documents import Execution
from engine.store.transitions import Transition
from engine.values.error_records import ErrorRecord

GONE = -1
"""A token of a drive that is over."""
NOW, LEASE, TIMER_DUE = "now", "lease", "timer"
"""What `dueAt` may say: a moment that has passed, the end of the lease, or that of the timer."""

T = datetime(2026, 1, 1, tzinfo=UTC)
LEASE_TIME, SKEW = timedelta(seconds=30), timedelta(seconds=5)
LONG_AGO, RUNG, SOON = T - timedelta(minutes=2), T - timedelta(minutes=1), T + timedelta(hours=1)
CAUSE = ErrorRecord(type="Fault", message="it has to be cured")
OUTCOMES = ("completed", "failed", "interrupted", "terminated")


class Exec(NamedTuple):
    """The exec document. `live`: the lease's end, and the skew, have not passed."""

    ended: str | None = None
    suspended: bool = False
    interrupted: bool = False
    worker: int | None = None
    live: bool = False
    due: str | None = NOW
    wake: int = 0
    seen_wake: int = 0
    inbox_count: int = 0
    history_length: int = 0
    claims: int = 0
    """1 for any number of claims since there was progress, but for those that are not counted."""
    cause: bool = False
    """Whether it was suspended for something that `resume` has to cure."""

    def is_due(self, rung: bool) -> bool:
        """Whether `dueAt` has passed; `rung`: the timer's moment has."""
        due_at = as_execution(self, rung).due_at
        return due_at is not None and due_at <= T

    def is_leased(self) -> bool:
        """As `Execution.is_leased`."""
        return as_execution(self).is_leased(T, SKEW)

    def is_fresh(self) -> bool:
        """As `Execution.is_fresh`."""
        return as_execution(self).is_fresh

    def is_runnable(self, rung: bool) -> bool:
        """As `Execution.is_runnable`."""
        return as_execution(self, rung).is_runnable(T, SKEW)


@functools.cache
def as_execution(exec: Exec, rung: bool = False) -> Execution:
    """The engine's document for one of the model's, at the moment T."""
    expires = None if exec.worker is None else T + LEASE_TIME if exec.live else LONG_AGO
    dues = {NOW: T, LEASE: expires and expires + SKEW, TIMER_DUE: RUNG if rung else SOON}
    return Execution(
        execution_id="0" * 32,
        workflow="w",
        version="1",
        payload="null",
        status="complete" if exec.ended else "running",
        outcome=None if exec.ended is None else "completed" if exec.ended not in OUTCOMES else exec.ended,  # type: ignore[arg-type]
        completed_result=exec.ended,
        suspended=exec.suspended,
        interrupted=exec.interrupted,
        cause=CAUSE if exec.cause else None,
        worker=None if exec.worker is None else str(exec.worker),
        lease_expires_at=expires,
        due_at=dues.get(exec.due),  # type: ignore[arg-type]
        wake=exec.wake,
        seen_wake=exec.seen_wake,
        inbox_count=exec.inbox_count,
        history_length=exec.history_length,
        claims=exec.claims,
        created_at=LONG_AGO,
        updated_at=LONG_AGO,
    )


def as_exec(execution: Execution) -> Exec:
    """The model's document for one of the engine's."""
    expires, due_at = execution.lease_expires_at, execution.due_at
    dues = {None: None, T: NOW, RUNG: TIMER_DUE, SOON: TIMER_DUE}
    is_lease = expires is not None and due_at == expires + SKEW
    ended = execution.completed_result or execution.outcome
    return Exec(
        ended=ended if execution.is_complete else None,
        suspended=execution.suspended,
        interrupted=execution.interrupted,
        worker=None if execution.worker is None else int(execution.worker),
        live=execution.is_leased(T, SKEW),
        due=LEASE if is_lease else dues[due_at],
        wake=execution.wake,
        seen_wake=execution.seen_wake,
        inbox_count=execution.inbox_count,
        history_length=execution.history_length,
        claims=min(1, execution.claims),
        cause=execution.cause is not None,
    )


# -- the table's transitions --


def claim(worker: int) -> Transition:
    return transitions.claim(str(worker), T, LEASE_TIME, SKEW)


def extend(worker: int) -> Transition:
    return transitions.extend(str(worker), T, LEASE_TIME, SKEW)


def uncount_claim(worker: int) -> Transition:
    return transitions.uncount_claim(str(worker), T)


def suspend(worker: int, history_length: int, due: str | None) -> Transition:
    suspension = transitions.suspend(str(worker), SOON if due else None, T)
    return suspension.also(history_length=history_length)


def give_up(worker: int, keeps_token: bool) -> Transition:
    """Suspend with a cause; before the log was sealed, the token stays."""
    suspension = transitions.suspend(str(worker), None, T, CAUSE)
    return suspension.also(worker=str(worker)) if keeps_token else suspension


def release(worker: int, history_length: int) -> Transition:
    return transitions.release(str(worker), T).also(history_length=history_length)


def complete(worker: int, history_length: int, ended: str) -> Transition:
    kind = "interrupted" if ended == "interrupted" else "completed"
    result = ended if kind == "completed" else None
    return transitions.complete(str(worker), kind, result, None, T).also(history_length=history_length)  # type: ignore[arg-type]


def terminate() -> Transition:
    return transitions.terminate(T)


def resume() -> Transition:
    return transitions.resume(T)


def add_inbox_item() -> Transition:
    return transitions.add_inbox_item(T)


def interrupt() -> Transition:
    return transitions.interrupt(T)


@functools.cache
def after(exec: Exec, guarded: bool, make: Callable[..., Transition], *arguments: int | str | bool | None) -> Exec:
    """The document after a transition of the table. Unless `guarded`, also where the table doesn't allow it: one of the
    guards of the protocol is missing, and what follows is to be seen."""
    transition = make(*arguments)
    execution = as_execution(exec, rung=True)
    return as_exec(transition.apply(execution) if guarded else transition.changed(execution))
