"""The model is the engine's protocol: its predicates and changes against the engine's own, over all small documents."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from engine import Deferred, Workflow, activity, compensate, workflow
from engine.core.run import Run
from engine.values.events import Event, Interrupted, StepResolved
from tests.verification.model.exec import LEASE, LEASE_TIME, NOW, SKEW, TIMER_DUE, Exec, T, as_exec, as_execution, claim
from tests.verification.model.programs import INTERRUPTED, PROGRAMS, TIMER, Events, run


def documents() -> list[Exec]:
    """All exec documents of the model with small numbers."""
    holders = [(None, False), (0, True), (0, False)]
    suspensions = [(False, False), (True, False), (True, True)]
    kinds = product((None, "interrupted"), suspensions, (False, True), holders, (None, NOW, LEASE, TIMER_DUE))
    return [
        Exec(ended, suspended, interrupted, worker, live, due, *numbers, cause)  # type: ignore[arg-type, call-arg]
        for ended, (suspended, cause), interrupted, (worker, live), due in kinds
        for numbers in product((0, 1), repeat=5)
        if due != LEASE or worker is not None
    ]


def test_a_document_of_the_model_is_one_of_the_engine_and_back() -> None:
    """No two are taken for one, so the table's transitions are seen whole."""
    for exec in documents():
        assert as_exec(as_execution(exec)) == exec, exec


def test_a_lease_is_due_exactly_when_it_has_expired() -> None:
    """The model knows one moment for both; the engine's are a millisecond apart, and nothing happens in it."""
    held = claim(0).apply(as_execution(Exec()))
    assert held.due_at == T + LEASE_TIME + SKEW
    assert held.is_leased(held.due_at, SKEW)
    assert held.is_runnable(held.due_at + timedelta(milliseconds=1), SKEW)


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
