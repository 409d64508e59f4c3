"""Races inside one drive and around its end: heartbeats, news, stale reads, resumptions, steps that are given up."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from engine import AlreadyEnded, Deferred, activity, workflow
from engine.core.declarations import Workflow
from engine.ground.errors import Unavailable
from engine.store.documents import Execution
from engine.testing import Call, Environment, WatchedStore
from tests.support.crashes import check_history, echo, ledger
from tests.support.gates import Gate, nth
from tests.support.processes import PAST_LEASE, ImpatientClock, Process, until
from tests.support.stored import image

pytestmark = pytest.mark.usefixtures("every_store")

races_a = Deferred("races.a", str)
races_b = Deferred("races.b", str)
BEAT = timedelta(seconds=10)


class Stage:
    """What the activities of these tests share with them."""

    working = Gate()
    started: int
    fails: bool

    @classmethod
    def reset(cls) -> None:
        cls.working.close()
        cls.started, cls.fails = 0, True


@activity
async def races_slow() -> str:
    Stage.started += 1
    await Stage.working.passed()
    return "slow"


@activity
async def races_fails() -> str:
    Stage.started += 1
    if Stage.fails:
        raise ValueError("not yet")
    return "cured"


@workflow
async def races_both() -> str:
    slow = asyncio.create_task(races_slow())
    return await races_a + await slow


@workflow
async def races_stuck() -> str:
    await asyncio.Event().wait()
    return "never"


@workflow(suspend_on_failure=True)
async def races_holds() -> str:
    return await races_fails()


@workflow
async def races_waits() -> str:
    return await races_a


@workflow(max_parallel=1)
async def races_queues() -> str:
    tasks = [asyncio.create_task(races_slow()) for _ in range(3)]
    word = await races_a
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return word + await races_b


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", ["value", "interrupt"])
async def test_news_around_a_heartbeat_is_taken_in_and_the_lease_still_extended(kind: str, moment: str) -> None:
    """The heartbeat meets the news as a conflict: it reads, takes in, and extends the lease at once, not a beat later.
    The other way round, the news comes under a new etag, and the next write finds it."""
    Stage.reset()
    async with Environment([races_both]) as env:
        id = (await env.start(races_both)).execution_id
        driver, outside = Process(env), Process(env)
        gate = Gate(nth("replace", 1))
        setattr(driver.store, moment, gate)
        driving = await driver.drive(id)
        await Stage.working.reached.wait()
        env.clock.advance(BEAT)
        await gate.reached.wait()
        if kind == "value":
            await outside.client.resolve(id, races_a, "a")
        else:
            await outside.client.interrupt(id)
        gate.open()
        if kind == "value":
            await until(lambda: driver.store.count("replace") == 2 + (moment == "before") and bool(env.clock._waiting))
            lease = (await env.store.inner.read(id)).lease_expires_at
            assert lease == env.clock.now() + env.settings.lease
            Stage.working.open()
        elif moment == "after":
            await until(lambda: bool(env.clock._waiting))
            env.clock.advance(BEAT)
        async with asyncio.timeout(20):
            await driving
        status = await env.status(id)
        assert status.outcome == ("completed" if kind == "value" else "interrupted")
        assert status.result == ('"aslow"' if kind == "value" else None)
        await check_history(env, id)


class OldReads(WatchedStore):
    """A view whose reads of the exec document are old for a while: the first `lag` reads after a conflict."""

    def __init__(self, inner: Any, lag: int) -> None:
        super().__init__(inner)
        self._lag, self._own = lag, dict[str, Execution]()

    async def read(self, execution_id: str) -> Execution:
        fresh = await super().read(execution_id)
        own = self._own.get(execution_id)
        if own is not None and own.etag != fresh.etag and self._lag > 0:
            self._lag -= 1
            return own
        return fresh

    async def replace(self, execution: Execution) -> Execution:
        written = await super().replace(execution)
        self._own[execution.execution_id] = written
        return written


@pytest.mark.parametrize("lag", [1, 3, 5, 6, 20])
@pytest.mark.parametrize("told", [True, False], ids=["in process", "from outside"])
async def test_a_conflict_followed_by_old_reads_loses_nothing(lag: int, told: bool) -> None:
    """L9: the suspend write is refused, and the replica doesn't know why yet: read again, never write over it."""
    async with Environment([races_waits]) as env:
        env.clock = ImpatientClock()
        id = (await env.start(races_waits)).execution_id
        driver = Process(env, store=OldReads(env.store.inner, lag))
        async with driver.stopped(id, "before", nth("commit")):
            await (driver if told else Process(env)).client.resolve(id, races_a, "a")
        assert (await env.status(id)).value() == "a"
        assert (await env.store.inner.read(id)).wake == 1


async def test_steps_that_wait_for_their_turn_and_are_given_up_hold_nothing_up() -> None:
    """With max_parallel=1 two steps are still queued when all three are cancelled: the execution rests at once, not
    with the next heartbeat."""
    Stage.reset()
    async with Environment([races_queues]) as env:
        id = (await env.start(races_queues)).execution_id
        driving = env.worker.start(await env.store.inner.read(id))
        await Stage.working.reached.wait()
        await env.resolve(id, races_a, "a")
        async with asyncio.timeout(20):
            await driving
        execution = await env.store.inner.read(id)
        assert (execution.suspended, execution.worker, Stage.started) == (True, None, 1)
        await env.resolve(id, races_b, "b")
        assert (await env.drive(id)).value() == "ab"


