"""What blocks the event loop is named while it does so: M6, and the second half of it, code that isn't awaited."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from engine import Settings, activity, workflow
from engine.driving.watchdog import Watchdog, find
from engine.testing import Environment
from engine.testing.environment import TEST_SETTINGS

WATCHED = replace(TEST_SETTINGS, blocked_after=timedelta(milliseconds=20))


class Barks(logging.Handler):
    """The watchdog's warnings. `heard`: there was one since it was last cleared."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self.heard = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "stood still" in record.msg:
            self.texts.append(record.getMessage())
            self.heard.set()


barks = Barks()


@pytest.fixture(autouse=True)
def _listen() -> Iterator[None]:
    barks.texts.clear()
    barks.heard.clear()
    logger = logging.getLogger("engine")
    logger.addHandler(barks)
    yield
    logger.removeHandler(barks)


def watchdogs() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "watchdog"]


async def _value(env: Environment, id: str) -> Any:
    """Its result, without the replay that `finish` ends with: this code isn't deterministic, on purpose."""
    while not (await env.drive(id)).is_complete:
        env.clock.advance(timedelta(seconds=1))
    return (await env.status(id)).value()


# -- who it is, and where --


def _look(task: asyncio.Task[object] | None = None) -> str:
    """What the watchdog would say of the thread that calls this."""
    found = find(sys._getframe(), task)
    return str(found and found.text)


@activity(name="watched.looks")
async def watched_looks() -> str:
    await asyncio.sleep(0)
    return _look()  # the line of the activity


@activity
async def watched_gathers() -> list[str]:
    return await asyncio.gather(_inside(), _inside())  # type: ignore[return-value]


async def _inside() -> str:
    await asyncio.sleep(0)
    return _look(asyncio.current_task())  # the line of the task


@activity
def watched_in_a_thread() -> str:
    return _look()


@workflow
async def watched_steps() -> list[str]:
    return [await watched_looks(), await watched_looks()]


@workflow
async def watched_tasks() -> list[str]:
    return await watched_gathers()


@workflow
async def watched_thread() -> str:
    return await watched_in_a_thread()


async def _in_a_task() -> str:
    return _look()


@workflow
async def watched_code() -> list[str]:
    first = _look()  # the line of the workflow
    await asyncio.sleep(1)
    return [first, await asyncio.create_task(_in_a_task()), _look()]


def line_of(comment: str) -> str:
    """The place in this file at the end of whose line that comment stands."""
    with open(__file__, encoding="utf-8") as file:
        [number] = [number for number, line in enumerate(file, 1) if line.endswith(f"# {comment}\n")]
    return f"{__file__}:{number}"


async def test_an_activity_is_named_with_its_step_its_execution_and_its_line() -> None:
    """The line is the activity's own, however deep it is in what it calls; the calls from there on follow."""
    async with Environment([watched_steps]) as env:
        id = (await env.start(watched_steps)).execution_id
        first, second = await _value(env, id)
        name, stack = first.split("\n", 1)
        who = f"activity watched.looks (step watched.looks of execution {id})"
        assert name == f"{who} at {line_of('the line of the activity')}"
        assert stack.index("in watched_looks") < stack.index("in _look")
        assert f"(step watched.looks#2 of execution {id})" in second


async def test_a_task_that_an_activity_made_is_named() -> None:
    """By the activity, where Python tells (from 3.12 on); by its own name and line otherwise."""
    async with Environment([watched_tasks]) as env:
        id = (await env.start(watched_tasks)).execution_id
        for text in await _value(env, id):
            who = f"activity watched_gathers (step watched_gathers of execution {id})"
            assert text.startswith(who if sys.version_info >= (3, 12) else "task Task-")
            assert f" at {line_of('the line of the task')}\n" in text


async def test_the_code_of_a_workflow_is_named() -> None:
    """Computing in a workflow's body blocks as well as an activity does, also in a task and in a later turn."""
    async with Environment([watched_code]) as env:
        id = (await env.start(watched_code)).execution_id
        first, task, later = await _value(env, id)
        who = f"the code of workflow watched_code (execution {id}) at "
        assert first.startswith(f"{who}{line_of('the line of the workflow')}\n")
        assert task.startswith(who)
        assert "in _in_a_task" in task
        assert later.startswith(who)


async def test_nobody_is_named_where_nothing_runs() -> None:
    """A loop that waits for events blocks nothing, and a sync activity in its thread isn't the loop's."""
    assert find(None, None) is None
    assert find(sys._getframe(), None) is None
    async with Environment([watched_thread]) as env:
        assert await _value(env, (await env.start(watched_thread)).execution_id) == "None"


# -- the thread that looks --


@activity
async def watched_blocks() -> bool:
    barks.heard.clear()
    return barks.heard.wait(20)  # it is released by the warning, or never


@workflow
async def watched_blocked_twice() -> list[bool]:
    return [await watched_blocks(), await watched_blocks()]


class Code:
    """What a workflow's body does beside its steps."""

    run: Callable[[], object]


@workflow
async def watched_computes() -> bool:
    return bool(Code.run())


