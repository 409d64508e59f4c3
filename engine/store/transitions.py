"""The transitions of the exec document: every change that may happen to it, in which state, and what it writes.

Nothing else changes an exec document. A Patch needs no version in hand: SQLite applies it in its transaction, and
Cosmos DB gets patch operations and a predicate that are made from it. A Replacement is made from a version that was
read, and is written under the etag of that version.

| transition        | allowed while                 | by          | writes, beside `updatedAt` |
| ---               | ---                           | ---         | --- |
| claim             | it is runnable                | a driver    | worker, lease, dueAt, suspended, cause; claims + 1 |
| extend            | running, held by this driver  | its driver  | lease, dueAt |
| uncount the claim | running, held by this driver  | its driver  | claims - 1 |
| suspend           | running, held by this driver  | its driver  | suspended, cause, dueAt, seenWake |
| release           | running, held by this driver  | its driver  | suspended, dueAt |
| complete          | running, held by this driver  | its driver  | status, outcome and what belongs to it |
| discard           | running, held by this driver  | its driver  | inboxCount |
| restart           | running, held by this driver  | its driver  | suspended, dueAt, inboxCount, and a run begins |
| prune             | running, held by this driver  | its driver  | staleFrom |
| terminate         | running                       | the outside | as complete; wake + 1 |
| resume            | running, suspended            | the outside | suspended, cause, claims, dueAt; wake + 1 |
| reopen            | failed or interrupted, alone  | the outside | as complete, interrupted; wake + 1, reopenings + 1 |
| reopen as a child | the same, and known to one    | a parent    | as reopen; parents, parentsNotified |
| attach            | running                       | a parent    | parents |
| detach            | running                       | a parent    | parents |
| confirm           | running                       | a parent    | nothing |
| mark as notified  | complete, its parents lack it | anybody     | parentsNotified, dueAt |
| wake              | running                       | a limit     | dueAt; wake + 1 |
| add an inbox item | running                       | a patch     | dueAt; wake + 1, inboxCount + 1 |
| interrupt | running, not interrupted yet | a patch | interrupted, interruptReason, interruptedBy, dueAt; wake + 1 |
| mark for purge    | complete                      | a patch     | dueAt, purging |

Rules:
1. A transition whose guard doesn't hold raises IllegalTransition, and changes nothing.
2. `status` goes from running to complete. After that only `parentsNotified`, `dueAt` and `purging` change, unless the
   execution is reopened. Reopening requires that nobody but the parent who asks for it knows its end, that none of its
   compensations has run, and that its purge hasn't begun.
3. `interrupted` goes back to false only when the execution is reopened. `wake`, `historyLength` and `seenWake` never
   shrink. `inboxCount` shrinks only together with the items that it counts, at a restart.
4. A new execution that is driven where it is started is created with the claim in it: its first version is what the
   claim makes of a document that nobody has stored yet.
5. A driver that lets go (suspend, release, complete, restart) clears worker, lease and claims. A driver that could not
   seal the history leaves its token in `worker`, without a lease, so that the next driver seals it. A driver
   that extends its lease, suspends or releases also writes `heartbeats` and `parked`. The end of a run empties them.
6. Each transition sets `updatedAt` to its writer's time, and `writeId` to a fresh id. The mark for a purge and the
   confirmation keep `updatedAt`, because nothing has happened to the execution.
7. `dueAt` is the time at which somebody must look next. While a driver holds the execution, it is the lease's end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Self

from pydantic.alias_generators import to_camel

from engine.ground.clock import from_seconds
from engine.ground.errors import Conflict
from engine.store.documents import Execution, Parent, new_write_id
from engine.values.error_records import ErrorRecord
from engine.values.logic_flags import CURRENT
from engine.values.outcome import OutcomeKind

Guard = Mapping[str, str | bool]
"""The fields of the exec document that decide whether a transition is allowed, each with its required value."""
Fields = Mapping[str, Any]
"""Fields of the exec document by their Python names, each with its new value."""

IS_RUNNING: Guard = {"status": "running"}
CAN_BE_INTERRUPTED: Guard = {"status": "running", "interrupted": False}
IS_SUSPENDED: Guard = {"status": "running", "suspended": True}
IS_COMPLETE: Guard = {"status": "complete"}


def is_held_by(token: str) -> Guard:
    """The guard of transitions that only the driver with this token may make."""
    return {"status": "running", "worker": token}


class IllegalTransition(Conflict):
    """The exec document is in a state that doesn't allow this transition."""


