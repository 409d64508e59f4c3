"""A step that is given up while it runs: whoever waited goes on at once, and its late result changes nothing."""

import asyncio
from datetime import timedelta

import pytest

from engine import Deferred, activity, workflow
from engine.testing import Environment, export, replay
from tests.support.gates import Gate
from tests.support.processes import until

answer = Deferred("late_results.answer", str)
gate = Gate()
ran: list[str] = []


@activity
async def held() -> str:
    ran.append("begun")
    try:
        await gate.passed()
    finally:
        ran.append("left")
    return "late"


@activity
def held_in_thread() -> str:
    ran.append("begun")
    gate.passed_in_thread()
    ran.append("left")
    return "late"


@activity
async def after(text: str) -> str:
    return f"after {text}"


@workflow
async def limited(in_thread: bool) -> list[str]:
    try:
        async with asyncio.timeout(2):
            return [await (held_in_thread() if in_thread else held())]
    except TimeoutError:
        return [await after("the timeout"), workflow.now().isoformat()]


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "sync"])
async def test_a_timeout_comes_while_the_step_still_runs(in_thread: bool) -> None:
    """B6: TimeoutError is seen two seconds on, not when the slow activity ends; its result is then ignored."""
    gate.close()
    ran.clear()
    async with Environment([limited]) as env:
        start = env.clock.now()
        id = (await env.start(limited, in_thread)).execution_id
        drive = env.worker.start(await env.store.read(id))
        await gate.reached.wait()
        env.clock.advance(timedelta(seconds=2))
        await drive
        status, etag = await env.status(id), (await env.store.read(id)).etag
        assert status.value() == ["after the timeout", (start + timedelta(seconds=2)).isoformat()]
        assert ran == (["begun"] if in_thread else ["begun", "left"]), "a thread can't be stopped"
        gate.open()
        await until(lambda: ran == ["begun", "left"])
        await env.settle()
        assert (await env.store.read(id)).etag == etag
        replayed = replay(await export(env.store, id), [limited])
        assert replayed.outcome is not None
        assert replayed.outcome.value == status.result
