"""Code that changed, and code that can't be replayed: the execution is suspended with the cause, and never lost."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from typing import Any

import aiohttp
import pytest

from engine import Deferred, Workflow, activity, workflow
from engine.testing import Environment
from tests.support.crashes import echo, ledger

pytestmark = pytest.mark.usefixtures("every_store")

ready = Deferred("code.ready", str)


@activity
async def other(value: str) -> str:
    ledger.note()
    return value


@workflow(name="code")
async def original() -> list[str]:
    trace = [await echo("a"), await echo("b")]
    return [*trace, await ready, await echo("c")]


@workflow(name="code")
async def renamed() -> list[str]:
    trace = [await other("a"), await echo("b")]
    return [*trace, await ready, await echo("c")]


@workflow(name="code")
async def inserted() -> list[str]:
    trace = [await other("new"), await echo("a"), await echo("b")]
    return [*trace, await ready, await echo("c")]


@workflow(name="code")
async def swapped() -> list[str]:
    trace = [await echo("b"), await echo("a")]
    return [*trace, await ready, await echo("c")]


@workflow(name="code")
async def removed() -> list[str]:
    return [await echo("a"), await ready, await echo("c")]


@workflow(name="code")
async def slept() -> list[str]:
    await asyncio.sleep(10)
    return [await echo("b"), await ready, await echo("c")]


@pytest.mark.parametrize("changed", [renamed, inserted, swapped, removed, slept], ids=lambda w: w.function.__name__)
async def test_changed_code_is_noticed_and_the_old_code_completes_it(changed: Workflow[Any, Any]) -> None:
    """I1: the message names the event, what was expected and what was found; nothing recorded changes."""
    async with Environment([original]) as env:
        id = await env.start(original)
        await env.settle()
        before = (await env.store.load(id)).chunks
        env.deploy([changed])
        await env.complete(id, ready, "!")
        status = await env.drive(id)
        cause = status.cause
        assert status.suspended
        assert cause is not None
        assert cause.type == "NonDeterminism"
        assert "event " in cause.message
        assert "echo" in cause.message
        assert (await env.store.load(id)).chunks == before
        env.deploy([original])
        await env.client.resume(id)
        assert (await env.finish(id)).value() == ["a", "b", "!", "c"]


class Host:
    """What belongs to the host's loop, for a workflow to reach for."""

    future: asyncio.Future[None]


async def use(way: str) -> None:
    loop = asyncio.get_running_loop()
    match way:
        case "thread":
            await asyncio.to_thread(print)
        case "executor":
            await loop.run_in_executor(None, print)
        case "connection":
            await asyncio.open_connection("localhost", 1)
        case "foreign future":
            await Host.future
        case "subprocess":
            await asyncio.create_subprocess_exec("true")
        case "aiohttp":
            async with aiohttp.ClientSession() as session:
                await session.get("http://localhost:1/")
        case "as_completed":
            steps = [echo("x"), echo("y")]
            try:
                for done in asyncio.as_completed(steps):
                    await done
            finally:
                for step in steps:
                    step.close()


NAMES = {
    "thread": "to_thread",
    "executor": "run_in_executor",
    "connection": "",
    "foreign future": "another event loop",
    "subprocess": "process",
    "aiohttp": "",
    "as_completed": "workflow.as_completed",
}


@workflow(name="not_durable")
async def reaches_out(way: str) -> str:
    first = await echo("first")
    with contextlib.suppress(Exception):  # catching it doesn't make it durable
        await use(way)
    return first


@workflow(name="not_durable")
async def corrected(way: str) -> str:
    return await echo("first") + await other("done")


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("way", NAMES)
async def test_what_is_not_durable_suspends_and_loses_nothing(way: str) -> None:
    """The message names the call and the cure; what had happened is recorded; corrected code completes it."""
    ledger.ran.clear()
    async with Environment([reaches_out]) as env:
        Host.future = asyncio.get_running_loop().create_future()
        id = await env.start(reaches_out, way)
        status = await env.drive(id)
        cause = status.cause
        assert cause is not None, status
        assert cause.type == "NotDurable"
        assert NAMES[way] in cause.message
        assert "activity" in cause.message or "workflow.as_completed" in cause.message
        env.deploy([corrected])
        await env.client.resume(id)
        assert (await env.finish(id)).value() == "firstdone"
        assert ledger.ran == ["echo", "other"]
        gc.collect()


@workflow
async def cleans_up() -> str:
    try:
        return await ready
    finally:
        workflow.logger.warning("cleaning up")
        await other("undo")


async def test_dropping_a_parked_workflow_wakes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """E10: 20 of them parked in try/finally, dropped and collected: no step, no write, no log line."""
    ledger.ran.clear()
    async with Environment([cleans_up]) as env:
        ids = [await env.start(cleans_up, key=str(number)) for number in range(20)]
        await env.settle()
        gc.collect()
        assert ledger.ran == []
        assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
        assert not any([(await env.store.load(id)).chunks for id in ids])


@workflow
async def talks() -> None:
    for number in range(5):
        workflow.logger.info("before %d", number)
        await echo(str(number))
        await asyncio.sleep(60)
        workflow.logger.info("after %d", number)


async def test_each_log_line_is_written_once(caplog: pytest.LogCaptureFixture) -> None:
    """I6: however often the code is replayed."""
    caplog.set_level(logging.INFO, "engine.workflow")
    async with Environment([talks]) as env:
        await env.run(talks)
    lines = [record.getMessage() for record in caplog.records if record.name == "engine.workflow"]
    assert lines == [f"{when} {number}" for number in range(5) for when in ("before", "after")]


@workflow
async def forever() -> None:
    await asyncio.Event().wait()


async def test_waiting_for_nothing_is_said_and_an_interrupt_reaches_it() -> None:
    """A suspended execution always names what it waits for."""
    async with Environment([forever]) as env:
        id = await env.start(forever)
        status = await env.drive(id)
        assert status.cause is not None
        assert status.cause.type == "Stuck"
        await env.client.interrupt(id)
        assert (await env.finish(id)).outcome == "interrupted"


@workflow
async def spins() -> None:
    while True:  # noqa: ASYNC110 - the fault under test
        await asyncio.sleep(0)


async def test_spinning_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workflow that never waits for anything doesn't hold its host for ever."""
    monkeypatch.setattr("engine.core.loop.MAX_CALLBACKS_PER_TURN", 1_000)
    async with Environment([spins]) as env:
        status = await env.drive(await env.start(spins))
        assert status.cause is not None
        assert "spins" in status.cause.message
