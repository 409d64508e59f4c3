"""Children that their parent gives up, or that end without it: when they hear of it, and when it hears of them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from engine import Deferred, Workflow, activity, compensate, workflow
from engine.ground.errors import Unavailable
from engine.store.base import Filter
from engine.store.documents import Execution
from engine.testing import Call, Environment
from tests.support.gates import Gate, nth
from tests.support.processes import PAST_LEASE, Process, away, fed, unanswered

drops_answer = Deferred("drops.answer", str)
drops_go = Deferred("drops.go", str)
LATE = timedelta(seconds=61)


@workflow
async def drops_child() -> str:
    return await drops_answer


@workflow
async def drops_times_out() -> str:
    try:
        async with asyncio.timeout(60):
            return await drops_child()
    except TimeoutError:
        return "late"


@workflow
async def drops_goes_on() -> str:
    try:
        async with asyncio.timeout(60):
            return await drops_child()
    except TimeoutError:
        return f"late {await drops_answer}"


@workflow
async def drops_child_only() -> str:
    return await drops_child()


@workflow
async def drops_at_once() -> str:
    child = asyncio.create_task(drops_child())
    await asyncio.sleep(0)
    child.cancel()
    return "at once"


@workflow(idempotency_key=lambda: "common")
async def drops_common() -> str:
    return await drops_answer


@activity
async def drops_step() -> None:
    pass


@workflow
async def drops_then_starts() -> str:
    given_up = asyncio.create_task(drops_common())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    await drops_step()
    await drops_common.start()
    return await drops_go


@workflow
async def drops_beside_one_that_lives_on() -> str:
    waiting, living = asyncio.create_task(drops_common()), asyncio.create_task(drops_common.child())
    for one in (waiting, living):
        await drops_step()
        one.cancel()
        await asyncio.gather(one, return_exceptions=True)
    return await drops_go


async def _then_settle(task: asyncio.Task[str]) -> None:
    await asyncio.wait([task])
    await drops_step()


@workflow
async def drops_leaves_behind() -> str:
    task = asyncio.create_task(drops_child())
    compensate(_then_settle, task)
    await asyncio.sleep(60)
    return "done"


@workflow
async def drops_common_times_out() -> str:
    try:
        async with asyncio.timeout(60):
            return await drops_common()
    except TimeoutError:
        return "late"


@workflow
async def drops_one_of_two() -> str:
    waiting = asyncio.create_task(drops_common())
    try:
        async with asyncio.timeout(60):
            await drops_common()
    except TimeoutError:
        pass
    return await waiting


@activity
async def drops_hangs() -> None:
    await asyncio.Event().wait()


@workflow
async def drops_slow() -> None:
    await drops_hangs()


@workflow
async def drops_waits_for_slow() -> None:
    await drops_slow()


ALL: list[Workflow[Any, Any]] = [
    drops_child, drops_child_only, drops_at_once, drops_common_times_out, drops_times_out, drops_goes_on, drops_common,
    drops_then_starts, drops_beside_one_that_lives_on, drops_leaves_behind, drops_one_of_two, drops_slow,
    drops_waits_for_slow,
]  # fmt: skip


async def the_child(env: Environment, workflow: Workflow[[], Any]) -> Execution:
    (child,) = (await env.store.inner.list(Filter(workflow=workflow.name), 10)).executions
    return child


@pytest.mark.parametrize("one", [drops_times_out, drops_goes_on], ids=lambda w: w.name)
async def test_a_child_is_interrupted_once_what_dropped_it_is_recorded(one: Workflow[[], str]) -> None:
    """Write-ahead: the parent ends, or goes on, after the timeout. Its chunk is lost. Had the child heard by then, its
    end would be there for the next driver before the timeout that caused it."""
    async with Environment(ALL) as env:
        id = (await env.start(one)).execution_id
        await env.settle()
        env.clock.advance(LATE)
        process, child = Process(env), (await the_child(env, drops_child)).execution_id
        asked_of_child: list[str] = []

        async def lose(call: Call) -> None:
            if call.method in ("append", "commit"):
                for _ in range(10):
                    await asyncio.sleep(0)  # whatever else was begun comes to the store
                asked_of_child.extend(c.method for c in process.store.calls if c.arguments[0] == child)
                raise away(call)

        process.store.before = lose
        await (await process.drive(id))
        assert process.store.count("append", "commit") == 1
        assert asked_of_child == []
        env.clock.advance(PAST_LEASE)
        await env.settle()
        if one is drops_goes_on:
            await env.resolve(id, drops_answer, "but well")
        assert (await env.finish(id)).value().startswith("late")
        assert (await the_child(env, drops_child)).outcome == "interrupted"


async def test_a_lost_interrupt_of_a_child_is_sent_again() -> None:
    """The drop is recorded, and the parent waits; the driver dies before the child hears of it."""
    async with Environment(ALL) as env:
        id = (await env.start(drops_goes_on)).execution_id
        await env.settle()
        env.clock.advance(LATE)
        process = Process(env)
        process.store.before = dying = Gate(nth("interrupt"))
        await process.drive(id)
        await dying.reached.wait()
        await process.die(id)
        env.clock.advance(PAST_LEASE)
        await env.settle()
        assert (await the_child(env, drops_child)).outcome == "interrupted"


@pytest.mark.parametrize("one", [drops_child_only, drops_times_out, drops_goes_on], ids=lambda w: w.name)
async def test_a_child_that_a_frozen_driver_creates_late_is_over(one: Workflow[[], str]) -> None:
    """It stands still before it creates the child. The next driver gives the child up, because of an interrupt or of a
    timeout, and had never begun it: when the late one goes on, there is nothing for anybody to run."""
    async with Environment(ALL) as env:
        id = (await env.start(one)).execution_id
        late = Process(env)
        late.store.before = gate = Gate(nth("create"), and_all_after=True)
        driving = await late.drive(id)
        await gate.reached.wait()
        if one is drops_child_only:
            await env.client.interrupt(id)
            env.clock.advance(PAST_LEASE)
        env.clock.advance(LATE)
        await env.worker.sweep()
        gate.open()
        await driving
        await env.settle()
        assert (await the_child(env, drops_child)).outcome == "terminated"
        assert (await env.status(id)).is_complete == (one is not drops_goes_on)


async def test_a_child_that_was_given_up_at_once_leaves_no_trace() -> None:
    """By the first driver: nobody else can be about to create it."""
    async with Environment(ALL) as env:
        assert (await env.run(drops_at_once)).value() == "at once"
        assert (await env.store.inner.list(Filter(workflow=drops_child.name), 10)).executions == []


async def test_a_child_with_a_key_is_nobody_s_to_end() -> None:
    """Given up before it was there: whoever starts it by that key gets a run."""
    async with Environment(ALL) as env:
        id = (await env.start(drops_common_times_out)).execution_id
        late = Process(env)
        late.store.before = gate = Gate(nth("create"), and_all_after=True)
        await late.drive(id)
        await gate.reached.wait()
        env.clock.advance(LATE)
        await env.worker.sweep()
        assert (await env.status(id)).value() == "late"
        common = await env.start(drops_common)
        await env.resolve(common, drops_answer, "it runs")
        assert (await env.finish(common)).value() == "it runs"
        await late.die(id)


async def test_a_child_with_a_key_that_a_frozen_driver_creates_late_runs() -> None:
    """A limit that the guide names: it can't be told from one that somebody started by that key. It can be ended."""
    async with Environment(ALL) as env:
        id = (await env.start(drops_common_times_out)).execution_id
        late = Process(env)
        late.store.before = gate = Gate(nth("create"), and_all_after=True)
        driving = await late.drive(id)
        await gate.reached.wait()
        env.clock.advance(LATE)
        await env.worker.sweep()
        assert (await env.status(id)).value() == "late"
        gate.open()
        await driving
        await env.settle()
        child = await the_child(env, drops_common)
        assert (child.status, child.interrupted, child.creator) == ("running", False, id)
        await env.client.interrupt(child.execution_id)
        assert (await env.finish(child.execution_id)).outcome == "interrupted"


