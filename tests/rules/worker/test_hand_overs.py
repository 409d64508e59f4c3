"""Rules 3 and 4 of the worker: what an invocation can't drive to an end is handed over, and no hint matters.

The clock is moved by hand: an invocation's budget is over when a test says so.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import pytest

from engine import Deferred, Workflow, activity, workflow
from engine.driving.hand_overs import REPEATED_AFTER, Hint
from engine.ground.errors import Unavailable
from engine.ground.settings import Settings
from engine.testing import Environment
from engine.testing.environment import TEST_SETTINGS
from tests.support.crashes import check_history, echo, ledger
from tests.support.gates import Gate, nth
from tests.support.processes import PAST_LEASE, SWEEPS_NEW_AFTER, Process, as_fed, fed, nothing, unanswered, until

BUDGETS = dataclasses.replace(
    TEST_SETTINGS,
    batch_budget=Settings.batch_budget,
    let_go_within=Settings.let_go_within,
    invocation_budget=Settings.invocation_budget,
)
ONE_THREAD = dataclasses.replace(BUDGETS, activity_threads=1)
FEW_PLACES = dataclasses.replace(BUDGETS, max_drives=2)
PATIENCE = 20
"""Seconds after which a test that hangs fails; nothing else depends on it."""

handed_answer = Deferred("handed.answer", str)
working = Gate()
begun: list[str] = []
"""Which activities have begun."""


@pytest.fixture(autouse=True)
async def _nothing_has_begun() -> None:
    begun.clear()
    working.close()


@activity
async def handed_long(name: str) -> str:
    begun.append(name)
    await working.passed()
    return name


@activity
def handed_in_thread(name: str) -> str:
    begun.append(name)
    working.passed_in_thread()
    return name


@workflow
async def handed_slow() -> list[str]:
    return [await handed_long("first"), await handed_long("second")]


@workflow
async def handed_threads(name: str) -> str:
    return await handed_in_thread(name)


@workflow
async def handed_quick() -> str:
    return await echo("quick")


@workflow
async def handed_steps() -> list[str]:
    return [await echo("a"), await echo("b"), await echo("c")]


@workflow
async def handed_waits() -> str:
    return await handed_answer


WORKFLOWS: list[Workflow[Any, Any]] = [handed_slow, handed_threads, handed_quick, handed_steps, handed_waits]


async def _in_time(invocation: Awaitable[object]) -> None:
    async with asyncio.timeout(PATIENCE):
        await invocation


async def test_a_batch_with_a_long_activity_returns_when_its_budget_is_over() -> None:
    """99 quick executions and one of 25 s: the quick ones end, and the feed has its partition back after 2 s."""
    hints: list[Hint] = []
    async with Environment(WORKFLOWS, settings=BUDGETS) as env:
        ids = [(await env.start(handed_quick)).execution_id for _ in range(99)]
        long = (await env.start(handed_slow)).execution_id
        batch = asyncio.ensure_future(env.worker.drive_changes(await fed(env, long, *ids), hints.append))
        await until(lambda: begun == ["first"] and env.store.count("commit") == 99)
        start = env.clock.now()
        env.clock.advance(BUDGETS.batch_budget)
        await _in_time(batch)
        assert env.clock.now() - start <= timedelta(seconds=2)
        assert [(await env.status(id)).value() for id in ids] == ["quick"] * 99
        assert hints == [], "an activity that runs can't move"

        running = env.worker.running(long)
        assert running is not None
        working.open()
        await _in_time(running)
        released = await env.store.inner.read(long)
        assert (released.worker, released.suspended) == (None, False), "the drive took a further step"
        assert begun == ["first"]
        await env.worker.drive_changes([as_fed(released)], hints.append)
        assert hints == [Hint(long)], "the feed brings the release, and it is handed over at once"
        await env.worker.drive_changes([as_fed(released)], hints.append)
        assert hints == [Hint(long)], "a hint that was given is not given again"

        other = Process(env)
        await other.worker.drive_one(hints[0], hints.append)
        assert (await env.status(long)).value() == ["first", "second"]
        await check_history(env, long)


async def test_what_is_between_two_steps_is_let_go_and_handed_over() -> None:
    hints: list[Hint] = []
    async with Environment(WORKFLOWS, settings=BUDGETS) as env:
        id = (await env.start(handed_steps)).execution_id
        env.store.before = slow = Gate(nth("append"))
        batch = asyncio.ensure_future(env.worker.drive_changes(await fed(env, id), hints.append))
        await slow.reached.wait()
        env.clock.advance(BUDGETS.batch_budget)
        await asyncio.sleep(0)
        slow.open()
        await _in_time(batch)
        released = await env.store.inner.read(id)
        assert (released.worker, released.suspended, released.claims) == (None, False, 0)
        assert hints == [Hint(id)]
        await env.worker.drive_changes([as_fed(released)], hints.append)
        assert hints == [Hint(id)]
        await Process(env).worker.drive_one(hints[0], hints.append)
        assert (await env.status(id)).value() == ["a", "b", "c"]


@pytest.mark.parametrize("call", ["replace", "append"])
async def test_a_store_that_hangs_does_not_hold_a_batch(call: str) -> None:
    """The store answers neither the claim nor the append: the batch gives up after the second second."""
    hints: list[Hint] = []
    async with Environment(WORKFLOWS, settings=BUDGETS) as env:
        id = (await env.start(handed_steps)).execution_id
        env.store.before = hangs = Gate(nth(call))
        batch = asyncio.ensure_future(env.worker.drive_changes(await fed(env, id), hints.append))
        await hangs.reached.wait()
        for budget in (BUDGETS.batch_budget, BUDGETS.let_go_within):
            await asyncio.sleep(0)
            env.clock.advance(budget)
            for _ in range(10):
                await asyncio.sleep(0)
        await _in_time(batch)
        assert hints == [Hint(id)]
        hangs.open()
        running = env.worker.running(id)
        if running is not None:
            await running
        await env.settle()
        assert (await env.status(id)).value() == ["a", "b", "c"]


async def test_what_waits_for_a_thread_moves() -> None:
    """An activity that has no thread yet has not begun: its execution is handed over, without a trace of it."""
    hints: list[Hint] = []
    async with Environment(WORKFLOWS, settings=ONE_THREAD) as env:
        ids = [(await env.start(handed_threads, name)).execution_id for name in ("one", "two", "three")]
        batch = asyncio.ensure_future(env.worker.drive_changes(await fed(env, *ids), hints.append))
        await until(lambda: env.store.count("replace") == 3 and len(begun) == 1)
        for _ in range(100):
            await asyncio.sleep(0)
        env.clock.advance(BUDGETS.batch_budget)
        await _in_time(batch)
        assert len(hints) == 2
        working.open()
        for hint in hints:
            await Process(env).worker.drive_one(hint, hints.append)
        await env.settle()
        assert [(await env.status(id)).value() for id in ids] == ["one", "two", "three"]
        assert sorted(begun) == ["one", "three", "two"], "an activity ran twice"


async def test_the_sweep_hands_over_what_it_has_no_places_for() -> None:
    """It doesn't hand over again what is queued already, until a hint may be lost."""
    hints: list[Hint] = []
    async with Environment(WORKFLOWS, settings=FEW_PLACES) as env:
        ids = {(await env.start(handed_quick)).execution_id for _ in range(10)}
        env.clock.advance(SWEEPS_NEW_AFTER)
        assert await env.worker.sweep(hints.append) == 10
        assert len(hints) == 8
        left = [id for id in ids if not (await env.status(id)).is_complete]
        assert {hint.execution_id for hint in hints} == set(left)

        env.store.before = unanswered("replace")  # nothing can be claimed: all stay due
        with pytest.raises(Unavailable):
            await env.worker.sweep(hints.append)
        assert len(hints) == 8, "what is queued was queued again"
        env.clock.advance(REPEATED_AFTER)
        with pytest.raises(Unavailable):
            await env.worker.sweep(hints.append)
        assert len(hints) == 8 + 6


