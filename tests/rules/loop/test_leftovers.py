"""N15: what a workflow leaves behind is shown: tasks that failed unseen, steps and tasks that never ended."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from engine import Channel, Deferred, Retry, Workflow, activity, workflow
from engine.boundary.answers import describe
from engine.testing import Environment

answer = Deferred("leftovers.answer", str)
values = Channel("leftovers.values", str)


@activity(retry=Retry(max_attempts=9, first_delay=timedelta(minutes=5)))
async def retries() -> None:
    raise OSError("not yet")


async def handle(what: str) -> str:
    if what.startswith("bad"):
        raise ValueError(f"{what} can't be handled")
    return what


@workflow
async def fails_unseen() -> str:
    asyncio.create_task(handle("bad one"))
    asyncio.create_task(handle("bad two"), name="the second")
    asyncio.create_task(handle("good"))
    await asyncio.sleep(1)
    return "done"


@workflow
async def sees_all_failures() -> str:
    first, second = (asyncio.create_task(handle(f"bad {number}")) for number in range(2))
    await asyncio.sleep(1)  # they fail before anybody looks
    seen = [str(first.exception()), *map(str, await asyncio.gather(second, return_exceptions=True))]
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(handle("bad in a group"))
    except* ValueError:
        seen.append("a group")
    return ", ".join(seen)


@workflow
async def leaves_everything_open() -> str:
    async def waits_for_nothing() -> None:
        await asyncio.Event().wait()

    tasks = [answer.wait(), values.receive(), retries(), asyncio.sleep(3_600), waits_for_nothing()]
    for task in tasks:
        asyncio.ensure_future(task)
    await asyncio.sleep(1)
    return "done"


@workflow
async def leaves_many() -> str:
    for number in range(50):
        asyncio.create_task(handle(f"bad {number} " + "x" * 500))
    await asyncio.sleep(1)
    return "done"


@workflow
async def waits_for_all_handlers() -> list[str]:
    handlers = [asyncio.create_task(handle(await values.receive())) for _ in range(2)]
    return await asyncio.gather(*handlers)


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]


async def left(one: Workflow[[], Any]) -> tuple[str, ...]:
    async with Environment(ALL, evict=True) as env:
        status = await env.run(one)
        assert status.outcome == "completed"
        assert describe(status).get("leftovers") == (list(status.leftovers) or None)
        return status.leftovers


async def test_failures_that_nobody_saw_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """By the task's name, or that of its function; the log warns of them once, however often the code is replayed."""
    assert await left(fails_unseen) == (
        "task handle failed: ValueError: bad one can't be handled",
        "task the second failed: ValueError: bad two can't be handled",
    )
    lines = [record for record in caplog.records if "left behind" in record.getMessage()]
    assert [line.levelno for line in lines] == [logging.WARNING]
    assert "bad one" in lines[0].getMessage()


async def test_failures_that_somebody_saw_are_not_left() -> None:
    assert await left(sees_all_failures) == ()


async def test_what_was_not_finished_is_named() -> None:
    """Steps by kind and id, then tasks."""
    open_steps = ["activity retries", "timer timer#2", "deferred leftovers.answer", "channel leftovers.values"]
    found = await left(leaves_everything_open)
    assert list(found[:4]) == [f"{step} was not finished" for step in open_steps]
    assert "task leaves_everything_open.<locals>.waits_for_nothing was not finished" in found[4:]
    assert len(found) == 9


async def test_there_is_a_bound() -> None:
    """The exec document stays small: twenty lines, each cut, and a count of the rest."""
    found = await left(leaves_many)
    assert len(found) == 20
    assert found[-1] == "31 more"
    assert max(map(len, found)) <= 200


async def test_waiting_for_all_handlers_leaves_nothing() -> None:
    async with Environment(ALL) as env:
        id = await env.start(waits_for_all_handlers)
        for value in ("a", "b"):
            await env.client.send(id, values, value)
        status = await env.finish(id)
        assert (status.value(), status.leftovers) == (["a", "b"], ())
