"""A step that is given up while it runs: whoever waited goes on at once, and its late result changes nothing."""

import asyncio
import threading
from datetime import timedelta

import pytest

from engine import Deferred, activity, workflow
from engine.testing import Environment, export, replay

answer = Deferred("late_results.answer", str)


class Gate:
    """Holds activities until they are let go, on the host's loop or in threads."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.entered, self.left = asyncio.Event(), asyncio.Event()
        self.opened, self.opened_for_threads = asyncio.Event(), threading.Event()
        self.runs = 0

    def open(self) -> None:
        self.opened.set()
        self.opened_for_threads.set()

    async def __aenter__(self) -> "Gate":
        gates[:] = [self]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.open()


gates: list[Gate] = []


@activity
async def held() -> str:
    gates[0].runs += 1
    gates[0].entered.set()
    try:
        await gates[0].opened.wait()
    finally:
        gates[0].left.set()
    return "late"


@activity
def held_in_thread() -> str:
    gate = gates[0]
    gate.runs += 1
    gate.loop.call_soon_threadsafe(gate.entered.set)
    gate.opened_for_threads.wait()
    gate.loop.call_soon_threadsafe(gate.left.set)
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
    async with Gate() as gate, Environment([limited]) as env:
        start = env.clock.now()
        id = (await env.start(limited, in_thread)).execution_id
        drive = env.worker.start(await env.store.read(id))
        await gate.entered.wait()
        env.clock.advance(timedelta(seconds=2))
        await drive
        status, etag = await env.status(id), (await env.store.read(id)).etag
        assert status.value() == ["after the timeout", (start + timedelta(seconds=2)).isoformat()]
        assert gate.left.is_set() == (not in_thread)  # a thread can't be stopped
        gate.open()
        await gate.left.wait()
        await env.settle()
        assert (await env.store.read(id)).etag == etag
        replayed = replay(await export(env.store, id), [limited])
        assert replayed.outcome is not None
        assert replayed.outcome.value == status.result
    assert gate.runs == 1
