"""What the test kit does about calls that always fail, executions that never end, and attempts that hang."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from engine import ActivityError, Retry, activity, workflow
from engine.testing import Environment

released = threading.Event()


@pytest.fixture(autouse=True)
def _threads_end() -> Iterator[None]:
    released.clear()
    yield
    released.set()


@activity
async def dial(number: str) -> str:
    return f"{number} answers"


@activity(timeout=timedelta(minutes=5), retry=Retry(max_attempts=2, first_delay=timedelta(seconds=1), jitter=False))
async def hangs() -> None:
    await asyncio.Event().wait()


@activity(timeout=timedelta(minutes=5))
def hangs_in_a_thread() -> None:
    released.wait()


@activity(timeout=timedelta(minutes=5))
async def takes_a_moment() -> str:
    await asyncio.sleep(0.01)
    return "in time"


@workflow
async def calls_three() -> list[str]:
    answers = []
    for number in ("1", "2", "3"):
        try:
            answers.append(await dial(number))
        except ActivityError:
            answers.append("-")
    return answers


@workflow
async def insists() -> str:
    while True:
        try:
            return await dial("1")
        except ActivityError:
            await asyncio.sleep(60)


@workflow
async def waits_for(kind: str) -> str:
    steps = {"async": hangs, "thread": hangs_in_a_thread}
    if kind == "moment":
        return await takes_a_moment()
    begun = workflow.now()
    try:
        await steps[kind]()
    except ActivityError as error:
        return f"{error.type_name} after {workflow.now() - begun}"
    return "never"


@workflow
async def elsewhere() -> None: ...


@workflow
async def asks_elsewhere() -> None:
    await elsewhere()


async def test_a_step_and_every_call_of_an_activity_are_different_words() -> None:
    """P2: `fail` is about one step, `fail_activity` about all calls."""
    error = ConnectionError("engaged")
    async with Environment([calls_three]) as env:
        env.fail("dial", error, times=None)
        assert (await env.run(calls_three)).value() == ["-", "2 answers", "3 answers"]
        env.fail_activity(dial, error)
        assert (await env.run(calls_three)).value() == ["-", "-", "-"]
        env.fail_activity("dial", error, times=2)
    async with Environment([calls_three]) as env:
        env.fail_activity("dial", error, times=2)
        assert (await env.run(calls_three)).value() == ["-", "-", "3 answers"]
        with pytest.raises(ValueError, match="no activity is named 'dail'; there is dial"):
            env.fail_activity("dail", error)


async def test_an_execution_that_never_ends_says_what_it_did_last() -> None:
    """P2: the bound counts moves of the clock."""
    async with Environment([insists]) as env:
        env.fail_activity("dial", ConnectionError("engaged"))
        with pytest.raises(AssertionError) as caught:
            await env.finish(await env.start(insists), limit=20)
        message = str(caught.value)
        assert "of insists hasn't ended after 20 moves of the clock, to 2026-01-01 00:20" in message
        assert "dial#20 failed: ConnectionError: engaged" in message


async def test_a_child_that_nobody_runs_is_named_at_once() -> None:
    """P2: no move of the clock can help it."""
    async with Environment([asks_elsewhere], declares=[elsewhere]) as env:
        before = env.clock.now()
        with pytest.raises(AssertionError, match="this environment lacks workflow 'elsewhere' version '1'"):
            await env.run(asks_elsewhere)
        assert env.clock.now() - before < timedelta(hours=1)


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("async", "TimeoutError after 0:10:01"),
        ("thread", "TimeoutError after 0:05:00"),
        ("moment", "in time"),
    ],
)
async def test_the_timeout_of_an_activity_runs_out_by_itself(kind: str, result: str) -> None:
    """By the test's clock. What only takes a moment of real time ends in time."""
    patience = timedelta(seconds=1 if kind == "moment" else 0.05)
    async with Environment([waits_for], patience=patience) as env:
        value = (await env.run(waits_for, kind)).value()
        assert value.split(".")[0] == result
