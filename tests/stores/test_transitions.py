"""The table of the exec document's transitions: where each is allowed, and which fields each writes.

The table at the top of `engine/store/transitions.py` is the expectation. Every small exec document is put through it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic.alias_generators import to_snake

from engine.store import transitions
from engine.store.documents import Execution, Parent
from engine.store.transitions import IllegalTransition, Transition
from tests.verification.model.exec import CAUSE, LEASE_TIME, SKEW, Exec, T, as_execution
from tests.verification.model.test_ties import documents

PARENT = Parent(execution_id="1" * 32, step="s")
OTHER = Parent(execution_id="f" * 32, step="kid")
AGAIN = PARENT.model_copy(update={"reopenings": 1})
NAMES = {"lease": "lease_expires_at", "what": "completed_result"}
OUTCOME = {
    *("outcome", "completed_result", "error", "compensation_errors", "completed_at"),
    *("suspended", "cause", "due_at", "seen_wake"),
}
LETTING_GO = {"worker", "lease_expires_at", "claims", "cause"}

ENDED_BEFORE = (OUTCOME - {"outcome"}) | {
    *("worker", "lease_expires_at", "claims", "interrupt_reason", "interrupted_by", "leftovers", "unread_values")
}
STAYS = {
    "mark for purge": {"updated_at"},
    "confirm": {"updated_at"},
    "restart": {"logged"},
    "reopen": ENDED_BEFORE,
    "reopen as a child": ENDED_BEFORE,
    "terminate": {"completed_result", "error", "compensation_errors"},
}
"""Fields that are written as they were: a running execution has no result yet."""

ENDS: tuple[dict[str, Any], ...] = tuple(
    {"ended_at": 1, **more}
    for more in (
        {},
        {"undone": ("refund",)},
        {"parents": (PARENT,)},
        {"parents": (PARENT,), "parents_notified": True},
        {"parents": (PARENT, OTHER), "parents_notified": True},
        {"purging": True},
        {"outcome": "terminated"},
    )
)
"""What decides whether an execution that has ended runs again."""

TRANSITIONS: dict[str, Transition] = {
    "claim": transitions.claim("0", T, LEASE_TIME, SKEW),
    "extend": transitions.extend("0", T, LEASE_TIME, SKEW),
    "uncount the claim": transitions.uncount_claim("0", T),
    "suspend": transitions.suspend("0", None, T, CAUSE),
    "release": transitions.release("0", T),
    "complete": transitions.complete("0", "completed", "1", CAUSE, T, (CAUSE,)),
    "discard": transitions.discard("0", 1, T),
    "restart": transitions.restart("0", "7", "run", 3, 1, T),
    "prune": transitions.prune("0", 2, T),
    "terminate": transitions.terminate(T),
    "resume": transitions.resume(T),
    "attach": transitions.attach(PARENT, T),
    "reopen": transitions.reopen(T),
    "reopen as a child": transitions.reopen(T, AGAIN),
    "detach": transitions.detach(PARENT, T),
    "confirm": transitions.confirm(),
    "mark as notified": transitions.mark_as_notified(T),
    "wake": transitions.wake(T),
    "add an inbox item": transitions.add_inbox_item(T),
    "interrupt": transitions.interrupt(T, "late", "Ada"),
    "mark for purge": transitions.mark_for_purge(as_execution(Exec())),
}

ALLOWED: dict[str, Callable[[Execution], bool]] = {
    "it is runnable": lambda e: e.is_runnable(T, SKEW),
    "running, held by this driver": lambda e: e.status == "running" and e.worker == "0",
    "running": lambda e: e.status == "running",
    "running, suspended": lambda e: e.status == "running" and e.suspended,
    "running, not interrupted yet": lambda e: e.status == "running" and not e.interrupted,
    "failed or interrupted, alone": lambda e: (
        e.outcome in ("failed", "interrupted") and e.ended_at is not None and not (e.parents or e.undone or e.purging)
    ),
    "the same, and known to one": lambda e: (
        e.outcome in ("failed", "interrupted")
        and e.ended_at is not None
        and all(parent.execution_id == AGAIN.execution_id for parent in e.parents)
        and not (e.owes or e.undone or e.purging)
    ),
    "complete": lambda e: e.status == "complete",
    "complete, its parents lack it": lambda e: e.is_complete and bool(e.parents) and not e.parents_notified,
}


def _table() -> dict[str, tuple[str, str]]:
    lines = [line for line in (transitions.__doc__ or "").splitlines() if line.startswith("| ")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: (row[1], row[3]) for row in rows}


def _written(text: str) -> set[str]:
    """The fields that the table's last column names."""
    fields = OUTCOME | {"status"} | LETTING_GO if "outcome" in text or text.startswith("as ") else set[str]()
    if text.startswith("as reopen"):
        fields |= {"interrupted", "wake", "reopenings"}
    for word in text.replace(";", ",").split(","):
        name = word.split()[0] if word.split() else ""
        if name in ("status", "outcome", "as", "nothing", "and"):
            continue
        fields.add(NAMES.get(name, to_snake(name)))
    return fields


