"""The test kit tells in words what happened when, and what an execution waits for, with the line of source."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from engine import Deferred, Retry, activity, workflow
from engine.testing import Environment

pay = Deferred("told.pay", bool)


@activity(retry=Retry(max_attempts=3, first_delay=timedelta(hours=1), max_delay=timedelta(hours=2), jitter=False))
async def told_book(what: str) -> str:
    raise ConnectionError("no line")


@workflow(name="told.child")
async def told_child() -> bool:
    return await pay


@workflow(name="told.trip")
async def told_trip() -> str:
    async def in_time() -> str:
        await asyncio.sleep(86_400)
        return "late"

    late = asyncio.ensure_future(in_time())
    paid = asyncio.ensure_future(told_child())
    await asyncio.wait([late, paid, asyncio.ensure_future(told_book("hotel"))], return_when=asyncio.ALL_COMPLETED)
    return "done"


async def test_why_names_each_thing_that_is_waited_for_with_its_line() -> None:
    async with Environment([told_trip, told_child]) as env:
        trip = await env.start(told_trip)
        assert await env.why(trip) == "it hasn't begun: nobody has driven it"
        await env.settle()
        begun = env.clock.now()
        timer, child, booking = sorted((await env.why(trip)).splitlines(), key=lambda line: "timer" not in line)
        assert timer.startswith(f"it waits for timer until {begun + timedelta(days=1):%Y-%m-%d %H:%M:%S}, ")
        assert "test_told.py:" in timer
        assert timer.endswith(" in in_time")
        assert child.startswith("it waits for child told.child (execution ")
        retry = f"{begun + timedelta(hours=1):%Y-%m-%d %H:%M:%S}"
        assert f"activity told_book, attempt 2 at {retry} after ConnectionError: no line" in booking


async def test_why_of_what_has_ended_or_is_suspended() -> None:
    @workflow(name="told.broken", suspend_on_failure=True)
    async def broken() -> None:
        raise KeyError("price")

    @workflow(name="told.failed")
    async def failed() -> None:
        raise KeyError("price")

    async with Environment([broken, failed]) as env:
        held = await env.start(broken)
        await env.settle()
        assert (await env.why(held)).startswith("it is suspended: KeyError: ")
        ended = await env.run(failed)
        assert (await env.why(ended.execution_id)).startswith("it has ended: failed: KeyError: ")


async def test_a_timeline_tells_every_step_and_event_in_order_with_its_time() -> None:
    async with Environment([told_trip, told_child]) as env:
        trip = await env.start(told_trip)
        await env.settle()
        await env.finish(trip)
        lines = (await env.timeline(trip)).splitlines()
        assert lines[0].startswith(f"told.trip {trip.execution_id} began at ")
        told = [line.partition(",")[0].split(maxsplit=1)[1] for line in lines[1:] if not line.startswith("+1 day")]
        assert {"asks for timer", "asks for activity told_book"} <= set(told)
        assert any(line.startswith("+2:") or line.startswith("+3:") for line in lines)
        assert any("told_book failed: ConnectionError: no line" in line for line in lines)
        assert lines[-1].startswith("+1 day, 0:00:00")
