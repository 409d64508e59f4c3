"""Sync activities that hang: each keeps its thread, and others still have some."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from engine import Retry, Workflow, activity, workflow
from engine.driving.threads import PATIENCE
from engine.testing import Environment
from engine.testing.environment import TEST_SETTINGS
from tests.support.processes import until

FOUR_THREADS = dataclasses.replace(TEST_SETTINGS, activity_threads=4)


class Hang:
    """What the activities hang at, and how many do."""

    opened = threading.Event()
    inside = 0
    most = 0


@pytest.fixture(autouse=True)
def _hang() -> Iterator[None]:
    Hang.opened.clear()
    Hang.inside = Hang.most = 0
    yield
    Hang.opened.set()


def _hangs() -> str:
    Hang.inside += 1
    Hang.most = max(Hang.most, Hang.inside)
    Hang.opened.wait()
    Hang.inside -= 1
    return "let go"


@activity(name="threads_hang")
def hang() -> str:
    return _hangs()


@activity(name="threads_hang_in_time", timeout=timedelta(seconds=5), retry=Retry(max_attempts=1))
def hang_in_time() -> str:
    return _hangs()


@activity(name="threads_quick")
def quick() -> str:
    return "quick"


@workflow(name="threads_hanging")
async def hanging(width: int) -> list[str]:
    return await asyncio.gather(*(hang() for _ in range(width)))


@workflow(name="threads_timed_out")
async def timed_out() -> str:
    try:
        return await hang_in_time()
    except Exception:
        return "timed out"


@workflow(name="threads_others")
async def others() -> str:
    return await quick()


WORKFLOWS: list[Workflow[Any, Any]] = [hanging, timed_out, others]


async def test_an_activity_that_hangs_leaves_half_of_the_threads_to_others(caplog: pytest.LogCaptureFixture) -> None:
    """It has no more, however many calls wait, and whoever waits for long is told who has the threads."""
    async with Environment(WORKFLOWS, settings=FOUR_THREADS) as env:
        hung = (await env.start(hanging, 5)).execution_id
        driving = env.worker.start(await env.store.inner.read(hung))
        await until(lambda: Hang.inside == 2)
        assert [(await env.run(others)).value() for _ in range(3)] == ["quick"] * 3
        assert not _warnings(caplog)
        env.clock.advance(PATIENCE)
        await until(lambda: bool(_warnings(caplog)))
        (said,) = _warnings(caplog)
        most, held = "at most 2 of the 4 threads", "threads_hang (2, the longest for 60 s"
        for part in ("activity threads_hang", hung, most, held):
            assert part in said
        Hang.opened.set()
        await driving
        assert (await env.finish(hung)).value() == ["let go"] * 5
        assert Hang.most == 2


async def test_what_timed_out_keeps_its_thread_until_it_returns() -> None:
    """Else a retry for each timeout would take all of them. The test kit lets the second timeout run out as well."""
    async with Environment(WORKFLOWS, settings=FOUR_THREADS, patience=timedelta(milliseconds=20)) as env:
        for _ in range(2):
            assert (await env.run(timed_out)).value() == "timed out"
        third = (await env.start(timed_out)).execution_id
        driving = env.worker.start(await env.store.inner.read(third))
        await env.run(others)
        assert Hang.inside == 2
        Hang.opened.set()
        await driving
        assert (await env.finish(third)).value() == "let go"
        assert Hang.most == 2


async def test_a_call_that_is_given_up_while_it_waits_never_begins() -> None:
    """It leaves no place behind: the threads go to those that wait after it."""
    async with Environment(WORKFLOWS, settings=FOUR_THREADS) as env:
        ids = [(await env.start(hanging, 2)).execution_id for _ in range(3)]
        driving = [env.worker.start(await env.store.inner.read(id)) for id in ids]
        await until(lambda: Hang.inside == 2)
        await env.client.interrupt(ids[1])
        await driving[1]
        assert (await env.status(ids[1])).outcome == "interrupted"
        Hang.opened.set()
        await asyncio.gather(*driving)
        assert [(await env.finish(id)).value() for id in (ids[0], ids[2])] == [["let go"] * 2] * 2
        assert not env.worker._threads._waiting


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING and "for a thread" in r.getMessage()]
