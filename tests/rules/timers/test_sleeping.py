"""Sleeping is durable: at most once, never early, for any length, whoever is alive when it ends."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from engine import workflow
from engine.testing import Environment
from engine.values.events import StepResolved
from tests.support.recovery import Scenario, survives_crashes
from tests.support.steps import say

BERLIN = ZoneInfo("Europe/Berlin")
MOMENT = timedelta(milliseconds=1)


@workflow
async def short_sleeps() -> list[str]:
    trace: list[str] = []

    async def sibling() -> None:
        trace.append("sibling")

    started = workflow.now()
    for seconds in (0, -5, 0.0):
        task = asyncio.create_task(sibling())
        await asyncio.sleep(seconds)
        trace.append(f"slept {seconds}, sibling {'ended' if task.done() else 'waits'}")
        await task
    assert workflow.now() == started
    return trace


@workflow
async def wrong_sleeps() -> list[str]:
    trace: list[str] = []
    for wrong in (None, "1"):
        try:
            await asyncio.sleep(wrong)  # type: ignore[call-overload]
        except TypeError:
            trace.append(f"TypeError for {wrong!r}")
    return [*trace, await asyncio.sleep(60, "then slept"), await say("and went on")]


@workflow
async def sleeper(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return workflow.now().isoformat()


@workflow
async def many_sleepers(count: int) -> list[int]:
    woken: list[int] = []

    async def tick(number: int) -> None:
        await asyncio.sleep(10 + number * 7 % count)
        woken.append(number * 7 % count)

    await asyncio.gather(*(tick(number) for number in range(count)))
    return woken


@workflow
async def sleeps_until(when: datetime) -> str:
    await asyncio.sleep((when - workflow.now()).total_seconds())
    return workflow.now().isoformat()


@workflow
async def sleeps_among_steps() -> list[str]:
    trace = [await say("first")]
    await asyncio.sleep(0.25)
    trace.append(await say("second"))
    await asyncio.sleep(60 * 86_400)
    return [*trace, await say("third")]


@pytest.fixture(params=["UTC", "Asia/Tokyo"])
def host_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def test_no_sleep_at_all_returns_at_once() -> None:
    """B1: zero and less let siblings run and go on in the same instant, without an event."""
    whole = await survives_crashes(Scenario(short_sleeps))
    assert whole.value == [line for s in (0, -5, 0.0) for line in ("sibling", f"slept {s}, sibling ended")]
    assert whole.events == []


async def test_what_is_no_number_is_a_type_error() -> None:
    """B1: the body can catch it, and the run goes on."""
    whole = await survives_crashes(Scenario(wrong_sleeps))
    assert whole.value == ["TypeError for None", "TypeError for '1'", "then slept", "and went on"]


async def test_sleeps_survive_crashes() -> None:
    """A quarter of a second and sixty days, between steps."""
    whole = await survives_crashes(Scenario(sleeps_among_steps))
    assert whole.value == ["first", "second", "third"]


@pytest.mark.parametrize(
    "length",
    [timedelta(seconds=0.25), timedelta(days=6, seconds=1), timedelta(days=25), timedelta(400), timedelta(10_000)],
    ids=str,
)
async def test_any_length_fires_once_and_never_early(length: timedelta) -> None:
    """B2: another worker each time; a millisecond before the time nothing happens, at the time it fires."""
    async with Environment([sleeper]) as env:
        start = env.clock.now()
        id = (await env.start(sleeper, length.total_seconds())).execution_id
        for moment in (start, start + length / 2, start + length - MOMENT):
            env.clock.jump(moment)
            env.worker = env.new_worker()
            await env.settle()
            await env.worker.sweep()
            assert not (await env.status(id)).is_complete
            assert (await env.store.inner.read(id)).due_at == start + length
        env.clock.jump(start + length)
        assert await env.new_worker().sweep() == 1
        status = await env.status(id)
        assert datetime.fromisoformat(status.value()) == start + length
        assert [event["kind"] for c in (await env.store.load(id)).chunks for event in c.events] == ["timer"]


async def test_a_timer_outlives_every_worker() -> None:
    """B7: all workers die during the sleep; the first one to start after its end finds it."""
    async with Environment([sleeper]) as env:
        start = env.clock.now()
        id = await env.start(sleeper, 10.0)
        await env.settle()
        env.clock.advance(timedelta(seconds=2))
        await env.worker.close(timedelta(0))
        env.clock.advance(timedelta(seconds=58))
        env.worker = env.new_worker()
        assert await env.worker.sweep() == 1
        assert datetime.fromisoformat((await env.status(id)).value()) == start + timedelta(seconds=60)


async def test_timers_past_due_fire_in_the_order_of_their_times() -> None:
    """B7: 500 timers of one execution that ended while nobody was there: each fires once, the earliest first."""
    async with Environment([many_sleepers]) as env:
        id = (await env.start(many_sleepers, 500)).execution_id
        await env.settle()
        env.clock.advance(timedelta(hours=1))
        env.worker = env.new_worker()
        await env.worker.sweep()
        assert (await env.status(id)).value() == sorted(range(500))
        events = [event for chunk in (await env.store.load(id)).chunks for event in chunk.decoded()]
        assert len({event.step for event in events if isinstance(event, StepResolved)}) == len(events) == 500


@pytest.mark.usefixtures("host_zone")
@pytest.mark.parametrize(
    ("local", "instant"),
    [
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        (datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
        (datetime(2026, 3, 29, 12, 0, tzinfo=BERLIN), datetime(2026, 3, 28, 11, 0, tzinfo=UTC) + timedelta(hours=23)),
    ],
    ids=["summer", "winter", "the day of 23 hours"],
)
async def test_sleeping_until_a_local_time(local: datetime, instant: datetime) -> None:
    """B4: aware times name instants, whatever zone the host is in, also in the hour that comes twice."""
    async with Environment([sleeps_until]) as env:
        status = await env.run(sleeps_until, local)
        woken = datetime.fromisoformat(status.value())
    assert instant <= woken <= instant + MOMENT


async def test_sleeping_until_a_naive_time_is_refused() -> None:
    """B4: a naive time names no instant: comparing it with workflow.now() is a TypeError."""
    async with Environment([sleeps_until]) as env:
        status = await env.run(sleeps_until, datetime(2026, 10, 25, 2, 30))
    assert status.outcome == "failed"
    assert status.error is not None
    assert status.error.type == "TypeError"
