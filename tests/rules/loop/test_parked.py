"""Suspension is not an exception: no code of a workflow hears of it, of a store that fails, or of its own eviction."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine import Deferred, Workflow, activity, workflow
from engine.ground.errors import StoreError, Unavailable
from engine.store.wrapper import Call
from engine.testing import Environment
from tests.support.recovery import Scenario, completes, survives_crashes
from tests.support.steps import journal, say

answer = Deferred("parked.answer", str)
never = Deferred("parked.never", str)
left: list[str] = []
"""What code of workflows did on its way out."""


@workflow
async def swallows_everything() -> list[str]:
    trace: list[str] = []
    for number in range(3):
        try:
            trace.append(await say(str(number)))
        except BaseException as error:
            trace.append(f"caught {error!r}")
        try:
            await asyncio.sleep(60)
        except:  # noqa: E722
            trace.append("caught something in sleep")
    while True:
        try:
            trace.append(await answer)
            break
        except BaseException as error:
            trace.append(f"caught {error!r}")
    try:
        async with asyncio.timeout(60):
            await never
    except Exception as error:
        trace.append(type(error).__name__)
    return trace


SWALLOWED = ["0", "1", "2", "yes", "TimeoutError"]


@workflow
async def undoes(name: str) -> None:
    try:
        await never
    finally:
        left.append(name)
        await say(f"undo {name}")


@workflow
async def undoes_in_many_ways(name: str) -> None:
    async def undo() -> None:
        left.append(name)
        await say(f"undo {name}")

    @asynccontextmanager
    async def context() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await undo()

    async def letters() -> AsyncIterator[str]:
        try:
            yield "a"
            await never
        finally:
            await undo()

    async def task() -> None:
        try:
            await asyncio.sleep(3_600)
        except BaseException:
            await asyncio.gather(undo(), undo())
            raise
        finally:
            workflow.logger.error("undone %s", name)
            asyncio.create_task(undo())
            asyncio.get_running_loop().call_soon(left.append, f"{name} later")
            asyncio.get_running_loop().call_later(60, left.append, f"{name} much later")

    async def stubborn() -> None:
        while True:
            try:
                await never
            except BaseException:
                await undo()

    async with context(), asyncio.TaskGroup() as group:
        group.create_task(task())
        group.create_task(stubborn())
        shielded = asyncio.shield(group.create_task(task()))
        async for _ in letters():
            await shielded


running: list[asyncio.Event] = []


@activity
async def holds(name: str) -> str:
    running[0].set()
    await asyncio.Event().wait()
    return name


@workflow
async def runs_a_step(name: str) -> None:
    try:
        await holds(name)
    finally:
        await say(f"undo {name}")


@workflow
async def bystander(name: str) -> str:
    return await say(name)


async def test_nobody_hears_of_suspension() -> None:
    """M7: handlers for everything around every await catch nothing, at any suspension, crash or replay."""
    whole = await survives_crashes(Scenario(swallows_everything, signals=[completes(answer, "yes")]))
    assert whole.value == SWALLOWED


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_nobody_hears_of_a_failing_store(moment: str) -> None:
    """M7: whichever store call fails, before its effect or after, ends the drive; the result is right all the same."""
    number = 0
    while True:
        async with Environment([swallows_everything]) as env:
            id = await env.start(swallows_everything)
            await env.resolve(id, answer, "yes")
            failed, first = list[Call](), env.store.count() + number

            async def fails(call: Call, failed: list[Call] = failed, first: int = first) -> None:
                if call.number == first:
                    failed.append(call)
                    raise Unavailable("the store went away")

            setattr(env.store, moment, fails)
            try:
                await env.finish(id)
            except StoreError:  # the claim itself failed: whoever asked for the drive hears of it
                assert failed
            assert (await env.finish(id)).value() == SWALLOWED, failed
        if not failed:
            break
        number += 1
    assert number > 15


@pytest.mark.parametrize("parked", [undoes, undoes_in_many_ways], ids=lambda w: w.name)
async def test_dropping_parked_code_does_nothing(
    parked: Workflow[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    """E10: twenty workflows parked in `try … finally: await undo()` are dropped, and others run: nothing is undone or
    asked for, nothing is written to a history or a log, no warning is given."""
    journal.reset()
    caplog.set_level(logging.INFO)
    async with Environment([parked, bystander]) as env:
        ids = [(await env.start(parked, str(number))).execution_id for number in range(20)]
        await env.settle()
        before = [await env.store.read(id) for id in ids]
        env.worker = env.new_worker()
        gc.collect()
        for number in range(5):
            other = await env.start(bystander, f"bystander {number}")
            await env.settle()
            assert (await env.status(other)).value() == f"bystander {number}"
        gc.collect()
        assert [await env.store.read(id) for id in ids] == before
        assert [await env.store.load(id) for id in ids] == [await env.store.load("0" * 32)] * 20
    gc.collect()
    assert all("later" not in what for what in left)
    assert journal.ran == ["say"] * 5
    assert caplog.records == []


async def test_cutting_a_drive_that_runs_a_step_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """E10: a drive is cancelled in the middle of an activity, as when its host stops: the code behind it is dropped
    without a word, and another drive carries on with that step."""
    journal.reset()
    async with Environment([runs_a_step]) as env:
        id = (await env.start(runs_a_step, "it")).execution_id
        running[:] = [asyncio.Event()]
        drive = env.worker.start(await env.store.read(id))
        await running[0].wait()
        drive.cancel()
        await asyncio.wait([drive])
        gc.collect()
        assert (await env.store.load(id)).chunks == []
        assert (await env.store.read(id)).outcome is None
    assert journal.ran == []
    assert caplog.records == []
