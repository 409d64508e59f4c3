"""The model is the engine's protocol: its predicates and changes against the engine's own, over all small documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from engine import Deferred, Workflow, activity, compensate, workflow
from engine.core.run import Run
from engine.ground.errors import Conflict, Taken
from engine.store.documents import Execution, InboxItem
from engine.store.sqlite.store import SqliteStore
from engine.values.error_records import ErrorRecord
from engine.values.events import Event, Interrupted, StepResolved
from tests.verification.model.programs import INTERRUPTED, PROGRAMS, TIMER, Events, run
from tests.verification.model.state import LEASE, NOW, TIMER_DUE, Exec

T = datetime(2026, 1, 1, tzinfo=UTC)
LEASE_TIME, SKEW = timedelta(seconds=30), timedelta(seconds=5)
LONG_AGO, SOON = T - timedelta(minutes=2), T + timedelta(hours=1)
CAUSE = ErrorRecord(type="Fault", message="it has to be cured")
FIELDS = {
    "status",
    "outcome",
    "suspended",
    "interrupted",
    "worker",
    "lease_expires_at",
    "due_at",
    "wake",
    "seen_wake",
    "inbox_count",
    "history_length",
}


def documents() -> list[Exec]:
    """All exec documents of the model with small numbers."""
    holders = [(None, False), (0, True), (0, False)]
    suspensions = [(False, False), (True, False), (True, True)]
    kinds = product((None, "interrupted"), suspensions, (False, True), holders, (None, NOW, LEASE, TIMER_DUE))
    return [
        Exec(ended, suspended, interrupted, worker, live, due, *numbers, cause)
        for ended, (suspended, cause), interrupted, (worker, live), due in kinds
        for numbers in product((0, 1), repeat=5)
        if due != LEASE or worker is not None
    ]


def as_execution(exec: Exec, rung: bool = False) -> Execution:
    """The engine's document for one of the model's, at the moment T."""
    expires = None if exec.worker is None else T + LEASE_TIME if exec.live else LONG_AGO
    dues = {NOW: T, LEASE: expires and expires + SKEW, TIMER_DUE: LONG_AGO if rung else SOON}
    outcomes = {None: None, "interrupted": "interrupted", "terminated": "terminated"}
    return Execution(
        execution_id="0" * 32,
        workflow="w",
        version="1",
        payload="null",
        status="complete" if exec.ended else "running",
        outcome=outcomes.get(exec.ended, "completed"),
        suspended=exec.suspended,
        interrupted=exec.interrupted,
        cause=CAUSE if exec.cause else None,
        worker=None if exec.worker is None else str(exec.worker),
        lease_expires_at=expires,
        due_at=dues.get(exec.due),
        wake=exec.wake,
        seen_wake=exec.seen_wake,
        inbox_count=exec.inbox_count,
        history_length=exec.history_length,
        claims=exec.claims,
        created_at=LONG_AGO,
        updated_at=LONG_AGO,
    )


def facts(execution: Execution) -> dict[str, Any]:
    """What the protocol says of a document. Of claims and cause counts only whether there are any."""
    seen = execution.model_dump(include=FIELDS)
    return {**seen, "claimed": execution.claims > 0, "cause": execution.cause is not None}


@pytest.mark.parametrize("rung", [False, True])
def test_who_may_drive(rung: bool) -> None:
    """Runnable, leased, fresh and due are what the engine says."""
    for exec in documents():
        real = as_execution(exec, rung)
        assert exec.is_runnable(rung) == real.is_runnable(T, SKEW), exec
        assert exec.is_leased() == real.is_leased(T, SKEW), exec
        assert exec.is_fresh() == real.is_fresh, exec
        assert exec.is_due(rung) == (real.due_at is not None and real.due_at <= T), exec


def test_a_lease_is_due_exactly_when_it_has_expired() -> None:
    """The model knows one moment for both; the engine's are a millisecond apart, and nothing happens in it."""
    held = as_execution(Exec()).claimed("0", T, LEASE_TIME, SKEW)
    assert held.due_at == T + LEASE_TIME + SKEW
    assert held.is_leased(held.due_at, SKEW)
    assert held.is_runnable(held.due_at + timedelta(milliseconds=1), SKEW)


