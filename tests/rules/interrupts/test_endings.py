"""Endings that meet: two reasons to end, an interrupt before the first turn, finalizers that were told too soon."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from engine import Deferred, Outcome, Workflow, compensate, finalizer, workflow
from engine.testing import Environment
from tests.support.mortal import assert_replays, do, journal, mortal

pytestmark = pytest.mark.usefixtures("every_store")

answer = Deferred("endings.answer", str)
cleaned = Deferred("endings.cleaned", str)
LIMIT = timedelta(hours=1)


async def clean_up() -> None:
    await do("cleanup begins")
    await cleaned
    await do("cleanup ends")


@workflow(time_limit=LIMIT)
async def shields_its_cleanup() -> str:
    try:
        return await answer
    finally:
        await asyncio.shield(asyncio.ensure_future(clean_up()))


@workflow(time_limit=LIMIT)
async def cleans_up() -> str:
    compensate(do, "undo")
    try:
        return await answer
    finally:
        await clean_up()


@workflow(time_limit=LIMIT)
async def waits_in_a_group() -> str:
    async def waits() -> None:
        try:
            await answer
        finally:
            await clean_up()

    async with asyncio.TaskGroup() as group:
        group.create_task(waits())
    return "done"


@workflow
async def acts_before_it_waits() -> str:
    compensate(do, "undo")
    finalizer(last)
    try:
        return await answer
    finally:
        await do("cleanup")


async def last(outcome: Outcome) -> None:
    await do(f"told {outcome.kind}")


@workflow
async def cancels_itself(how: str) -> None:
    async def stops() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if how == "waits":
            await do("never")

    compensate(do, "first")
    compensate(stops)
    compensate(do, "last")
    finalizer(last)
    raise ValueError("fails")


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]
BOTH_CLEAN_UP = pytest.mark.parametrize("one", [shields_its_cleanup, cleans_up, waits_in_a_group], ids=lambda w: w.name)


async def interrupt(env: Environment, id: str) -> None:
    assert (await env.client.interrupt(id)).interrupted
    await env.settle()


async def run_out_of_time(env: Environment, id: str) -> None:
    env.clock.advance(LIMIT + timedelta(seconds=1))
    await env.settle()


@BOTH_CLEAN_UP
@pytest.mark.parametrize("interrupt_first", [True, False])
async def test_a_second_reason_to_end_cuts_off_no_cleanup(one: Workflow[[], str], interrupt_first: bool) -> None:
    """O4: the time limit and an interrupt, in both orders, while the cleanup waits. It ends, shielded or not; the
    interrupt decides the outcome."""
    async with mortal(ALL) as env:
        id = (await env.start(one)).execution_id
        await env.settle()
        for reason in (interrupt, run_out_of_time) if interrupt_first else (run_out_of_time, interrupt):
            await reason(env, id)
            assert journal.effects == ["cleanup begins"]
            assert not (await env.status(id)).is_complete
        await env.resolve(id, cleaned, "yes")
        assert (await env.finish(id)).outcome == "interrupted"
        assert journal.effects[:2] == ["cleanup begins", "cleanup ends"]
        await assert_replays(env)


@BOTH_CLEAN_UP
async def test_both_reasons_in_one_instant_are_one(one: Workflow[[], str]) -> None:
    """O4: nobody drove it when the time ran out and the interrupt came."""
    async with mortal(ALL) as env:
        id = (await env.start(one)).execution_id
        await env.settle()
        env.clock.advance(LIMIT + timedelta(seconds=1))
        await interrupt(env, id)
        await env.resolve(id, cleaned, "yes")
        assert (await env.finish(id)).outcome == "interrupted"
        assert journal.effects[:2] == ["cleanup begins", "cleanup ends"]


async def test_an_interrupt_before_the_first_turn_reaches_the_first_wait() -> None:
    """O6: the body runs to its first wait, where the interrupt cancels it. What it registered by then runs."""
    async with mortal(ALL) as env:
        id = await env.start(acts_before_it_waits)
        assert (await env.client.interrupt(id)).interrupted
        assert (await env.finish(id)).outcome == "interrupted"
        assert journal.effects == ["cleanup", "undo", "told interrupted"]
        await assert_replays(env)


@pytest.mark.parametrize("how", ["waits", "returns"])
async def test_a_compensation_that_cancels_itself_ends_no_other(how: str) -> None:
    """Also when it returns before the cancellation arrives. It is recorded as cancelled."""
    async with mortal(ALL) as env:
        status = await env.run(cancels_itself, how)
        assert journal.effects == ["last", "first", "told failed"]
        assert [error.type for error in status.compensation_errors] == ["CancelledError"]
        await assert_replays(env)