@pytest.mark.sqlite_only("it counts on a store that answers before anything else runs")
async def test_resume_racing_a_driver_changes_nothing_of_its_run() -> None:
    """Of an execution that is being driven there is nothing to resume; nor does a second resumption do anything."""
    Stage.reset()
    async with Environment([races_both]) as env:
        id = (await env.start(races_both)).execution_id
        driving = env.worker.start(await env.store.inner.read(id))
        await Stage.working.reached.wait()
        before = await image(env, id)
        await Process(env).client.resume(id)
        assert await image(env, id) == before
        Stage.working.open()
        await env.resolve(id, races_a, "a")
        await driving
        with pytest.raises(AlreadyEnded):
            await env.client.resume(id)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("method", ["replace", "commit"])
async def test_resume_at_any_moment_of_a_second_failure(method: str, moment: str) -> None:
    """Resumed twice while a driver tries again: the step runs again once for each resumption that it didn't ignore,
    and the cause is visible again, or the second resumption has it run once more."""
    Stage.reset()
    async with Environment([races_holds]) as env:
        id = (await env.start(races_holds)).execution_id
        await env.drive(id)
        assert (await env.store.inner.read(id)).cause is not None
        await env.client.resume(id)
        driver = Process(env)
        async with driver.stopped(id, moment, nth(method)):
            await Process(env).client.resume(id)
        await env.worker.sweep()
        execution = await env.store.inner.read(id)
        assert execution.cause is not None
        assert execution.cause.message == "not yet"
        assert Stage.started == (3 if (method, moment) == ("commit", "after") else 2)
        Stage.fails = False
        await env.client.resume(id)
        await env.worker.sweep()
        assert (await env.status(id)).value() == "cured"


@pytest.mark.parametrize("one", [races_stuck, races_holds], ids=lambda w: w.name)
async def test_an_interrupt_ends_an_execution_that_is_suspended_with_a_cause(one: Workflow[..., str]) -> None:
    """Stuck, or held for a failed step, which isn't tried again for it."""
    Stage.reset()
    async with Environment([one]) as env:
        id = (await env.start(one)).execution_id
        await env.drive(id)
        assert (await env.store.inner.read(id)).cause is not None
        started = Stage.started
        await Process(env).client.interrupt(id)
        await env.worker.sweep()
        status = await env.status(id)
        assert (status.outcome, status.cause) == ("interrupted", None)
        assert Stage.started == started


@pytest.mark.parametrize("one", [races_stuck, races_holds], ids=lambda w: w.name)
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_interrupt_around_the_suspension_with_a_cause_ends_it(one: Workflow[..., str], moment: str) -> None:
    """It comes as the driver is about to give up, or has just done so."""
    Stage.reset()
    async with Environment([one]) as env:
        id = (await env.start(one)).execution_id
        driver = Process(env)
        async with driver.stopped(id, moment, nth("commit")):
            await Process(env).client.interrupt(id)
        await env.worker.sweep()
        assert (await env.status(id)).outcome == "interrupted"


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("method", ["replace", "append", "commit"])
async def test_terminate_at_any_moment_ends_it_for_good(method: str, moment: str) -> None:
    """Whoever drives it notices, writes nothing to the exec document after it, and cancels what runs."""
    Stage.reset()
    async with Environment([races_steps]) as env:
        id = (await env.start(races_steps)).execution_id
        driver = Process(env)
        async with driver.stopped(id, moment, nth(method)):
            late = (method, moment) == ("commit", "after")
            if late:
                with pytest.raises(AlreadyEnded):
                    await driver.client.terminate(id)
            else:
                await driver.client.terminate(id)
            ended = await env.store.inner.read(id)
        assert await env.store.inner.read(id) == ended
        assert ended.outcome == ("completed" if late else "terminated")
        env.clock.advance(PAST_LEASE)
        assert await env.worker.sweep() == 0


@workflow
async def races_steps() -> list[str]:
    return [await echo("a"), await echo("b")]


async def test_a_drive_that_drains_at_rest_suspends() -> None:
    """A batch's budget ends while the suspend write is under way: nothing is released that waits for the outside."""
    async with Environment([races_waits]) as env:
        id = (await env.start(races_waits)).execution_id
        env.store.before = gate = Gate(nth("commit"))
        driving = env.worker.start(await env.store.inner.read(id))
        await gate.reached.wait()
        env.worker._drives[id][0].drain()
        gate.open()
        await driving
        execution = await env.store.inner.read(id)
        assert (execution.suspended, execution.due_at, execution.worker) == (True, None, None)


async def test_a_drive_whose_store_fails_once_leaves_the_rest_to_the_lease() -> None:
    """Rule 4 of the drive: it ends, the execution doesn't: nothing is cancelled in its code, and another goes on."""
    async with Environment([races_steps]) as env:
        id = await env.start(races_steps)

        async def fail(call: Call) -> None:
            if call.method == "append" and call.of_method == 0:
                raise Unavailable("no answer")

        env.store.before = fail
        await env.drive(id)
        assert await env.worker.sweep() == 0
        env.clock.advance(PAST_LEASE)
        assert await env.worker.sweep() == 1
        assert (await env.status(id)).value() == ["a", "b"]
        assert ledger.ran == ["echo", "echo", "echo#2"]
