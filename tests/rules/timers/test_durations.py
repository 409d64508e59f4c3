"""P3: asyncio takes seconds. A timedelta in its place is named by the error, with what to write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from engine import Deferred, workflow
from engine.testing import Environment

DAY: Any = timedelta(days=1)
answer = Deferred("durations.answer", str)


async def times_out() -> None:
    async with asyncio.timeout(DAY):
        await answer


async def begun() -> asyncio.Task[str]:
    task = asyncio.create_task(answer.wait())
    await asyncio.sleep(0)
    return task


async def waits_for_one() -> None:
    await asyncio.wait_for(await begun(), DAY)


async def waits_for_several() -> None:
    await asyncio.wait([await begun()], timeout=DAY)


WAYS: dict[str, Callable[[], Awaitable[Any]]] = {
    "sleep": lambda: asyncio.sleep(DAY),
    "timeout": times_out,
    "wait_for": waits_for_one,
    "wait": waits_for_several,
}


@workflow
async def waits(way: str) -> None:
    await WAYS[way]()


@workflow
async def waits_in_order() -> str:
    task = asyncio.create_task(answer.wait())
    try:
        for first in workflow.as_completed([task], timeout=timedelta(hours=1)):
            await first
    except TimeoutError:
        return "late"
    return "in time"


@pytest.mark.parametrize("way", WAYS)
async def test_a_timedelta_is_named_with_what_to_write(way: str) -> None:
    async with Environment([waits]) as env:
        status = await env.run(waits, way)
        assert status.error is not None
        assert status.error.type == "TypeError"
        assert "and was given a timedelta: write duration.total_seconds()" in status.error.message


async def test_the_engines_own_helpers_take_one() -> None:
    async with Environment([waits_in_order]) as env:
        assert (await env.run(waits_in_order)).value() == "late"
