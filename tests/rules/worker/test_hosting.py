"""What an activity may do to its host: nothing. However it ends, it becomes a result or a failure of that step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from engine import ActivityError, Deferred, Retry, activity, workflow
from engine.testing import Environment, ManualClock
from tests.support.crashes import check_history, echo
from tests.support.gates import Gate, nth
from tests.support.processes import Process, until

ONCE_MORE = Retry(max_attempts=2, first_delay=timedelta(seconds=1), jitter=False)

hosting_go_on = Deferred("hosting.go_on", str)


class Interrupt(BaseException):
    """As KeyboardInterrupt is: no Exception."""


class Host:
    """What the activities of a test share with it."""

    runs: int
    working = Gate()
    stubborn: list[str]
    stop: bool
    clock: ManualClock

    @classmethod
    def reset(cls) -> None:
        cls.runs, cls.stop, cls.stubborn = 0, False, []
        cls.working.close()


async def _cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel("by itself")
    await asyncio.sleep(0)


async def _raises(error: BaseException) -> None:
    raise error


ENDS: dict[str, tuple[Callable[[], Awaitable[None]], str]] = {
    "exits": (lambda: _raises(SystemExit(3)), "SystemExit"),
    "raises a BaseException": (lambda: _raises(Interrupt("^C")), "Interrupt"),
    "raises CancelledError": (lambda: _raises(asyncio.CancelledError("by itself")), "CancelledError"),
    "cancels itself": (_cancels_itself, "CancelledError"),
    "stops its generator": (lambda: _raises(GeneratorExit("by itself")), "GeneratorExit"),
}
"""What an activity may do instead of returning, and the type of failure that becomes of it."""


@activity(retry=ONCE_MORE)
async def hosting_ends(how: str) -> None:
    Host.runs += 1
    await ENDS[how][0]()


@activity(retry=ONCE_MORE, timeout=timedelta(seconds=5))
async def hosting_ends_in_time(how: str) -> None:
    Host.runs += 1
    await ENDS[how][0]()


@activity(retry=ONCE_MORE)
def hosting_ends_in_a_thread(how: str) -> None:
    Host.runs += 1
    raise SystemExit(3) if how == "exits" else Interrupt("^C")


PLACES: dict[str, Callable[[str], Awaitable[None]]] = {
    "on the loop": hosting_ends,
    "under a timeout": hosting_ends_in_time,
    "in a thread": hosting_ends_in_a_thread,
}


@workflow
async def hosting_calls(case: tuple[str, str]) -> list[str]:
    place, how = case
    try:
        await PLACES[place](how)
        return ["returned"]
    except ActivityError as error:
        return [error.type_name, await echo("after")]


@pytest.mark.parametrize(
    ("place", "how"),
    [(place, how) for place in PLACES for how in ENDS if place != "in a thread" or how in list(ENDS)[:2]],
)
async def test_whatever_an_activity_raises_is_that_steps_failure(place: str, how: str) -> None:
    """D5, M1: it is tried again as its retry says, the workflow can catch it, and neither driver nor host notice."""
    Host.reset()
    async with Environment([hosting_calls]) as env:
        id = (await env.start(hosting_calls, (place, how))).execution_id
        async with asyncio.timeout(20):  # a drive that waits for a task that is gone never ends
            status = await env.finish(id)
        assert status.value() == [ENDS[how][1], "after"]
        assert Host.runs == 2
        assert not asyncio.current_task().cancelling()  # type: ignore[union-attr]
        await check_history(env, id)


@activity(timeout=timedelta(seconds=5))
async def hosting_never_gives_up() -> str:
    Host.working.reached.set()
    while not Host.stop:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            Host.stubborn.append("cancelled")
    return "too late"


@activity
async def hosting_swallows_its_cancellation() -> str:
    try:
        await Host.working.passed()
    except asyncio.CancelledError:
        Host.stubborn.append("swallowed")
    return "too late"


@workflow
async def hosting_times_out() -> str:
    try:
        return await hosting_never_gives_up()
    except ActivityError as error:
        return error.type_name


async def test_an_attempt_that_ignores_its_cancellation_is_not_waited_for() -> None:
    """B6: past its timeout it counts as failed, whatever it goes on doing; its late result goes nowhere."""
    Host.reset()
    async with Environment([hosting_times_out]) as env:
        id = (await env.start(hosting_times_out)).execution_id
        driving = env.worker.start(await env.store.inner.read(id))
        await Host.working.reached.wait()
        env.clock.advance(timedelta(seconds=5))
        await driving
        assert (await env.status(id)).value() == "TimeoutError"
        before = await env.store.inner.load(id)
        Host.stop = True
        await until(lambda: len(asyncio.all_tasks()) == 1)
        assert Host.stubborn == ["cancelled"]
        assert await env.store.inner.load(id) == before


@workflow
async def hosting_gives_up_a_step() -> str:
    step = asyncio.create_task(hosting_swallows_its_cancellation())
    word = await hosting_go_on
    step.cancel()
    try:
        await step
    except asyncio.CancelledError:
        return word + await echo("!")
    return "not cancelled"


async def test_a_step_that_was_given_up_and_still_brings_a_value_is_ignored() -> None:
    """A8, E8: the activity swallows its cancellation and returns: nothing of it is recorded."""
    Host.reset()
    async with Environment([hosting_gives_up_a_step]) as env:
        id = (await env.start(hosting_gives_up_a_step)).execution_id
        driving = env.worker.start(await env.store.inner.read(id))
        await Host.working.reached.wait()
        await env.resolve(id, hosting_go_on, "on")
        await driving
        assert (await env.status(id)).value() == "on!"
        assert Host.stubborn == ["swallowed"]
        chunks = (await env.store.inner.load(id)).chunks
        steps = [event["step"] for chunk in chunks for event in chunk.events]
        assert steps == ["hosting.go_on", "echo"]


@activity
def hosting_blocks() -> str:
    Host.runs += 1
    Host.working.passed_in_thread()
    return "unblocked"


@workflow
async def hosting_uses_a_thread() -> str:
    return await hosting_blocks()


async def test_a_blocking_sync_activity_stalls_nobody() -> None:
    """M6: in a thread for three leases, beside 20 other executions: heartbeats go on, and it runs once."""
    Host.reset()
    async with Environment([hosting_uses_a_thread, hosting_says]) as env:
        id = (await env.start(hosting_uses_a_thread)).execution_id
        others = [(await env.start(hosting_says)).execution_id for _ in range(20)]
        sweeper = Process(env)
        driving = env.worker.start(await env.store.inner.read(id))
        await Host.working.reached.wait()
        for _ in range(9):
            beat = Gate(nth("replace", env.store.count("replace")))
            env.store.after = beat
            env.clock.advance(timedelta(seconds=10))
            await beat.reached.wait()
            beat.open()
            await until(lambda: len(env.clock._waiting) > 0)
            await sweeper.worker.sweep()
        assert [(await env.status(other)).value() for other in others] == ["hi"] * 20
        assert not driving.done()
        Host.working.open()
        await driving
        assert (await env.status(id)).value() == "unblocked"
        assert Host.runs == 1


@workflow
async def hosting_says() -> str:
    return await echo("hi")


@activity
async def hosting_blocks_the_loop() -> str:
    Host.runs += 1
    Host.clock.advance(timedelta(seconds=90))  # as time.sleep(90) in an async activity
    return f"run {Host.runs}"


@workflow
async def hosting_stalls() -> list[str]:
    return [await hosting_blocks_the_loop(), await echo("after")]


async def test_an_async_activity_that_blocks_the_loop_past_the_lease() -> None:
    """M6: nobody took over meanwhile, so its driver first holds the lease again, then goes on; one record."""
    Host.reset()
    async with Environment([hosting_stalls]) as env:
        Host.clock = env.clock
        id = await env.start(hosting_stalls)
        assert (await env.drive(id)).value() == ["run 1", "after"]
        methods = [call.method for call in env.store.calls]
        assert methods == ["create", "replace", "replace", "append", "commit"], "the lease was not extended first"


async def test_an_async_activity_that_blocks_the_loop_until_another_took_over() -> None:
    """M6, L7: its result is refused: the other's stands, there is no double record."""
    Host.reset()
    async with Environment([hosting_stalls]) as env:
        Host.clock = env.clock
        id = (await env.start(hosting_stalls)).execution_id
        old, new = Process(env), Process(env)
        async with old.stopped(id, "before", nth("replace", 1)):
            await (await new.drive(id))
        assert (await env.status(id)).value() == ["run 2", "after"]
        await check_history(env, id)
