"""A sync activity can't be stopped, so it asks: `activity.is_cancelled()` is true once nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from engine import activity, workflow
from engine.testing import Environment
from tests.support.gates import Gate
from tests.support.processes import PAST_LEASE, Process, until


class Stage:
    """What the activity tells the tests."""

    looks = Gate()
    saw: list[bool]

    @classmethod
    def reset(cls) -> None:
        cls.looks.close()
        cls.saw = []


@pytest.fixture(autouse=True)
async def _reset() -> None:
    Stage.reset()


@activity
def cancelled_looks() -> str:
    """Looks at once, and again when the test opens the gate."""
    Stage.saw.append(activity.is_cancelled())
    Stage.looks.passed_in_thread()
    Stage.saw.append(activity.is_cancelled())
    return "done"


@workflow(name="cancelled.waits")
async def waits() -> str:
    return await cancelled_looks()


@workflow(name="cancelled.gives_up")
async def gives_up() -> str:
    try:
        async with asyncio.timeout(5):
            return await cancelled_looks()
    except TimeoutError:
        return "given up"


@workflow(name="cancelled.in_time")
async def in_time() -> str:
    return await cancelled_looks.with_options(timeout=timedelta(seconds=5))()


async def _times_out(env: Environment, process: Process, id: str, driving: asyncio.Task[None]) -> None:
    env.clock.advance(timedelta(seconds=6))
    await driving


async def _interrupted(env: Environment, process: Process, id: str, driving: asyncio.Task[None]) -> None:
    await env.client.interrupt(id)
    process.worker.notify(await env.store.inner.read(id))
    await driving


async def _terminated(env: Environment, process: Process, id: str, driving: asyncio.Task[None]) -> None:
    await env.client.terminate(id)
    process.worker.notify(await env.store.inner.read(id))
    await driving


async def _lost(env: Environment, process: Process, id: str, driving: asyncio.Task[None]) -> None:
    """The driver stands still for longer than its lease, and another one takes over."""
    before = env.store.inner
    taken = await before.read(id)
    await before.replace(taken.model_copy(update={"worker": "another"}))
    env.clock.advance(PAST_LEASE)
    await driving


async def _stopped(env: Environment, process: Process, id: str, driving: asyncio.Task[None]) -> None:
    await process.worker.close(timedelta(0))


End = Callable[[Environment, Process, str, "asyncio.Task[None]"], Awaitable[None]]


@pytest.mark.parametrize(
    ("which", "end"),
    [
        (in_time, _times_out),
        (gives_up, _times_out),
        (waits, _interrupted),
        (waits, _terminated),
        (waits, _lost),
        (waits, _stopped),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_a_thread_that_nobody_waits_for_sees_that_it_is_cancelled(which: object, end: End) -> None:
    async with Environment([waits, gives_up, in_time]) as env:
        id = (await env.client.start(which)).execution_id  # type: ignore[call-overload]
        process = Process(env)
        driving = await process.drive(id)
        await Stage.looks.reached.wait()
        await end(env, process, id, driving)
        assert Stage.saw == [False]
        Stage.looks.open()
        await until(lambda: len(Stage.saw) == 2)
        assert Stage.saw == [False, True]


async def test_a_thread_that_is_waited_for_is_not() -> None:
    async with Environment([waits]) as env:
        id = (await env.start(waits)).execution_id
        driving = await Process(env).drive(id)
        await Stage.looks.reached.wait()
        Stage.looks.open()
        await driving
        assert Stage.saw == [False, False]
        assert (await env.status(id)).value() == "done"