async def test_a_child_that_another_step_waits_for_is_not_interrupted() -> None:
    """Two steps wait for one child; one of them times out."""
    async with Environment(ALL) as env:
        id = await env.start(drops_one_of_two)
        await env.settle()
        env.clock.advance(LATE)
        await env.settle()
        child = await the_child(env, drops_common)
        assert not child.interrupted
        await env.resolve(child.execution_id, drops_answer, "it came")
        assert (await env.finish(id)).value() == "it came"


@pytest.mark.parametrize("one", [drops_then_starts, drops_beside_one_that_lives_on], ids=lambda w: w.name)
@pytest.mark.parametrize("evict", [False, True])
async def test_a_child_that_is_to_live_on_is_not_interrupted_by_a_replay(one: Workflow[[], str], evict: bool) -> None:
    """A step of its key was given up, before or while another one asked for it to live on. Whoever replays goes through
    the drop once more."""
    async with Environment(ALL, evict=evict) as env:
        id = await env.start(one)
        await env.settle()
        await env.resolve(id, drops_go, "go")
        await env.settle()
        child = await the_child(env, drops_common)
        assert not child.interrupted
        await env.resolve(child.execution_id, drops_answer, "it lives")
        assert (await env.finish(child.execution_id)).value() == "it lives"


async def test_an_interrupt_that_opens_an_ended_workflow_again_finds_its_children() -> None:
    """It has ended, and tells a child that it left behind. That one has ended too; then the interrupt comes, and a
    compensation waits for the child."""
    async with Environment(ALL) as env:
        id = (await env.start(drops_leaves_behind)).execution_id
        await env.settle()
        env.clock.advance(LATE)
        env.store.before = gate = Gate(lambda call: call.method == "interrupt" and call.arguments[0] != id)
        driving = asyncio.create_task(env.drive(id))
        await gate.reached.wait()
        child = (await the_child(env, drops_child)).execution_id
        process = Process(env)
        await process.client.resolve(child, drops_answer, "x")
        await (await process.drive(child))
        await process.client.interrupt(id)
        gate.open()
        await driving
        execution = await env.finish(id)
        assert (execution.outcome, execution.cause) == ("interrupted", None)