def _all() -> list[Execution]:
    """Every small document, alone and with a parent that lacks, or has, its exit."""
    plain = [as_execution(exec) for exec in documents()[::3]]
    waited: list[dict[str, Any]] = [{}, {"parents": (PARENT,)}, {"parents": (PARENT,), "parents_notified": True}]
    return [
        execution.model_copy(update=update)
        for number, execution in enumerate(plain)
        for update in (*waited, *ENDS)
        if number % 4 == 0 or not update
    ]


def test_the_table_lists_every_transition() -> None:
    assert _table().keys() == TRANSITIONS.keys()


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_transition_is_allowed_where_the_table_says_and_writes_what_it_says(name: str) -> None:
    """Elsewhere it raises, and the document stays as it is."""
    allowed, fields = _table()[name]
    may_write = _written(fields) | {"updated_at", "write_id"}
    if name == "restart":
        may_write |= {"run_id", "logic_flags", "payload", "history_start", "restarted_at", "restarts", "logged"}
    if name in ("suspend", "release", "complete", "restart"):
        may_write |= LETTING_GO  # rule 4
    if name.startswith("reopen"):
        may_write |= {"interrupt_reason", "interrupted_by", "ended_at", "leftovers", "unread_values"}
    transition, seen = TRANSITIONS[name], set[str]()
    for execution in _all():
        before = execution.model_copy()
        if not ALLOWED[allowed](execution):
            with pytest.raises(IllegalTransition):
                transition.apply(execution)
            assert execution == before
            continue
        after = transition.apply(execution)
        changed = {one for one in Execution.model_fields if getattr(after, one) != getattr(execution, one)}
        assert changed <= may_write, execution
        assert after.updated_at == (execution.updated_at if name in ("mark for purge", "confirm") else T)
        assert after.write_id not in ("", execution.write_id)
        seen |= changed
    assert seen >= may_write - STAYS.get(name, set())


def test_what_only_its_driver_may_do_another_may_not() -> None:
    """Held by this token: not by another one, and not by nobody."""
    held = transitions.claim("0", T, LEASE_TIME, SKEW).apply(as_execution(Exec()))
    for execution in (held, held.model_copy(update={"worker": None})):
        for make in (
            transitions.release("another", T),
            transitions.suspend("another", None, T),
            transitions.extend("another", T, LEASE_TIME, SKEW),
            transitions.uncount_claim("another", T),
            transitions.complete("another", "failed", None, CAUSE, T),
        ):
            with pytest.raises(IllegalTransition, match="worker is"):
                make.apply(execution)


def test_every_time_is_the_time_of_its_maker() -> None:
    """A clock that is behind that of the creator writes what it shows: there is one rule for updatedAt."""
    early = T - timedelta(days=1)
    new = as_execution(Exec()).model_copy(update={"created_at": T, "due_at": early})
    claimed = transitions.claim("0", early, LEASE_TIME, SKEW).apply(new)
    assert claimed.updated_at == transitions.interrupt(early).apply(new).updated_at == early