CHANGES: dict[str, tuple[Callable[[Exec], Exec], Callable[[Execution], Execution]]] = {
    "claimed": (lambda e: e.claimed(0), lambda e: e.claimed("0", T, LEASE_TIME, SKEW)),
    "leased": (lambda e: e.leased(0), lambda e: e.leased("0", T, LEASE_TIME, SKEW)),
    "claim uncounted": (lambda e: e.with_claim_uncounted(), lambda e: e.with_claim_uncounted(T)),
    "suspended": (lambda e: e.suspended_until(None), lambda e: e.suspended_until(None, T)),
    "suspended for a timer": (lambda e: e.suspended_until(TIMER_DUE), lambda e: e.suspended_until(SOON, T)),
    "suspended with a cause": (lambda e: e.suspended_because(), lambda e: e.suspended_because(CAUSE, T)),
    "resumed": (lambda e: e.resumed(), lambda e: e.resumed(T)),
    "released": (lambda e: e.released(), lambda e: e.released(T)),
    "completed": (lambda e: e.completed("x"), lambda e: e.completed("completed", None, None, T)),
    "terminated": (lambda e: e.terminated(), lambda e: e.terminated(T)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_the_exec_document(change: str) -> None:
    """Each leaves the document as the engine's change of that name does."""
    modelled, real = CHANGES[change]
    for exec in documents():
        if not exec.ended:
            assert facts(as_execution(modelled(exec))) == facts(real(as_execution(exec))), exec


@pytest.mark.parametrize("kind", ["value", "interrupt"])
async def test_changes_by_the_outside(kind: str) -> None:
    """A signal and an interrupt leave the document as the store does, and refuse what the model refuses."""
    store = SqliteStore()
    for number, exec in enumerate(documents()):
        if number % 7:  # each is a row: not all of them
            continue
        id = f"{number:032x}"
        await store.create(as_execution(exec).model_copy(update={"execution_id": id}))
        item = InboxItem.of("deferred", id, "D", T, '"x"')
        if kind == "interrupt":
            expected = exec if exec.ended or exec.interrupted else exec.with_interrupt()
            assert facts(await store.interrupt(id, T)) == facts(as_execution(expected)), exec
        elif exec.ended:
            with pytest.raises(Conflict):
                await store.signal(item, T)
        else:
            assert facts(await store.signal(item, T)) == facts(as_execution(exec.signalled())), exec
            with pytest.raises(Taken):
                await store.signal(InboxItem.of("deferred", id, "D", T, '"y"'), T)
            assert (await store.read_inbox(id, item.id)).value == '"x"'
    await store.close()


# -- the programs' twins --

deferreds = {"D": Deferred("model.D", str), "E": Deferred("model.E", str)}


@activity(name="A")
async def act_a() -> str:
    return "a"


@activity(name="B")
async def act_b() -> str:
    return "b"


@activity(name="C")
async def act_c() -> str:
    return "c"


@workflow
async def model_steps() -> str:
    await act_a()
    await act_b()
    return "done"


@workflow
async def model_together() -> str:
    task = asyncio.create_task(act_a())
    value = await deferreds["D"]
    await task
    return value


@workflow
async def model_after() -> str:
    compensate(act_c)
    value = await deferreds["D"]
    await act_a()
    return value


@workflow
async def model_race() -> str:
    try:
        async with asyncio.timeout(60):
            value = await deferreds["D"]
    except TimeoutError:
        value = "late"
    await act_a()
    return value


@workflow
async def model_two() -> str:
    async def receive(name: str) -> str:
        return await deferreds[name]

    return (await asyncio.gather(receive("D"), receive("E")))[0]


TWINS = {
    "steps": model_steps,
    "together": model_together,
    "after": model_after,
    "race": model_race,
    "two": model_two,
}


def replayed(twin: Workflow[Any, Any], events: Events) -> Run:
    """The twin's code, once these events have happened to it."""
    real = Run(twin, "0" * 32, "null", T)
    real.begin()
    for event in events:
        real.apply(_as_event(real, event))
    return real


def _as_event(real: Run, event: str) -> Event:
    if event == INTERRUPTED:
        return Interrupted(T)
    if event == TIMER:
        timer = next(iter(real.steps.timers.values()))
        return StepResolved(timer.id, timer.digest, timer.due, "timer")
    name, _, value = event.partition("=")
    if value:
        return StepResolved(deferreds[name].name, "", T, "deferred", f'"{value}"')
    return StepResolved(name, real.steps.activities[name].digest, T, "activity", '"done"')


def test_every_program_has_a_twin() -> None:
    assert set(TWINS) == set(PROGRAMS)


@pytest.mark.parametrize("name", TWINS)
def test_programs_are_what_their_code_does(name: str) -> None:
    """After every history, what the model's function says is open is what the engine finds open; likewise the end."""
    histories: list[Events] = [()]
    for events in histories:
        modelled, real = run(name, events), replayed(TWINS[name], events)
        if modelled.outcome is None:
            assert real.outcome is None, events
            assert set(real.steps.activities) == modelled.activities, events
            assert set(real.steps.deferreds) == {deferreds[one].name for one in modelled.deferreds}, events
            assert bool(real.steps.timers) == modelled.timer, events
        else:
            assert real.outcome is not None, events
            ended = "interrupted" if real.outcome.kind == "interrupted" else (real.outcome.value or "").strip('"')
            assert ended == modelled.outcome, events
        real.close()
        following = [*modelled.activities, *([TIMER] if modelled.timer else [])]
        following += [value for value in PROGRAMS[name].values if value[0] in modelled.deferreds]
        following += [] if INTERRUPTED in events else [INTERRUPTED]
        histories += [(*events, event) for event in following]
    assert len(histories) > 5
