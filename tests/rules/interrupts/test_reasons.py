"""The reason of an interrupt: stored with it, shown, and seen by the code."""

from __future__ import annotations

import asyncio
import json

import pytest

from engine import InvalidInput, activity, compensate, workflow
from engine.boundary import http
from engine.boundary.answers import Request
from engine.boundary.runtime import Runtime
from engine.testing import Environment, export, replay

seen: list[str] = []


@activity
async def note(text: str) -> None:
    seen.append(text)


@workflow
async def watches() -> None:
    async def undo() -> None:
        await note(f"undone: {workflow.cause()}")

    compensate(undo)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(86_400))
    except asyncio.CancelledError as cancelled:
        await note(str(cancelled))
        raise


@workflow
async def parent() -> None:
    await watches()


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    seen.clear()


@pytest.mark.usefixtures("every_store")
async def test_the_code_and_the_status_have_the_reason_of_the_first_interrupt() -> None:
    """Live and in replay, in the code and in its compensations."""
    async with Environment([watches], evict=True) as env:
        handle = await env.client.start(watches)
        await env.settle()
        status = await handle.interrupt(reason="the customer called")
        assert (status.interrupted, status.interrupt_reason) == (True, "the customer called")
        assert (await handle.interrupt(reason="again")).interrupt_reason == "the customer called"
        ended = await env.finish(handle.execution_id)
        assert (ended.outcome, ended.interrupt_reason) == ("interrupted", "the customer called")
        assert seen == ["the customer called", "undone: the customer called"]
        recording = await export(env.store, handle.execution_id)
    outcome = replay(recording, [watches]).outcome
    assert outcome is not None
    assert outcome.kind == "interrupted"


async def test_an_interrupt_without_a_reason_has_a_message_all_the_same() -> None:
    async with Environment([watches]) as env:
        handle = await env.client.start(watches)
        await env.settle()
        await handle.interrupt()
        assert (await env.finish(handle.execution_id)).interrupt_reason is None
        assert seen[0] == "the execution was interrupted"


async def test_a_child_is_told_that_its_parent_gave_it_up() -> None:
    async with Environment([watches, parent]) as env:
        handle = await env.client.start(parent)
        await env.settle()
        await handle.interrupt(reason="the shop closes")
        await env.finish(handle.execution_id)
        await env.settle()
        assert seen[0] == f"its parent {handle.execution_id} no longer waits for it"


@pytest.mark.parametrize("reason", ["", "x" * 1_001, "half \ud800", 5])
async def test_a_reason_that_is_no_short_text_is_refused_before_anything_is_stored(reason: object) -> None:
    async with Environment([watches]) as env:
        handle = await env.client.start(watches)
        with pytest.raises(InvalidInput, match="the reason of an interrupt"):
            await handle.interrupt(reason=reason)  # type: ignore[arg-type]
        assert not (await handle.status()).interrupted


async def test_over_http_the_reason_is_in_the_body() -> None:
    async with Environment([watches]) as env:
        runtime = Runtime([watches], lambda: env.store, env.settings, env.clock)
        id = (await env.client.start(watches)).execution_id
        for wrong in (b'"a text"', b'{"why": "x"}', b'{"reason": 5}', b"{"):
            assert (await http.interrupt(runtime, Request("http://x/api", wrong), id)).status in (400, 422)
        answer = await http.interrupt(runtime, Request("http://x/api", b'{"reason": "late"}'), id)
        assert (answer.status, json.loads(answer.body)["interruptReason"]) == (202, "late")