@pytest.mark.parametrize("fate", ["lost", "late", "doubled"])
async def test_no_execution_depends_on_a_hint(fate: str) -> None:
    """The queue is away, slow, or gives a hint twice: each execution ends, and each step runs once."""
    hints: list[Hint] = []
    async with Environment(WORKFLOWS, settings=FEW_PLACES) as env:
        ids = [(await env.start(handed_steps)).execution_id for _ in range(6)]
        env.clock.advance(SWEEPS_NEW_AFTER)
        await env.worker.sweep(hints.append)
        assert len(hints) == 4
        if fate == "doubled":
            others = [Process(env) for _ in range(3)]
            await asyncio.gather(*(o.worker.drive_one(hint, hints.append) for hint in hints for o in others))
        else:
            for _ in range(2):
                await env.worker.sweep(lambda _: None)
        if fate == "late":
            for hint in hints:
                await Process(env).worker.drive_one(hint, hints.append)
        assert [(await env.status(id)).value() for id in ids] == [["a", "b", "c"]] * 6
        assert len(ledger.ran) == 18


async def test_a_long_drive_hands_over_before_its_invocation_is_cut_off() -> None:
    """It lets go between two steps; the hint is sent when the invocation has ended."""
    hints: list[Hint] = []
    async with Environment(WORKFLOWS, settings=BUDGETS) as env:
        id = (await env.start(handed_slow)).execution_id
        first = asyncio.ensure_future(env.worker.drive_one(Hint(id), hints.append))
        await until(lambda: begun == ["first"])
        env.clock.advance(BUDGETS.invocation_budget)
        await _in_time(first)
        running = env.worker.running(id)
        assert running is not None
        second = asyncio.ensure_future(env.worker.drive_one(Hint(id), hints.append))
        for _ in range(10):
            await asyncio.sleep(0)
        working.open()
        await _in_time(second)
        assert (await env.status(id)).value() == ["first", "second"], "an invocation that finds it here goes on with it"


async def test_a_hint_for_nothing_does_nothing() -> None:
    """It names nothing, or what has ended, what waits, or what somebody drives."""
    hints: list[Hint] = []
    async with Environment(WORKFLOWS, settings=BUDGETS) as env:
        ended, waits, driven = (
            (await env.start(handed_quick)).execution_id,
            (await env.start(handed_waits)).execution_id,
            (await env.start(handed_slow)).execution_id,
        )
        await env.drive(ended)
        await env.drive(waits)
        driving = env.worker.start(await env.store.inner.read(driven))
        await until(lambda: begun == ["first"])
        other = Process(env)
        for id in ("0" * 32, ended, waits, driven):
            await _in_time(other.worker.drive_one(Hint(id), hints.append))
        assert hints == []
        assert other.store.count("replace") == 0
        working.open()
        await driving


async def test_a_hint_fails_if_the_store_is_away() -> None:
    """The host then gives the message again."""
    hints: list[Hint] = []
    async with Environment(WORKFLOWS, settings=BUDGETS) as env:
        id = (await env.start(handed_quick)).execution_id
        env.store.before = unanswered("replace")
        with pytest.raises(Unavailable):
            await env.worker.drive_one(Hint(id), hints.append)
        env.store.before = nothing
        env.clock.advance(PAST_LEASE)
        await env.worker.drive_one(Hint(id), hints.append)
        assert (await env.status(id)).value() == "quick"