@dataclass(frozen=True)
class Transition:
    """One change of the exec document: a guard, and the fields that it writes."""

    name: str
    guard: Guard
    set: Fields = field(default_factory=dict)
    """Fields, each with its new value."""
    increment: tuple[str, ...] = ()
    """Fields that grow by one."""

    def is_allowed(self, execution: Execution) -> bool:
        """Whether the guard holds."""
        return all(getattr(execution, name) == value for name, value in self.guard.items())

    def changed(self, execution: Execution) -> Execution:
        """The execution with the transition's changes, whether or not the guard holds."""
        grown = {name: getattr(execution, name) + 1 for name in self.increment}
        return execution.model_copy(update={"write_id": new_write_id(), **self.set, **grown})

    def apply(self, execution: Execution) -> Execution:
        """The execution after the transition. Raises IllegalTransition if the guard doesn't hold."""
        if not self.is_allowed(execution):
            state = ", ".join(f"{name} is {getattr(execution, name)!r}" for name in self._decisive())
            raise IllegalTransition(f"execution {execution.execution_id} doesn't allow to {self.name}: {state}")
        return self.changed(execution)

    def also(self, **fields: Any) -> Self:
        """The same transition, but it also writes these fields."""
        return replace(self, set={**self.set, **fields})

    def _decisive(self) -> tuple[str, ...]:
        return tuple(self.guard)


@dataclass(frozen=True)
class Patch(Transition):
    """A transition that a store can make by itself, whatever others write at the same time."""


@dataclass(frozen=True)
class Condition:
    """A condition beyond the values of single fields, and the fields that it reads."""

    holds: Callable[[Execution], bool]
    fields: tuple[str, ...]


@dataclass(frozen=True)
class Replacement(Transition):
    """A transition made from a version in hand, and written under its etag."""

    condition: Condition | None = None
    derived: Callable[[Execution], Fields] | None = None
    """Computes further changes from the version in hand."""

    def is_allowed(self, execution: Execution) -> bool:
        return super().is_allowed(execution) and (self.condition is None or self.condition.holds(execution))

    def changed(self, execution: Execution) -> Execution:
        derived = self.derived(execution) if self.derived is not None else {}
        return super().changed(execution.model_copy(update=derived))

    def _decisive(self) -> tuple[str, ...]:
        return (*self.guard, *(self.condition.fields if self.condition else ()))


# -- a driver's --


def claim(token: str, now: datetime, lease: timedelta, skew: timedelta) -> Replacement:
    """Take an execution for the driver with this token. The claim counts until there is progress."""
    runnable = Condition(
        lambda execution: execution.is_runnable(now, skew),
        ("worker", "lease_expires_at", "suspended", "wake", "seen_wake", "due_at"),
    )
    held = {**_held(now, lease, skew), "worker": token, "suspended": False, "cause": None}
    return Replacement("claim it", IS_RUNNING, held, ("claims",), runnable)


def extend(token: str, now: datetime, lease: timedelta, skew: timedelta) -> Replacement:
    """The heartbeat: hold the execution for another `lease`."""
    return Replacement("extend the lease", is_held_by(token), _held(now, lease, skew))


def uncount_claim(token: str, now: datetime) -> Replacement:
    """Lower the count of claims by one."""

    def derived(execution: Execution) -> Fields:
        return {"claims": max(0, execution.claims - 1)}

    return Replacement("uncount the claim", is_held_by(token), {"updated_at": now}, derived=derived)


def suspend(
    token: str, due_at: datetime | None, now: datetime, cause: ErrorRecord | None = None, claims: int = 0
) -> Replacement:
    """Let go and wait: for `due_at` and news, or, with a cause, until the cause is cured."""
    changes = {**_let_go(now), "suspended": True, "due_at": due_at, "cause": cause, "claims": claims}
    return Replacement("suspend it", is_held_by(token), changes, derived=_all_is_seen)


