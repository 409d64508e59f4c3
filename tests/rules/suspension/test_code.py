"""Code that changed, and code that can't be replayed: the execution is suspended with the cause, and never lost."""

from __future__ import annotations

import asyncio
from typing import Any

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
async def removed() -> list[str]:
    return [await echo("a"), await ready, await echo("c")]


@pytest.mark.parametrize("changed", [renamed, removed], ids=lambda w: w.function.__name__)
async def test_changed_code_is_noticed_and_the_old_code_completes_it(changed: Workflow[Any, Any]) -> None:
    """I1: the message names the event, what was expected and what was found; nothing recorded changes."""
    async with Environment([original]) as env:
        id = (await env.start(original)).execution_id
        await env.settle()
        before = (await env.store.load(id)).chunks
        env.deploy([changed])
        await env.resolve(id, ready, "!")
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
