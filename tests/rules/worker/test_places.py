"""Batches, places and the budget of a trigger: one execution never holds up, or fails, the others."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
from datetime import timedelta

import pytest

from engine import Deferred, activity, workflow
from engine.driving.places import Place, Places
from engine.ground.errors import Unavailable
from engine.testing import Call, Environment, ManualClock
from engine.testing.environment import TEST_SETTINGS
from tests.support.crashes import echo
from tests.support.gates import Gate, nth
from tests.support.processes import SWEEPS_NEW_AFTER, Process, fed, nothing, until
from tests.support.stored import overwrite, store_of

ONE_HELD = dataclasses.replace(TEST_SETTINGS, max_held=1, batch_budget=timedelta(0))
ONE_COMPUTES = dataclasses.replace(TEST_SETTINGS, max_drives=1)
PATIENCE = 20
"""Seconds after which a test that hangs fails; nothing else depends on it."""

places_answer = Deferred("places.answer", str)
working = Gate()


@activity
async def places_long() -> str:
    await working.passed()
    return "long"


@workflow
async def places_works_long() -> str:
    return await places_long()


@workflow
async def places_quick() -> str:
    return await echo("quick")


@workflow
async def places_parent() -> str:
    return await places_quick()


@workflow
async def places_waits() -> str:
    return await places_answer


async def test_a_batch_does_not_wait_for_an_execution_that_holds_the_process() -> None:
    """Rule 3 of the worker: this process may hold one execution, and that runs a long activity. The trigger gets its
    batch back, and the execution that found no room is done by a later sweep."""
    working.close()
    async with Environment([places_works_long, places_quick], settings=ONE_HELD) as env:
        long, quick = (await env.start(places_works_long)).execution_id, (await env.start(places_quick)).execution_id
        driving = env.worker.start(await env.store.inner.read(long))
        await working.reached.wait()
        batch = await fed(env, long, quick)
        async with asyncio.timeout(PATIENCE):
            await env.worker.drive_changes(batch)
        assert not (await env.status(quick)).is_complete
        working.open()
        await driving
        assert (await env.status(long)).value() == "long"
        env.clock.advance(SWEEPS_NEW_AFTER)
        assert await env.worker.sweep() == 1
        await env.settle()  # so small a budget may end between two steps: then the feed hands it on
        assert (await env.status(quick)).value() == "quick"


async def test_who_waits_for_an_activity_leaves_the_place_to_others() -> None:
    """Q2: of the executions that this process holds one computes at a time, and those with a long activity don't."""
    working.close()
    async with Environment([places_works_long, places_quick], settings=ONE_COMPUTES) as env:
        long = [(await env.start(places_works_long)).execution_id for _ in range(3)]
        driving = [env.worker.start(await env.store.inner.read(id)) for id in long]
        await working.reached.wait()
        quick = (await env.start(places_quick)).execution_id
        async with asyncio.timeout(PATIENCE):
            await env.worker.drive_changes(await fed(env, quick))
        assert (await env.status(quick)).value() == "quick"
        working.open()
        await asyncio.gather(*driving)
        assert [(await env.status(id)).value() for id in long] == ["long"] * 3


def _has_beaten(env: Environment, before: int) -> bool:
    return env.store.count("replace") > before


async def test_a_drive_that_waits_for_its_place_keeps_its_lease() -> None:
    """Q2: its activity has ended, others compute for longer than a lease, and its heartbeats go out all the same."""
    working.close()
    async with Environment([places_works_long, places_quick], settings=ONE_COMPUTES) as env:
        long, quick = (await env.start(places_works_long)).execution_id, (await env.start(places_quick)).execution_id
        waiting = env.worker.start(await env.store.inner.read(long))
        await working.reached.wait()
        computes = Gate(lambda call: call.method == "commit" and call.arguments[0].execution_id == quick)
        env.store.before = computes
        computing = env.worker.start(await env.store.inner.read(quick))
        await computes.reached.wait()
        working.open()
        for _ in range(6):
            env.clock.advance(TEST_SETTINGS.heartbeat)
            await until(functools.partial(_has_beaten, env, env.store.count("replace")))
        assert (await env.store.inner.read(long)).is_leased(env.clock.now(), timedelta(0))
        assert not waiting.done()
        computes.open()
        await asyncio.gather(waiting, computing)
        assert (await env.status(long)).value() == "long"


async def test_a_batch_larger_than_the_places_is_driven_to_its_end() -> None:
    """Executions take their turn at the places: no deadlock, none left out."""
    settings = dataclasses.replace(TEST_SETTINGS, max_drives=2)
    async with Environment([places_parent, places_quick], settings=settings) as env:
        ids = [(await env.start(places_parent)).execution_id for _ in range(10)]
        batch = await fed(env, *ids)
        async with asyncio.timeout(PATIENCE):
            await env.worker.drive_changes(batch)
        await env.settle()
        assert [(await env.status(id)).value() for id in ids] == ["quick"] * 10


