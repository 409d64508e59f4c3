"""Limits across the deployment: no more attempts at once, or in a period, than declared; first come, first served."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from engine import Limit, Retry, activity, workflow
from engine.testing import Environment

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")


class Seen:
    """What ran, as the activities saw it."""

    at_once: Counter[str] = Counter()
    most: Counter[str] = Counter()
    order: list[int] = []
    starts: list[datetime] = []
    now: Callable[[], datetime]

    @classmethod
    def reset(cls) -> None:
        cls.at_once, cls.most, cls.order, cls.starts = Counter(), Counter(), [], []


@pytest.fixture(autouse=True)
async def _reset() -> None:
    Seen.reset()


async def _run(key: str, number: int) -> int:
    Seen.order.append(number)
    Seen.at_once[key] += 1
    Seen.most[key] = max(Seen.most[key], Seen.at_once[key])
    try:
        for _ in range(20):
            await asyncio.sleep(0)
    finally:
        Seen.at_once[key] -= 1
    return number


@activity(concurrency=5)
async def limits_five(number: int) -> int:
    return await _run("", number)


@activity(concurrency=2, key=lambda tenant: tenant)
async def limits_by_tenant(number: int, tenant: str = "a") -> int:
    return await _run(tenant, number)


@activity(limit=Limit(10, per=timedelta(seconds=60)))
async def limits_ten_a_minute(number: int) -> int:
    Seen.starts.append(Seen.now())
    return number


def _fails(number: int) -> str:
    raise KeyError("no tenant")


@activity(concurrency=1, key=_fails)
async def limits_without_a_key(number: int) -> int:
    return number


@workflow(name="limits.five")
async def five(number: int) -> int:
    return await limits_five(number)


@workflow(name="limits.tenants")
async def tenants(number: int) -> int:
    return await limits_by_tenant(number, "ab"[number % 2])


@workflow(name="limits.minute")
async def minute(number: int) -> int:
    return await limits_ten_a_minute(number)


@workflow(name="limits.keyless")
async def keyless(number: int) -> int:
    return await limits_without_a_key(number)


async def _finish_all(env: Environment, one: Any, count: int) -> None:
    handles = [await env.start(one, number) for number in range(count)]
    for number, handle in enumerate(handles):
        assert (await env.finish(handle)).value() == number


@SLOW
async def test_two_hundred_executions_never_exceed_a_concurrency_of_five() -> None:
    async with Environment([five], workers=2) as env:
        await _finish_all(env, five, 200)
    assert Seen.most[""] == 5
    assert sorted(Seen.order) == list(range(200))


@SLOW
async def test_a_key_has_a_limit_of_its_own() -> None:
    async with Environment([tenants]) as env:
        await _finish_all(env, tenants, 40)
    assert Seen.most == {"a": 2, "b": 2}


@SLOW
async def test_no_period_has_more_starts_than_the_rate() -> None:
    async with Environment([minute], workers=2) as env:
        Seen.now = env.clock.now
        began = env.clock.now()
        await _finish_all(env, minute, 35)
        took = env.clock.now() - began
    assert len(Seen.starts) == 35
    for start in Seen.starts:
        assert sum(start <= other < start + timedelta(seconds=60) for other in Seen.starts) <= 10
    assert timedelta(minutes=3) <= took < timedelta(minutes=4), "the rate is used up"


async def test_a_key_function_that_raises_fails_the_step() -> None:
    async with Environment([keyless]) as env:
        status = await env.run(keyless, 1)
    assert status.outcome == "failed"
    assert "no tenant" in str(status.error)
