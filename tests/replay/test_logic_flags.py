"""Logic flags: an execution goes on as the engine that created it ran it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from engine import workflow
from engine.ground.errors import UnknownLogic
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment, export, replay
from engine.values.logic_flags import CURRENT
from tests.replay.record import interrupt_while_told, stop_twice
from tests.replay.recorded_workflows import WORKFLOWS, chance, torn
from tests.replay.stored.golden import HERE, load, put, take
from tests.replay.stored.program import PROGRAM

WAITING = load(HERE / "schema1/waiting.json")


@workflow(idempotency_key=lambda name: name)
async def flagged_child(name: str) -> str:
    return str(workflow.uuid4())


@workflow
async def flagged() -> str:
    return await flagged_child("one")


async def test_every_execution_carries_the_flags_of_its_creator() -> None:
    """Also a child, and a recording, which has the run's id as well."""
    async with Environment([flagged, flagged_child]) as env:
        status = await env.run(flagged)
        child = env.client.handle(flagged_child, key="one").execution_id
        for id in (status.execution_id, child):
            exported = json.loads(await export(env.store, id))["execution"]
            assert exported["logicFlags"] == list(CURRENT)
            assert exported["runId"]


async def test_without_the_flag_the_seed_is_the_executions_id() -> None:
    """O3: an execution of an engine before the flag, with the id of its run, goes on to draw what it drew."""
    async with Environment(WORKFLOWS) as env:
        id = (await env.start(chance, key="recorded chance")).execution_id
        execution = await env.store.inner.read(id)
        await env.store.inner.replace(execution.model_copy(update={"logic_flags": ()}))
        drawn = (await env.finish(id)).value()
        newer = (await env.run(chance, key="another")).value()
    assert drawn[0] == "c6f52d46-3d03-43cc-9bf3-d4dd0588c617"  # as in recordings/chance.json
    assert newer[0] != drawn[0]


@pytest.mark.parametrize(("flags", "undone", "told"), [(CURRENT, 1, 2), ((), 0, 1)], ids=["with", "without"])
async def test_without_the_flag_endings_are_as_they_were(flags: tuple[str, ...], undone: int, told: int) -> None:
    """O4, O5: the compensation that cancels itself takes the next one along, and finalizers are told once."""
    ran = []
    for script in (stop_twice, interrupt_while_told):
        async with Environment(WORKFLOWS) as env:
            id = (await env.start(torn)).execution_id
            execution = await env.store.inner.read(id)
            await env.store.inner.replace(execution.model_copy(update={"logic_flags": flags}))
            await script(env, id)
            assert (await env.status(id)).outcome == "interrupted"
            ran.append(env.ran())
    stopped, interrupted = ran
    assert stopped.count("recorded.cancel") == undone
    assert sum(step.startswith("recorded.report") for step in interrupted) == told


async def test_an_execution_with_a_later_flag_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    newer = {**WAITING.exec, "logicFlags": [*CURRENT, "of-a-later-engine"], "suspended": False}
    store = SqliteStore(":memory:")
    async with Environment(PROGRAM, store) as env:
        await put(store, [newer])
        env.clock.advance(timedelta(days=2))
        await env.drive(WAITING.execution_id)
        await env.worker.sweep()
        assert await take(store) == [newer]
    assert "is left alone" in caplog.text
    assert "of-a-later-engine" in caplog.text


async def test_a_recording_with_a_later_flag_is_a_fault() -> None:
    """It names the flag, and what to deploy."""
    async with Environment([flagged_child]) as env:
        status = await env.run(flagged_child, "two")
        recording = json.loads(await export(env.store, status.execution_id))
    recording["execution"]["logicFlags"].append("of-a-later-engine")
    with pytest.raises(UnknownLogic, match=r"of-a-later-engine.*deploy that version"):
        replay(json.dumps(recording), [flagged_child])
