"""What the model's guards `clock-before-write` and `load-again` say, of the engine itself: a lease's time counts from
before the write that took it, however late the answer comes; and who extends its lease before the seal loads again."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from engine import Deferred, Retry, activity, workflow
from engine.testing import Environment
from tests.support.crashes import check_history
from tests.support.gates import Gate, nth
from tests.support.processes import PAST_LEASE, Process, until

BEAT = timedelta(seconds=10)
late_value = Deferred("model.late", str)


class Stage:
    """What the activities of these tests share with them."""

    started: list[str]
    working = Gate()

    @classmethod
    def reset(cls) -> None:
        cls.started = []
        cls.working.close()


@activity
async def late_first() -> str:
    Stage.started.append("first")
    return "first"


@activity
async def late_slow() -> str:
    await Stage.working.passed()
    return "slow"


@activity(retry=Retry(max_attempts=5, first_delay=2 * BEAT, jitter=False))
async def late_flaky() -> str:
    Stage.started.append("flaky")
    if len(Stage.started) == 1:
        raise ConnectionError("not yet")
    return "flaky"


@workflow
async def late_claims() -> str:
    return await late_first() + await late_slow()


@workflow
async def late_beats() -> str:
    slow = asyncio.create_task(late_slow())
    return await late_flaky() + await slow


@workflow
async def late_waits() -> str:
    return await late_value


async def test_a_claim_whose_answer_comes_after_its_lease_starts_nothing() -> None:
    """Another has taken over meanwhile, and has recorded the step that the first one would start."""
    Stage.reset()
    async with Environment([late_claims]) as env:
        id = (await env.start(late_claims)).execution_id
        old, new = Process(env), Process(env)
        old.store.after = gate = Gate(nth("replace"))
        claiming = await old.drive(id)
        await gate.reached.wait()
        env.clock.advance(PAST_LEASE)
        driving = await new.drive(id)
        await until(lambda: new.store.count("append") == 2)  # the seal, and the first step's result
        gate.open()
        async with asyncio.timeout(20):
            await claiming
            Stage.working.open()
            await driving
        assert Stage.started == ["first"]
        assert (await env.status(id)).value() == "firstslow"
        await check_history(env, id)


async def test_a_heartbeat_whose_answer_comes_after_its_lease_starts_nothing() -> None:
    """Likewise a retry that has become due: nothing has to be recorded before it starts."""
    Stage.reset()
    async with Environment([late_beats]) as env:
        id = (await env.start(late_beats)).execution_id
        old, new = Process(env), Process(env)
        old.store.after = gate = Gate(nth("replace", 1))
        beating = await old.drive(id)
        await until(lambda: old.store.count("append") == 1)  # the failed attempt
        env.clock.advance(BEAT)
        await gate.reached.wait()
        env.clock.advance(PAST_LEASE)
        driving = await new.drive(id)
        await until(lambda: new.store.count("append") == 2)
        gate.open()
        async with asyncio.timeout(20):
            await beating
            Stage.working.open()
            await driving
        assert Stage.started == ["flaky", "flaky"]
        assert (await env.status(id)).value() == "flakyslow"
        await check_history(env, id)


async def test_a_value_that_comes_between_a_load_and_a_late_seal_is_seen() -> None:
    """The driver's load takes so long that it has to extend its lease before it seals. What comes meanwhile makes that
    a conflict; the exec document that it then reads counts a value that its load didn't show."""
    async with Environment([late_waits]) as env:
        id = (await env.start(late_waits)).execution_id
        first, second = Process(env), Process(env)
        first.store.before = dying = Gate(nth("commit"))
        await first.drive(id)
        await dying.reached.wait()
        await first.die(id)
        env.clock.advance(PAST_LEASE)
        second.store.after = gate = Gate(nth("load"))
        driving = await second.drive(id)
        await gate.reached.wait()
        env.clock.advance(BEAT)
        await env.resolve(id, late_value, "seen")
        gate.open()
        async with asyncio.timeout(20):
            await driving
        await env.worker.sweep()
        assert (await env.status(id)).is_complete
        assert (await env.status(id)).value() == "seen"
        await check_history(env, id)
