"""A timer that is due soon is kept by who sees it, and fires in time. Without that process a sweep finds it.

The clock is moved by hand: to the instant of a timer, and no further.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable
from datetime import timedelta

import pytest

from engine import Deferred, activity, workflow
from engine.driving.hand_overs import Hint
from engine.ground.settings import Settings
from engine.testing import Environment
from engine.testing.environment import TEST_SETTINGS
from tests.support.crashes import check_history
from tests.support.processes import Process, fed, until

IN_TIME = dataclasses.replace(
    TEST_SETTINGS,
    timers_ahead=Settings.timers_ahead,
    batch_budget=Settings.batch_budget,
    let_go_within=Settings.let_go_within,
)
PATIENCE = 20
"""Seconds after which a test that hangs fails; nothing else depends on it."""

intime_answer = Deferred("intime.answer", str)
rang: list[str] = []


@activity
async def intime_ring(name: str) -> str:
    rang.append(name)
    return name


@workflow
async def intime_sleeps(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return await intime_ring("rang")


@workflow
async def intime_limit(seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            return await intime_answer
    except TimeoutError:
        return "too late"


def _nothing(hint: Hint) -> None:
    raise AssertionError(f"{hint} was handed over")


async def _in_time(waiting: Awaitable[object]) -> None:
    async with asyncio.timeout(PATIENCE):
        await waiting


async def _ends(env: Environment, id: str) -> None:
    """Let it end without moving the clock."""
    async with asyncio.timeout(PATIENCE):
        while not (await env.store.inner.read(id)).is_complete:  # noqa: ASYNC110 - the store's own thread tells nobody
            await asyncio.sleep(0)


@pytest.mark.parametrize("seconds", [2.5, 12])
async def test_the_process_that_parks_keeps_the_timer(seconds: float) -> None:
    """It fires at its instant: no feed, no sweep, and not a millisecond before."""
    async with Environment([intime_sleeps], settings=IN_TIME) as env:
        id = (await env.start(intime_sleeps, seconds)).execution_id
        await env.drive(id)
        assert (await env.store.inner.read(id)).suspended
        env.clock.advance(timedelta(seconds=seconds, milliseconds=-1))
        requests = len(env.store.calls)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(env.store.calls) == requests, "nothing is asked before the time has come"
        env.clock.advance(timedelta(milliseconds=1))
        await _ends(env, id)
        await check_history(env, id)


async def test_a_timer_that_is_further_ahead_is_left_to_the_sweep() -> None:
    async with Environment([intime_sleeps], settings=IN_TIME) as env:
        id = (await env.start(intime_sleeps, 13)).execution_id
        await env.drive(id)
        env.clock.advance(timedelta(seconds=13))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not (await env.store.inner.read(id)).is_complete
        assert await env.worker.sweep() == 1
        assert (await env.status(id)).value() == "rang"


async def test_the_sweep_waits_for_what_is_due_before_the_next_one() -> None:
    """Another process parked it, and is gone. The sweep's invocation lasts until the timer has been driven."""
    async with Environment([intime_sleeps], settings=IN_TIME) as env:
        id = (await env.start(intime_sleeps, 25)).execution_id
        await env.drive(id)
        env.clock.advance(timedelta(seconds=17))
        sweep = asyncio.ensure_future(Process(env).worker.sweep(_nothing))
        await until(lambda: len(env.clock._waiting) > 0)
        assert not sweep.done()
        env.clock.advance(timedelta(seconds=8))
        await _in_time(sweep)
        assert sweep.result() == 0
        assert (await env.status(id)).value() == "rang"


async def test_a_sweep_with_nothing_soon_asks_once_and_returns() -> None:
    async with Environment([intime_sleeps], settings=IN_TIME) as env:
        id = (await env.start(intime_sleeps, 60)).execution_id
        await env.drive(id)
        before = len(env.store.calls)
        await _in_time(env.worker.sweep(_nothing))
        assert [call.method for call in env.store.calls[before:]] == ["due"]