async def test_a_blocked_loop_is_reported_while_it_is_blocked() -> None:
    """M6: each blockage once, naming who and where."""
    async with Environment([watched_blocked_twice], settings=WATCHED) as env:
        id = (await env.start(watched_blocked_twice)).execution_id
        assert await _value(env, id) == [True, True]
    place = line_of("it is released by the warning, or never")
    for text, step in zip(barks.texts, ("watched_blocks", "watched_blocks#2"), strict=True):
        assert f"blocked by activity watched_blocks (step {step} of execution {id}) at {place}\n" in text


class Patience(Watchdog):
    """Does what a test says each time that it has waited for the loop. `waits`: how often that was."""

    waits: list[bool]
    then: Callable[[Patience, bool], None]

    def _wait(self, beats: int) -> bool:
        came = super()._wait(beats)
        self.waits.append(came)
        type(self).then(self, came)
        return came


async def test_one_blockage_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it lasts: ten times as long as it takes to be noticed."""
    long = threading.Event()

    def then(watchdog: Patience, _: bool) -> None:
        if watchdog.waits.count(False) == 20:
            long.set()

    Patience.waits, Patience.then = [], then
    monkeypatch.setattr("engine.driving.worker.Watchdog", Patience)
    async with Environment([watched_computes], settings=WATCHED) as env:
        Code.run = lambda: long.wait(20)
        assert await _value(env, (await env.start(watched_computes)).execution_id) is True
    assert len(barks.texts) == 1


async def test_a_process_that_was_frozen_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a SIGSTOP, or a host that slept, the thread's first wait is over at once; the loop has a chance yet."""
    thawed = threading.Event()

    def then(watchdog: Patience, came: bool) -> None:
        if not came:
            watchdog._half = 20  # type: ignore[attr-defined]
            thawed.set()

    Patience.waits, Patience.then = [], then
    monkeypatch.setattr("engine.driving.worker.Watchdog", Patience)
    async with Environment([watched_computes], settings=WATCHED) as env:
        Code.run = lambda: thawed.wait(20)
        assert await _value(env, (await env.start(watched_computes)).execution_id) is True
    assert Patience.waits.count(False) == 1
    assert barks.texts == []


class Thread:
    """A sync activity that blocks for as long as it takes the watchdog to look three times."""

    looked: threading.Event


@activity
def watched_blocks_its_thread() -> bool:
    return Thread.looked.wait(20)


@workflow
async def watched_uses_a_thread() -> bool:
    return await watched_blocks_its_thread()


async def test_a_blocking_sync_activity_is_nobodys_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """M6: the loop goes on, so nothing is said."""
    Thread.looked = threading.Event()

    def then(watchdog: Patience, came: bool) -> None:
        assert came
        if len(watchdog.waits) == 3:
            Thread.looked.set()

    Patience.waits, Patience.then = [], then
    monkeypatch.setattr("engine.driving.worker.Watchdog", Patience)
    settings = replace(TEST_SETTINGS, blocked_after=timedelta(seconds=40))
    monkeypatch.setattr(Patience, "_pause", lambda _: None)
    async with Environment([watched_uses_a_thread], settings=settings) as env:
        assert await _value(env, (await env.start(watched_uses_a_thread)).execution_id) is True
    assert barks.texts == []


async def test_it_is_off_in_tests() -> None:
    """An environment has its own time: the machine's means nothing in it."""
    async with Environment([watched_computes]) as env:
        Code.run = lambda: watchdogs() == []
        assert await _value(env, (await env.start(watched_computes)).execution_id) is True


async def test_its_thread_ends_when_nothing_is_driven_and_comes_back() -> None:
    """An idle process has none."""
    async with Environment([watched_computes], settings=WATCHED) as env:
        for _ in range(2):
            Code.run = lambda: len(watchdogs()) == 1
            assert await _value(env, (await env.start(watched_computes)).execution_id) is True
            for thread in watchdogs():
                await asyncio.to_thread(thread.join, 20)
            assert watchdogs() == []


def test_its_thread_ends_with_a_loop_that_nobody_closed() -> None:
    """A host that drops its loop leaves no thread behind, and isn't blamed."""

    watching = Watchdog(timedelta(milliseconds=20)).watching()

    async def leave() -> None:
        watching.__enter__()

    asyncio.run(leave())
    for thread in watchdogs():
        thread.join(20)
    assert watchdogs() == []
    assert barks.texts == []
    watching.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, 10),
        ({"ENGINE_LEASE_SECONDS": "60"}, 20),
        ({"ENGINE_LEASE_SECONDS": "1"}, 1),
        ({"ENGINE_BLOCKED_SECONDS": "0.5"}, 0.5),
        ({"ENGINE_BLOCKED_SECONDS": "0"}, 0),
    ],
)
def test_the_setting(environment: dict[str, str], seconds: float) -> None:
    """A third of the lease, at least a second, unless it is set; 0 switches it off."""
    assert Settings.from_environment(environment).blocked_after == timedelta(seconds=seconds)


@pytest.mark.parametrize("wrong", ["-1", "soon", "nan"])
def test_a_setting_that_makes_no_sense_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="ENGINE_BLOCKED_SECONDS"):
        Settings.from_environment({"ENGINE_BLOCKED_SECONDS": wrong})
