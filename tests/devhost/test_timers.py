"""Timer triggers, by a clock that the tests move."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import azure.functions as func
import pytest

from devhost.functions import Function
from devhost.invoke import Invoker
from devhost.retry import RetryPolicy
from devhost.settings import LoadError
from devhost.timers import Schedule, TimerRunner
from tests.devhost.support import START, FakeClock, settle, timer_function

Start = Callable[[Function], TimerRunner]


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "after", "following"),
    [
        ("* * * * * *", "2026-01-01 00:00:03.500", "2026-01-01 00:00:04"),
        ("*/10 * * * * *", "2026-01-01 00:00:10", "2026-01-01 00:00:20"),
        ("*/10 * * * * *", "2026-01-01 00:00:09.999", "2026-01-01 00:00:10"),
        ("0 30 9 * * 1-5", "2026-01-02 10:00:00", "2026-01-05 09:30:00"),
        ("0 0 0 * * Sunday", "2026-01-01 00:00:00", "2026-01-04 00:00:00"),
        ("0 0 0 1 JAN,JUL *", "2026-01-01 00:00:00", "2026-07-01 00:00:00"),
        # The day and the day of week both have to match.
        ("0 0 0 1 * MON", "2026-01-01 00:00:00", "2026-06-01 00:00:00"),
        ("0 0 0 29 2 *", "2026-01-01 00:00:00", "2028-02-29 00:00:00"),
        # UTC: no hour is missing when a clock somewhere goes forward.
        ("0 30 2 * * *", "2026-03-28 12:00:00", "2026-03-29 02:30:00"),
    ],
)
def test_schedules(schedule: str, after: str, following: str) -> None:
    assert Schedule(schedule).next_after(at(after)) == at(following)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone can't be changed on this system")
def test_schedules_are_in_utc_wherever_the_host_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as here:
        here.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        following = Schedule("0 30 9 * * *").next_after(at("2026-01-01 00:00:00"))
    time.tzset()
    assert following == at("2026-01-01 09:30:00")


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "* * * * *",
        "* * * * * * *",
        "60 * * * * *",
        "0 0 0 * * 7",
        "0 0 0 L * *",
        "0 0 0 * * MON#1",
        "0 0 0 ? * *",
        "H * * * * *",
        "0 0 0 * * WOD",
        "0 0 0 30 2 *",
        "00:05:00",
        "@hourly",
    ],
)
def test_what_is_no_schedule(schedule: str) -> None:
    with pytest.raises(LoadError, match="schedule"):
        Schedule(schedule)


@pytest.fixture
async def start(clock: FakeClock) -> AsyncIterator[Start]:
    """Starts a timer that ends with the test."""
    invoker = Invoker(clock, None)
    running: list[tuple[TimerRunner, asyncio.Task[None]]] = []

    def start(function: Function) -> TimerRunner:
        runner = TimerRunner(function, invoker, clock)
        running.append((runner, asyncio.create_task(runner.run())))
        return runner

    yield start
    for runner, task in running:
        runner.stop()
        task.cancel()
    await settle()
    invoker.close()


class Ticks:
    """Notes each run, and takes as long as it is told."""

    def __init__(self, clock: FakeClock, *durations: float) -> None:
        self._clock, self._durations = clock, list(durations)
        self.starts: list[float] = []
        self.requests: list[func.TimerRequest] = []
        self.running = self.most_running = 0

    async def tick(self, timer: func.TimerRequest) -> None:
        self.starts.append(self._clock.now - START)
        self.requests.append(timer)
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        if self._durations:
            await self._clock.wait(asyncio.Event(), self._durations.pop(0))
        self.running -= 1

    @property
    def late(self) -> list[bool]:
        return [request.past_due for request in self.requests]


async def test_a_timer_fires_at_its_slots(clock: FakeClock, start: Start) -> None:
    ticks = Ticks(clock)
    await clock.advance(3)
    start(timer_function(ticks.tick, "*/10 * * * * *"))
    await clock.advance(30)
    assert ticks.starts == [10, 20, 30]
    assert ticks.late == [False, False, False]
    status = ticks.requests[1].schedule_status  # type: ignore[attr-defined]
    assert status["Last"] == "2027-01-15T08:00:10+00:00"
    assert status["Next"] == "2027-01-15T08:00:30+00:00"


async def test_a_timer_may_be_far_away(clock: FakeClock, start: Start) -> None:
    ticks = Ticks(clock)
    start(timer_function(ticks.tick, "0 0 9 * * *"))
    await clock.advance(3599)
    assert ticks.starts == []
    await clock.advance(1)
    assert ticks.starts == [3600]


async def test_a_clock_that_is_set_forward_is_noticed(clock: FakeClock, start: Start) -> None:
    """A machine that wakes up from its sleep finds its monotonic clock where it was."""
    ticks = Ticks(clock)
    start(timer_function(ticks.tick, "0 0 9 * * *"))
    await clock.advance(10)
    clock.jump(3600)
    await clock.advance(60)
    assert len(ticks.starts) == 1
    assert ticks.late == [True]


async def test_a_long_run_is_followed_at_once_by_one_that_is_past_due(clock: FakeClock, start: Start) -> None:
    ticks = Ticks(clock, 35)
    start(timer_function(ticks.tick, "*/10 * * * * *"))
    await clock.advance(60)
    assert ticks.starts == [10, 45, 50, 60]
    assert ticks.late == [False, True, False, False]
    assert ticks.most_running == 1


async def test_run_on_startup(clock: FakeClock, start: Start) -> None:
    ticks = Ticks(clock)
    await clock.advance(3)
    start(timer_function(ticks.tick, "*/10 * * * * *", on_startup=True))
    await clock.advance(10)
    assert ticks.starts == [3, 10]
    assert ticks.late == [False, False]


async def test_a_failing_run_is_logged_and_the_next_one_comes(
    clock: FakeClock, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    runs = []

    async def tick(timer: func.TimerRequest) -> None:
        runs.append(clock.now - START)
        raise ValueError("bad tick")

    start(timer_function(tick, "*/10 * * * * *"))
    await clock.advance(20)
    assert runs == [10, 20]
    assert caplog.text.count("timer function tick failed") == 2
    assert "ValueError: bad tick" in caplog.text


async def test_a_retry_policy_holds_for_timers(clock: FakeClock, start: Start) -> None:
    runs = []

    async def tick(timer: func.TimerRequest) -> None:
        runs.append(clock.now - START)
        raise ValueError("bad tick")

    start(timer_function(tick, "0 * * * * *", RetryPolicy(2, 5, 5)))
    await clock.advance(119)
    assert runs == [60, 65, 70]


async def test_a_stopped_timer_ends_when_its_run_has(clock: FakeClock) -> None:
    ticks = Ticks(clock, 5)
    invoker = Invoker(clock, None)
    runner = TimerRunner(timer_function(ticks.tick, "*/10 * * * * *"), invoker, clock)
    running = asyncio.ensure_future(runner.run())
    await clock.advance(12)
    runner.stop()
    await settle()
    assert not running.done()
    await clock.advance(3)
    assert running.done()
    await clock.advance(100)
    assert ticks.starts == [10]
    invoker.close()


async def test_sync_timer_functions_get_the_same(clock: FakeClock) -> None:
    invoker = Invoker(clock, None)
    seen = []
    ran = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tick(timer: func.TimerRequest) -> None:
        seen.append(timer.past_due)
        loop.call_soon_threadsafe(ran.set)

    runner = TimerRunner(timer_function(tick, "0 * * * * *", on_startup=True), invoker, clock)
    running = asyncio.ensure_future(runner.run())
    await ran.wait()
    runner.stop()
    await running
    assert seen == [False]
    invoker.close()