async def test_more_timers_than_places_are_handed_over_with_their_time() -> None:
    """The hints leave when the sweep has returned, so it doesn't wait. Who gets one waits inside its invocation."""
    hints: list[Hint] = []
    settings = dataclasses.replace(IN_TIME, max_drives=2)
    async with Environment([intime_sleeps], settings=settings) as env:
        ids = [(await env.start(intime_sleeps, 25)).execution_id for _ in range(5)]
        for id in ids:
            await env.drive(id)
        env.clock.advance(timedelta(seconds=17))
        sweeper = Process(env)
        await _in_time(sweeper.worker.sweep(hints.append))
        due = env.clock.now() + timedelta(seconds=8)
        assert [hint.at for hint in hints] == [due] * 3
        drives = [asyncio.ensure_future(Process(env).worker.drive_one(hint, hints.append)) for hint in hints]
        for _ in range(50):
            await asyncio.sleep(0)
        assert not any(drive.done() for drive in drives)
        env.clock.advance(timedelta(seconds=8))
        await _in_time(asyncio.gather(*drives))
        for id in ids:
            await _ends(env, id)


async def test_two_who_keep_one_timer_drive_it_once() -> None:
    """The process that parked it and the sweep of another: the etag decides."""
    rang.clear()
    async with Environment([intime_sleeps], settings=IN_TIME) as env:
        id = (await env.start(intime_sleeps, 8)).execution_id
        await env.drive(id)
        other = Process(env)
        sweep = asyncio.ensure_future(other.worker.sweep(_nothing))
        await until(lambda: other.store.count("due") == 1 and len(env.clock._waiting) >= 2)
        env.clock.advance(timedelta(seconds=8))
        await _in_time(sweep)
        await _ends(env, id)
        assert rang == ["rang"]
        await check_history(env, id)


async def test_news_before_the_timer_makes_it_void() -> None:
    """The value wins, and the timer that is still kept finds nothing to do."""
    async with Environment([intime_limit], settings=IN_TIME) as env:
        id = (await env.start(intime_limit, 8)).execution_id
        await env.drive(id)
        other = Process(env)
        await other.client.resolve(id, intime_answer, "in time")
        await (await other.drive(id))
        env.clock.advance(timedelta(seconds=8))
        await until(lambda: not env.worker._timers)
        assert (await env.status(id)).value() == "in time"


async def test_a_process_that_closes_fires_no_timer() -> None:
    async with Environment([intime_sleeps], settings=IN_TIME) as env:
        id = (await env.start(intime_sleeps, 5)).execution_id
        process = Process(env)
        await (await process.drive(id))
        await process.worker.close(timedelta(0))
        replaced = process.store.count("replace")
        env.clock.advance(timedelta(seconds=5))
        for _ in range(50):
            await asyncio.sleep(0)
        assert process.store.count("replace") == replaced
        assert await env.worker.sweep() == 1
        assert (await env.status(id)).value() == "rang"


async def test_a_batch_that_is_over_parks_what_only_waits_for_a_timer() -> None:
    """A drive that holds a timer in memory is parked, not released: nobody has to drive it before its time."""
    hints: list[Hint] = []
    settings = dataclasses.replace(IN_TIME, hold=Settings.hold)
    async with Environment([intime_sleeps], settings=settings) as env:
        id = (await env.start(intime_sleeps, 2)).execution_id
        batch = asyncio.ensure_future(env.worker.drive_changes(await fed(env, id), hints.append))
        await until(lambda: env.store.count("replace") == 1 and len(env.clock._waiting) == 2)
        env.clock.advance(IN_TIME.batch_budget)
        await _in_time(batch)
        assert (await env.store.inner.read(id)).suspended
        assert hints == []
        env.clock.advance(timedelta(seconds=1))
        await _ends(env, id)