async def test_the_last_step_that_waits_for_a_child_interrupts_it() -> None:
    """The parent is interrupted: both steps give up."""
    async with Environment(ALL) as env:
        id = await env.start(drops_one_of_two)
        await env.settle()
        await env.client.interrupt(id)
        assert (await env.finish(id)).outcome == "interrupted"
        await env.settle()
        assert (await the_child(env, drops_common)).outcome == "interrupted"


async def test_a_termination_that_a_drive_is_told_of_reaches_the_parent_at_once() -> None:
    """The feed hands the ended child to the process that drives it. Its parent isn't left to the next sweep."""
    async with Environment(ALL) as env:
        id = await env.start(drops_waits_for_slow)
        await env.drive(id)
        child = (await the_child(env, drops_slow)).execution_id
        process = Process(env)
        process.store.after = running = Gate(nth("replace"))
        driving = await process.drive(child)
        await running.reached.wait()
        await Process(env).client.terminate(child)
        running.open()
        await process.worker.drive_changes(await fed(env, child))
        await driving
        assert not (await env.store.inner.read(child)).owes
        await env.settle()
        assert (await env.status(id)).outcome == "failed"


async def test_what_a_store_that_is_away_keeps_from_a_parent_is_told_later() -> None:
    """An Unavailable is raised, for the host to give the batch again; the debt stays."""
    async with Environment(ALL) as env:
        await env.drive(await env.start(drops_waits_for_slow))
        child = (await the_child(env, drops_slow)).execution_id
        await env.client.terminate(child)
        process = Process(env)
        process.store.before = unanswered("signal")
        with pytest.raises(Unavailable):
            await process.worker.drive_changes(await fed(env, child))
        assert (await env.store.inner.read(child)).owes