async def test_a_store_that_fails_a_claim_after_the_budget_is_not_hidden() -> None:
    """A claim that fails once the budget is over still makes the host give the batch again."""
    settings = dataclasses.replace(TEST_SETTINGS, batch_budget=timedelta(0))
    async with Environment([places_quick], settings=settings) as env:
        id = (await env.start(places_quick)).execution_id
        batch = await fed(env, id)
        gate = Gate(nth("replace"))

        async def fail(call: Call) -> None:
            await gate(call)
            raise Unavailable("the store is away")

        env.store.before = fail
        driving = asyncio.ensure_future(env.worker.drive_changes(batch))
        await gate.reached.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        gate.open()
        with pytest.raises(Unavailable):
            await driving


@pytest.mark.parametrize("body", ['{"id": "exec"}', "[]", "not JSON"])
async def test_a_document_that_is_destroyed_between_feed_and_claim_fails_no_batch(
    body: str, caplog: pytest.LogCaptureFixture
) -> None:
    """L2: the claim's conflict leads to a read of what can't be read; the others of the batch go on."""
    async with Environment([places_quick]) as env:
        bad, good = (await env.start(places_quick)).execution_id, (await env.start(places_quick)).execution_id
        batch = await fed(env, bad, good)
        await overwrite(env, bad, "exec", body)
        with caplog.at_level(logging.ERROR, "engine"):
            await env.worker.drive_changes(batch)
        assert (await env.status(good)).value() == "quick"
        assert bad in caplog.text


async def test_a_child_whose_result_is_unreadable_fails_no_batch(caplog: pytest.LogCaptureFixture) -> None:
    """L2: what goes wrong while a parent is told is the child's own trouble."""
    async with Environment([places_parent, places_quick]) as env:
        parent, good = (await env.start(places_parent)).execution_id, (await env.start(places_quick)).execution_id
        await env.drive(parent)
        child = next(e for e in await _executions(env) if e not in (parent, good))

        async def break_it(call: Call) -> None:
            if call.method == "signal":
                raise ValueError("a bug of ours")

        env.store.before = break_it
        with caplog.at_level(logging.ERROR, "engine"):
            await env.worker.drive_changes(await fed(env, child, good))
        assert (await env.status(good)).value() == "quick"
        assert child in caplog.text
        env.store.before = nothing
        assert (await env.finish(parent)).value() == "quick"


async def _executions(env: Environment) -> list[str]:
    query = "SELECT execution_id FROM documents WHERE id = 'exec'"
    return [id for (id,) in await store_of(env)._read(lambda db: db.execute(query).fetchall())]


@pytest.mark.parametrize("method", ["replace", "commit"], ids=["claim", "suspend"])
async def test_news_that_comes_between_a_write_and_its_answer_is_driven(method: str) -> None:
    """During the claim no drive is known yet, and the suspend write finds out. After the suspend write the drive looks
    again before it is gone. No feed, no sweep."""
    async with Environment([places_waits]) as env:
        id = (await env.start(places_waits)).execution_id
        env.store.after = gate = Gate(nth(method))
        driving = asyncio.ensure_future(env.worker.drive(await env.store.inner.read(id)))
        await gate.reached.wait()
        await env.resolve(id, places_answer, "news")
        assert method == "commit" or env.worker.running(id) is None, "the drive was known too early for this test"
        gate.open()
        await driving
        assert (await env.status(id)).value() == "news"


async def test_an_execution_that_a_sweep_meets_while_it_is_driven_is_left_to_its_driver() -> None:
    """A signal makes an execution due at once; the sweeps of this and of another process leave it alone."""
    working.close()
    async with Environment([places_works_long]) as env:
        id = (await env.start(places_works_long)).execution_id
        other = Process(env)
        driving = asyncio.ensure_future(env.worker.drive(await env.store.inner.read(id)))
        await working.reached.wait()
        await Process(env).client.resolve(id, places_answer, "early")
        claims = env.store.count("replace")
        async with asyncio.timeout(PATIENCE):
            assert await other.worker.sweep() == 1
            assert await env.worker.sweep() == 1
        assert (env.store.count("replace"), other.store.count("replace")) == (claims, 0)
        working.open()
        await driving
        assert (await env.status(id)).value() == "long"


async def test_a_place_that_comes_as_its_waiter_gives_up_goes_to_another() -> None:
    """It is given up after the waiting and before the waiter has heard of it: nobody keeps it, and it isn't lost."""
    places = Places(held=3, computing=1)
    first, second, third = [await places.enter()], Place(places), Place(places)

    class Ending(ManualClock):
        async def wait(self, event: asyncio.Event, seconds: float) -> None:
            await asyncio.sleep(0)
            first.pop().give_up()

    assert not await second.take_within(Ending(), 1)
    await asyncio.wait_for(third.take(), PATIENCE)
    assert places.free == 0
    third.give_up()
    assert await second.take_within(ManualClock(), 1)