def release(token: str, now: datetime) -> Replacement:
    """Let go between two steps. The next driver continues at once."""
    changes = {**_let_go(now), "suspended": False, "due_at": now}
    return Replacement("release it", is_held_by(token), changes)


def complete(
    token: str,
    outcome: OutcomeKind,
    result: str | None,
    error: ErrorRecord | None,
    now: datetime,
    compensation_errors: tuple[ErrorRecord, ...] = (),
) -> Replacement:
    """Let go of an execution that has ended. `result` is JSON text, or None if it has its own document."""
    changes = _ended(now, outcome, result, error, compensation_errors)
    return Replacement("complete it", is_held_by(token), changes, derived=lambda e: _owed_or_kept(e, now))


def ends(transition: Transition) -> bool:
    """Whether the execution has ended with this transition."""
    return transition.set.get("status") == "complete"


def discard(token: str, items: int, now: datetime) -> Replacement:
    """Before a restart, delete this number of inbox items that the run has read. The history holds their values."""
    return Replacement("discard items", is_held_by(token), {"updated_at": now}, derived=_without(items))


def restart(token: str, payload: str | None, run_id: str, start: int, items: int, now: datetime) -> Replacement:
    """Let go, so that the next driver begins a new run. `start` is the first chunk of the new run's history. `items` is
    the number of inbox items that the old run has read, and that are deleted. `payload` is None if only the new run's
    first event holds it."""
    changes = {
        **_let_go(now),
        "suspended": False,
        "due_at": now,
        "run_id": run_id,
        "logic_flags": CURRENT,
        "payload": payload,
        "history_start": start,
        "restarted_at": now,
        "logged": 0,
        "heartbeats": {},
        "parked": {},
    }
    return Replacement("restart it", is_held_by(token), changes, ("restarts",), derived=_without(items))


def prune(token: str, stale_from: int, now: datetime) -> Replacement:
    """Delete chunks of earlier runs. The chunks before `stale_from` are then gone."""
    return Replacement("prune it", is_held_by(token), {"stale_from": stale_from, "updated_at": now})


# -- the outside's, and of parents --


def wake(now: datetime) -> Replacement:
    """Let an execution look at a limit: its turn may have come."""
    return Replacement("wake it", IS_RUNNING, {"due_at": now, "updated_at": now}, ("wake",))


def terminate(now: datetime) -> Replacement:
    """End an execution at once, even while a driver holds it."""
    changes = _ended(now, "terminated", None, None, ())
    return Replacement("terminate it", IS_RUNNING, changes, ("wake",), derived=lambda e: _owed_or_kept(e, now))


def resume(now: datetime) -> Replacement:
    """Let a suspended execution run again, whatever its cause."""
    changes = {"suspended": False, "cause": None, "claims": 0, "due_at": now, "updated_at": now}
    return Replacement("resume it", IS_SUSPENDED, changes, ("wake",))


def reopen(now: datetime, waiting: Parent | None = None) -> Replacement:
    """Let an execution that failed or was interrupted run again. `waiting`: the parent that asks for it, and that then
    waits for the next end."""
    asks = waiting.execution_id if waiting is not None else None
    allowed = Condition(
        lambda execution: (
            execution.outcome in ("failed", "interrupted")
            and not (execution.owes or execution.undone or execution.purging)
            and all(parent.execution_id == asks for parent in execution.parents)
            and execution.ended_at is not None
        ),
        ("outcome", "parents", "parents_notified", "undone", "purging", "ended_at"),
    )
    changes = {
        **dict.fromkeys(("outcome", "completed_result", "error", "completed_at", "ended_at", "cause")),
        **{
            "status": "running",
            "suspended": False,
            "interrupted": False,
            "interrupt_reason": None,
            "interrupted_by": None,
        },
        **{
            "compensation_errors": (),
            "leftovers": (),
            "last_events": None,
            "unread_values": 0,
            "parents": (waiting,) if waiting is not None else (),
            "parents_notified": False,
            "claims": 0,
            "due_at": now,
            "updated_at": now,
        },
    }
    return Replacement("reopen it", IS_COMPLETE, changes, ("wake", "reopenings"), allowed)


