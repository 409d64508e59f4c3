"""Many workers, wrong clocks, stale views: one owner at a time, and everything ends with no manual step."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

import pytest

from engine import activity, workflow
from engine.ground.errors import Unavailable
from engine.testing import Call, Environment
from tests.support.crashes import check_history, echo, ledger
from tests.support.gates import Gate, nth
from tests.support.processes import PAST_LEASE, SWEEPS_NEW_AFTER, Process, SkewedClock, fed
from tests.support.stored import image

MINUTES = timedelta(minutes=1)


working = Gate()
"""Where the activity waits in its first run."""


@activity
async def ownership_slow() -> str:
    if not working.reached.is_set():
        await working.passed()
        return "of the first"
    return "of the second"


@workflow
async def ownership_steps() -> list[str]:
    return [await echo("a"), await echo("b")]


@workflow
async def ownership_slowly() -> list[str]:
    return [await ownership_slow(), await echo("b")]


@workflow
async def ownership_sleeps() -> str:
    await asyncio.sleep(600)
    return "slept"


async def test_one_batch_given_to_two_workers_200_times() -> None:
    """L4: each execution alone in a batch, and all in one: one history, each activity once."""
    async with Environment([ownership_steps]) as env:
        first, second = Process(env), Process(env)
        ids = [(await env.start(ownership_steps)).execution_id for _ in range(200)]
        for id in ids[:100]:
            batch = await fed(env, id)
            await asyncio.gather(first.worker.drive_changes(batch), second.worker.drive_changes(batch))
        batch = await fed(env, *ids[100:])
        await asyncio.gather(first.worker.drive_changes(batch), second.worker.drive_changes(batch[::-1]))
        for id in ids:
            assert (await env.status(id)).value() == ["a", "b"]
            await check_history(env, id)
        assert sorted(ledger.ran) == ["echo"] * 200 + ["echo#2"] * 200
        driven = first.store.count("commit"), second.store.count("commit")
        assert sum(driven) == 200
        assert min(driven) > 0, "one of them never won a race"


@pytest.mark.parametrize("skew", [-5 * MINUTES, 5 * MINUTES], ids=["behind", "ahead"])
async def test_a_driver_whose_clock_is_wrong_ends_its_execution(skew: timedelta) -> None:
    """L7: alone, five minutes behind or ahead: through claim, heartbeats and completion, beside a right sweeper that
    runs all the time. Behind, its lease looks expired to the other, which takes over; no step is recorded twice."""
    working.close()
    async with Environment([ownership_slowly]) as env:
        id = (await env.start(ownership_slowly)).execution_id
        wrong, right = Process(env, SkewedClock(env.clock, skew)), Process(env)
        driving = await wrong.drive(id)
        await working.reached.wait()
        await right.worker.sweep()
        working.open()
        await driving
        expected = "of the second" if skew < timedelta(0) else "of the first"
        assert (await env.status(id)).value() == [expected, "b"]
        await check_history(env, id)


@pytest.mark.parametrize("skew", [-5 * MINUTES, 5 * MINUTES], ids=["behind", "ahead"])
async def test_an_execution_goes_back_and_forth_between_wrong_clocks(skew: timedelta) -> None:
    """L7, L9: each process dies in turn; the time that the code sees never runs backwards, and the timer fires once,
    never before its time by the clock of the one that fires it."""
    async with Environment([ownership_sleeps]) as env:
        id = (await env.start(ownership_sleeps)).execution_id
        clocks = [SkewedClock(env.clock, skew), env.clock]
        for turn in range(4):  # fewer than would quarantine it
            process = Process(env, clocks[turn % 2])  # type: ignore[arg-type]
            process.store.before = gate = Gate(nth("commit"))
            driving = await process.drive(id)
            await gate.reached_by(driving)
            await process.die(id)
            env.clock.advance(PAST_LEASE + 5 * MINUTES)
        status = await env.finish(id)
        assert status.value() == "slept"
        events = [e for chunk in (await env.store.inner.load(id)).chunks for e in chunk.decoded()]
        timers = [event for event in events if event.kind == "timer"]
        assert len(timers) == 1
        assert timers[0].at >= status.created_at + timedelta(seconds=600)


async def test_two_sweepers_on_one_snapshot() -> None:
    """L9: both read the same page, then drive it: one owner each, everything ends, nothing runs twice."""
    async with Environment([ownership_steps]) as env:
        ids = [(await env.start(ownership_steps)).execution_id for _ in range(40)]
        env.clock.advance(SWEEPS_NEW_AFTER)
        first, second = Process(env), Process(env)
        first.store.after = snapshot = Gate(nth("due"))
        sweeping = asyncio.ensure_future(first.worker.sweep())
        await snapshot.reached.wait()
        await second.worker.sweep()
        snapshot.open()
        assert await sweeping == 40
        assert sorted(ledger.ran) == ["echo"] * 40 + ["echo#2"] * 40
        for id in ids:
            assert (await env.status(id)).value() == ["a", "b"]
            await check_history(env, id)
        assert first.store.count("commit") == 0


@pytest.mark.parametrize("first", [0, 1, 5, 40, 90])
async def test_a_store_that_goes_away_in_mid_sweep_strands_nobody(first: int) -> None:
    """L9: from any call of the sweep on, for 30 calls; then later sweeps finish everything."""
    async with Environment([ownership_steps]) as env:
        ids = [(await env.start(ownership_steps)).execution_id for _ in range(40)]
        env.clock.advance(SWEEPS_NEW_AFTER)
        process = Process(env)

        async def lose(call: Call) -> None:
            if first <= call.number < first + 30:
                raise Unavailable("no answer")

        process.store.before = lose
        while process.store.count() < first + 30:
            with contextlib.suppress(Unavailable):
                await process.worker.sweep()
        for _ in range(2):
            env.clock.advance(PAST_LEASE)
            await process.worker.sweep()
        for id in ids:
            assert (await env.status(id)).value() == ["a", "b"]
            await check_history(env, id)


async def test_a_process_that_dies_with_many_executions_strands_none() -> None:
    """L1: killed in the middle of a batch that is never given again; the sweep finds each of them."""
    async with Environment([ownership_steps]) as env:
        ids = [(await env.start(ownership_steps)).execution_id for _ in range(40)]
        process = Process(env)
        process.store.before = gate = Gate(lambda call: call.number == 100)
        driving = asyncio.ensure_future(process.worker.drive_changes(await fed(env, *ids)))
        await gate.reached.wait()
        for id in ids:
            await process.die(id)
        driving.cancel()
        await asyncio.wait([driving])
        assert False in [(await env.status(id)).is_complete for id in ids]
        env.clock.advance(PAST_LEASE)
        await env.worker.sweep()
        for id in ids:
            assert (await env.status(id)).value() == ["a", "b"]
            await check_history(env, id)


async def test_a_live_lease_keeps_everyone_else_away() -> None:
    """Sweeps, batches and calls by hand of other processes write nothing while the heartbeats come."""
    working.close()
    async with Environment([ownership_slowly]) as env:
        id = (await env.start(ownership_slowly)).execution_id
        owner = Process(env)
        driving = await owner.drive(id)
        await working.reached.wait()
        for _ in range(6):
            before = await image(env, id)
            stranger = Process(env)
            await stranger.worker.sweep()
            await stranger.worker.drive_changes(await fed(env, id))
            await (await stranger.drive(id))
            assert await image(env, id) == before
            owner.store.after = beat = Gate(lambda call: call.method == "replace")
            env.clock.advance(timedelta(seconds=10))
            await beat.reached.wait()
            beat.open()
        working.open()
        await driving
        assert (await env.status(id)).value() == ["of the first", "b"]
