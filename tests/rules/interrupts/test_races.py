"""An interrupt races with everything: accepted, it is never downgraded, the reply agrees with the final status, and
the execution ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from engine import Deferred, Retry, activity, workflow
from engine.boundary.status import Status
from engine.core.declarations import Workflow
from engine.testing import Call, Environment
from tests.support.crashes import check_history, echo
from tests.support.gates import Gate, nth
from tests.support.processes import Process

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

interrupts_answer = Deferred("interrupts.answer", str)


class Stage:
    """What the activities of these tests share with them."""

    on_turn: Callable[[], Awaitable[None]] | None
    working = Gate()
    cancelled: int
    runs: int

    @classmethod
    def reset(cls) -> None:
        cls.on_turn, cls.cancelled, cls.runs = None, 0, 0
        cls.working.close()


@activity
async def interrupts_turn() -> None:
    Stage.runs += 1
    if Stage.on_turn is not None:
        await Stage.on_turn()


@activity
async def interrupts_hangs() -> str:
    Stage.runs += 1
    try:
        await Stage.working.passed()
    except asyncio.CancelledError:
        Stage.cancelled += 1
        raise
    return "never"


@activity
def interrupts_blocks() -> str:
    Stage.runs += 1
    Stage.working.passed_in_thread()
    return "late"


@activity(retry=Retry(max_attempts=9, first_delay=timedelta(minutes=1), jitter=False))
async def interrupts_fails() -> str:
    Stage.runs += 1
    raise OSError("try later")


@workflow
async def interrupts_loop() -> None:
    while True:
        await interrupts_turn()


@workflow
async def interrupts_short() -> str:
    return await echo("done")


@workflow
async def interrupts_no_steps() -> str:
    return "done"


@workflow
async def interrupts_waits() -> str:
    return await interrupts_answer


@workflow
async def interrupts_sleeps() -> str:
    await asyncio.sleep(3600)
    return "slept"


@workflow
async def interrupts_backs_off() -> str:
    return await interrupts_fails()


@workflow
async def interrupts_swallows() -> str:
    try:
        return await interrupts_answer
    except asyncio.CancelledError:
        return "swallowed"


@workflow
async def interrupts_async_activity() -> str:
    return await interrupts_hangs()


@workflow
async def interrupts_sync_activity() -> str:
    return await interrupts_blocks()


@SLOW
@pytest.mark.parametrize("inside", [True, False], ids=["in process", "from outside"])
@pytest.mark.parametrize("offset", range(50))
async def test_an_interrupt_in_a_loop_ends_it_within_a_turn(offset: int, inside: bool) -> None:
    """E1: at 200 offsets: in the activity of each turn, and after each store call. Told in the process, at most one
    more turn begins; from outside the heartbeat finds it, and time passes with each turn."""
    for place in ("turn", "call"):
        Stage.reset()
        async with Environment([interrupts_loop]) as env:
            id = (await env.start(interrupts_loop)).execution_id
            driver = Process(env)
            interrupter = Interrupter(env, driver if inside else Process(env), id)

            async def in_turn(interrupter: Interrupter = interrupter) -> None:
                await interrupter(Stage.runs > offset)

            async def after_call(call: Call, interrupter: Interrupter = interrupter) -> None:
                await interrupter(call.number >= offset)

            if place == "turn":
                Stage.on_turn = in_turn
            else:
                driver.store.after = after_call
            async with asyncio.timeout(20):
                await (await driver.drive(id))
            assert interrupter.asked_in_turn is not None
            assert interrupter.told == (inside and (place, offset) != ("call", 0))
            assert Stage.runs - interrupter.asked_in_turn <= (1 if interrupter.told else 6)
            assert (await env.status(id)).outcome == "interrupted"
            await check_history(env, id)


class Interrupter:
    """Interrupts an execution once; after that, time passes. `told`: its driver is in this process, and known by then
    (while its claim is under way it isn't)."""

    def __init__(self, env: Environment, process: Process, id: str) -> None:
        self._env, self._process, self._id = env, process, id
        self.asked_in_turn: int | None = None
        self.told = False

    async def __call__(self, is_time: bool) -> None:
        if self.asked_in_turn is not None:
            self._env.clock.advance(timedelta(seconds=2))
        elif is_time:
            self.asked_in_turn = Stage.runs
            self.told = self._process.worker.running(self._id) is not None
            assert (await self._process.client.interrupt(self._id)).interrupted


def _agrees(reply: Status, final: Status) -> None:
    assert final.is_complete
    assert final.interrupted == reply.interrupted
    assert final.outcome == ("interrupted" if reply.interrupted else "completed")
    if reply.is_complete:
        assert reply == final


@pytest.mark.parametrize("one", [interrupts_short, interrupts_no_steps], ids=lambda w: w.name)
@pytest.mark.parametrize("method", ["replace", "commit"])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("inside", [True, False], ids=["in process", "from outside"])
async def test_an_interrupt_around_claim_and_completion(
    one: Workflow[..., str], method: str, moment: str, inside: bool
) -> None:
    """E7: before and after the effect of the claim and of the completion. The reply says accepted or too late, and the
    status agrees with it for ever."""
    async with Environment([one]) as env:
        id = (await env.start(one)).execution_id
        driver = Process(env)
        async with driver.stopped(id, moment, nth(method)):
            reply = await (driver if inside else Process(env)).client.interrupt(id)
            assert reply.interrupted == (not (method == "commit" and moment == "after"))
        _agrees(reply, await env.status(id))
        assert (await env.client.interrupt(id)) == await env.status(id)
        await check_history(env, id)


PARKED = [interrupts_waits, interrupts_sleeps, interrupts_backs_off, interrupts_swallows]


@pytest.mark.parametrize("one", PARKED, ids=lambda w: w.name)
@pytest.mark.parametrize("when", ["before start", "before suspending", "after suspending", "parked"])
async def test_an_interrupt_around_a_suspension(one: Workflow[..., str], when: str) -> None:
    """E5: waiting for the outside, for a timer, for a retry: it ends as interrupted in one sweep, at the present time,
    and code that swallows the cancellation doesn't make it a success."""
    Stage.reset()
    async with Environment([one]) as env:
        id = (await env.start(one)).execution_id
        driver, outside = Process(env), Process(env)
        gate = Gate(nth("commit"))
        if when == "before start":
            assert (await outside.client.interrupt(id)).interrupted
        elif when != "parked":
            setattr(driver.store, "before" if when == "before suspending" else "after", gate)
        driving = await driver.drive(id)
        if "suspending" in when:
            await gate.reached.wait()
            assert (await outside.client.interrupt(id)).interrupted
            gate.open()
        await driving
        if when == "parked":
            assert (await outside.client.interrupt(id)).interrupted
        at = env.clock.now()
        await env.worker.sweep()
        status = await env.status(id)
        assert (status.outcome, status.result, env.clock.now()) == ("interrupted", None, at)
        assert Stage.runs <= 1
        assert (await env.store.inner.due(env.clock.now() + timedelta(days=999), 10)).executions == []


async def test_an_interrupt_cancels_a_running_async_activity() -> None:
    """E1, E2: told in the process at once; the activity is cancelled, and not recorded."""
    Stage.reset()
    async with Environment([interrupts_async_activity]) as env:
        id = (await env.start(interrupts_async_activity)).execution_id
        driving = env.worker.start(await env.store.inner.read(id))
        await Stage.working.reached.wait()
        reply = await env.client.interrupt(id)
        await driving
        _agrees(reply, await env.status(id))
        assert (Stage.runs, Stage.cancelled) == (1, 1)


async def test_an_interrupt_does_not_wait_for_a_sync_activity() -> None:
    """E8: it can't be stopped: the execution ends without it, and its late result confuses nothing."""
    Stage.reset()
    async with Environment([interrupts_sync_activity]) as env:
        id = (await env.start(interrupts_sync_activity)).execution_id
        driving = env.worker.start(await env.store.inner.read(id))
        await Stage.working.reached.wait()
        await env.client.interrupt(id)
        await driving
        status = await env.status(id)
        assert status.outcome == "interrupted"
        before = await env.store.inner.load(id)
        Stage.working.open()
        await asyncio.get_running_loop().run_in_executor(env.worker._threads._pool, lambda: None)
        await env.settle()
        assert (await env.store.inner.load(id), await env.status(id)) == (before, status)
        assert Stage.runs == 1


async def test_interrupts_from_everywhere_at_once_are_one() -> None:
    """Repeated and parallel interrupts: one event, and `wake` grows once."""
    async with Environment([interrupts_waits]) as env:
        id = (await env.start(interrupts_waits)).execution_id
        await env.drive(id)
        replies = await asyncio.gather(*(Process(env).client.interrupt(id) for _ in range(20)))
        assert all(reply.interrupted for reply in replies)
        assert (await env.store.inner.read(id)).wake == 1
        await env.settle()
        chunks = (await env.store.inner.load(id)).chunks
        assert [event["kind"] for chunk in chunks for event in chunk.events] == ["interrupted"]