def attach(parent: Parent, now: datetime) -> Replacement:
    """Add a parent that waits for the execution's end."""

    def derived(execution: Execution) -> Fields:
        return {"parents": (*execution.parents, parent)}

    return Replacement("attach to it", IS_RUNNING, {"updated_at": now}, derived=derived)


def detach(parent: Parent, now: datetime) -> Replacement:
    """Remove a parent that no longer waits for the execution's end."""

    def derived(execution: Execution) -> Fields:
        return {"parents": tuple(one for one in execution.parents if one != parent)}

    return Replacement("detach from it", IS_RUNNING, {"updated_at": now}, derived=derived)


def confirm() -> Replacement:
    """Change nothing. If this write succeeds, the version in hand was the newest one at that moment."""
    return Replacement("confirm it", IS_RUNNING)


def mark_as_notified(now: datetime) -> Replacement:
    """Note that all parents have the exit of a child."""
    owing = Condition(lambda execution: execution.owes, ("parents", "parents_notified"))

    def derived(execution: Execution) -> Fields:
        return {"due_at": _kept_until(execution, execution.completed_at or now)}

    changes = {"parents_notified": True, "updated_at": now}
    return Replacement("mark its parents as notified", IS_COMPLETE, changes, condition=owing, derived=derived)


def add_inbox_item(now: datetime) -> Patch:
    """Note that a document was added to the inbox."""
    return Patch("add an inbox item", IS_RUNNING, {"due_at": now, "updated_at": now}, ("wake", "inbox_count"))


def interrupt(now: datetime, reason: str | None = None, by: str | None = None) -> Patch:
    """Ask an execution to stop and clean up."""
    why = {"interrupted": True, "interrupt_reason": reason} | ({"interrupted_by": by} if by else {})
    changes = {**why, "due_at": now, "updated_at": now}
    return Patch("interrupt it", CAN_BE_INTERRUPTED, changes, ("wake",))


def mark_for_purge(execution: Execution) -> Patch:
    """Set `dueAt` to the execution's end, so that the sweep finishes a purge that was cut off. It is written under the
    etag."""
    changes = {"due_at": execution.completed_at or execution.updated_at, "purging": True}
    return Patch("purge it", IS_COMPLETE, changes)


def stored_name(name: str) -> str:
    """The name that a field has in stored documents."""
    return to_camel(name)


def _held(now: datetime, lease: timedelta, skew: timedelta) -> dict[str, Any]:
    until = now + lease
    return {"lease_expires_at": until, "due_at": until + skew, "updated_at": now}


def _let_go(now: datetime) -> dict[str, Any]:
    return {"worker": None, "lease_expires_at": None, "claims": 0, "at_work": None, "cause": None, "updated_at": now}


def _ended(
    now: datetime,
    outcome: OutcomeKind,
    result: str | None,
    error: ErrorRecord | None,
    compensation_errors: tuple[ErrorRecord, ...],
) -> dict[str, Any]:
    return {
        **_let_go(now),
        "status": "complete",
        "suspended": False,
        "outcome": outcome,
        "completed_result": result,
        "error": error,
        "compensation_errors": compensation_errors,
        "completed_at": now,
        "heartbeats": {},
        "parked": {},
    }


def _without(items: int) -> Callable[[Execution], Fields]:
    return lambda execution: {"inbox_count": execution.inbox_count - items}


def _all_is_seen(execution: Execution) -> Fields:
    return {"seen_wake": execution.wake}


def _owed_or_kept(execution: Execution, now: datetime) -> Fields:
    """An ended execution is due at once if it has parents to notify, otherwise at the end of its retention."""
    return {"seen_wake": execution.wake, "due_at": now if execution.parents else _kept_until(execution, now)}


def _kept_until(execution: Execution, ended: datetime) -> datetime | None:
    if execution.retention_seconds is None:
        return None
    return from_seconds(ended.timestamp() + execution.retention_seconds)
