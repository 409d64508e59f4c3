"""Executions that stop for a cause: a step that failed, drivers that die; and what sets them going again."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from engine import AlreadyEnded, Failure, Outcome, Workflow, activity, compensate, finalizer, workflow
from engine.store.wrapper import Call
from engine.testing import Environment
from tests.support.gates import Gate
from tests.support.mortal import assert_replays, do, everywhere, journal
from tests.support.processes import until

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

LEASE = timedelta(seconds=36)


class Stage:
    """What the test lets activities do."""

    working = Gate()
    is_mended: bool

    @classmethod
    def set(cls) -> None:
        journal.clear()
        cls.working.close()
        cls.is_mended = False


@activity
async def works() -> str:
    await Stage.working.passed()
    return "never"


@activity
async def fails_until_mended() -> str:
    journal.note("mended" if Stage.is_mended else "failed")
    if not Stage.is_mended:
        raise ValueError("broken")
    return "well"


@activity
async def is_held() -> str:
    raise ValueError("held")


@activity
async def is_given_up() -> str:
    raise ValueError("given up")


@activity
async def lasts() -> str:
    await Stage.working.passed()
    return "lasted"


async def gives_up_in_time() -> str:
    try:
        async with asyncio.timeout(60):
            return await is_given_up()
    except TimeoutError:
        return "given up"


@workflow(suspend_on_failure=True)
async def holds_two() -> list[str]:
    return await asyncio.gather(is_held(), gives_up_in_time(), lasts())  # type: ignore[return-value]


@workflow(suspend_on_failure=True)
async def needs_mending() -> list[str]:
    before = await asyncio.gather(do("a"), do("b"))
    return [*before, await fails_until_mended(), await do("c")]


@workflow(suspend_on_failure=True)
async def needs_mending_beside() -> list[str]:
    async def tidy() -> None:
        await asyncio.sleep(60)
        await do("tidied")

    compensate(tidy)
    return await asyncio.gather(fails_until_mended(), works())  # type: ignore[return-value]


@workflow(suspend_on_failure=True, time_limit=timedelta(hours=3))
async def lives_beside_the_broken() -> None:
    async def ticks() -> None:
        for _ in range(2):
            await asyncio.sleep(3_600)
            await do("tick")

    compensate(do, "undone")
    await asyncio.gather(fails_until_mended(), ticks())


@workflow(suspend_on_failure=True)
async def gives_up_on_the_broken() -> str:
    try:
        async with asyncio.timeout(3_600):
            await asyncio.gather(fails_until_mended(), works())
    except TimeoutError:
        await asyncio.sleep(60)
        return await do("gave up")
    return "mended"


class OfItsOwn(Failure):
    """An answer of the workflow: it isn't held for it."""


@workflow(suspend_on_failure=True)
async def undoes_at_its_end(well: bool) -> str:
    async def last(outcome: Outcome) -> None:
        await do(f"end {outcome.kind}")

    finalizer(last)
    compensate(do, "undo")
    mended = await fails_until_mended()
    if not well:
        raise OfItsOwn
    return mended


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]


def appended(env: Environment, kind: str) -> asyncio.Event:
    """Set once an event of that kind is in a history."""
    happened = asyncio.Event()

    async def after(call: Call) -> None:
        if call.method == "append" and call.arguments[0].events[0]["kind"] == kind:
            happened.set()

    env.store.after = after
    return happened


@SLOW
async def test_a_failing_step_suspends_and_resume_runs_that_step_alone() -> None:
    """The others keep their results; as often as it takes; at every crash."""

    async def scenario(env: Environment) -> None:
        Stage.set()
        id = await env.start(needs_mending, key="k")
        for _ in range(2):
            status = await env.finish(id)
            assert status.suspended
            assert status.cause is not None
            assert (status.cause.type, status.cause.message) == ("ValueError", "broken")
            await env.client.resume(id)
        Stage.is_mended = True
        assert (await env.finish(id)).value() == ["a", "b", "well", "c"]
        assert 2 <= journal.counts()["failed"] <= 4
        with pytest.raises(AlreadyEnded):
            await env.client.resume(id)

    await everywhere(ALL, scenario)


@pytest.mark.parametrize(
    ("well", "after"), [pytest.param(True, ["end completed"], marks=SLOW), (False, ["undo", "end failed"])]
)
async def test_a_suspension_is_no_end(well: bool, after: list[str]) -> None:
    """Nothing is undone and no finalizer runs, until it has one; a failure of the body's own is; at every crash."""

    async def scenario(env: Environment) -> None:
        Stage.set()
        id = await env.start(undoes_at_its_end, well, key="k")
        assert (await env.finish(id)).suspended
        assert set(journal.effects) == {"failed"}
        Stage.is_mended = True
        await env.client.resume(id)
        assert (await env.finish(id)).outcome == ("completed" if well else "failed")
        assert list(dict.fromkeys(journal.effects)) == ["failed", "mended", *after]

    await everywhere(ALL, scenario)


async def test_an_interrupt_of_what_is_about_to_suspend_cleans_up_to_the_end() -> None:
    """The failed step is given up, so it suspends nothing any more: a cleanup with a timer goes through."""
    async with Environment(ALL) as env:
        Stage.set()
        id = await env.start(needs_mending_beside)
        failed = appended(env, "held")
        driving = asyncio.create_task(env.drive(id))
        await Stage.working.reached.wait()
        await failed.wait()
        await env.client.interrupt(id)
        await driving
        assert (await env.finish(id)).outcome == "interrupted"
        assert journal.effects == ["failed", "tidied"]
        await assert_replays(env)


@pytest.mark.parametrize("mended", [True, False])
async def test_other_branches_and_the_time_limit_go_on_beside_a_held_step(mended: bool) -> None:
    """A timer brings the execution back. The step that failed is tried again then, and holds it again."""
    async with Environment(ALL) as env:
        Stage.set()
        id = await env.start(lives_beside_the_broken)
        await env.settle()
        for ticks in (0, 1):
            status = await env.status(id)
            assert status.suspended
            assert status.cause is not None
            assert status.due_at is not None
            assert journal.counts() == {"failed": ticks + 1} | ({"tick": ticks} if ticks else {})
            env.clock.advance(timedelta(hours=1, seconds=1))
            await env.settle()
        Stage.is_mended = mended
        if mended:
            await env.client.resume(id)
        status = await env.finish(id)
        assert status.outcome == ("completed" if mended else "failed")
        assert journal.counts()["tick"] == 2
        assert (journal.effects[-1] == "undone") == (not mended)
        assert mended or (status.error is not None and status.error.type == "TimeoutError")


async def test_a_failed_step_that_is_given_up_suspends_nothing() -> None:
    """A timeout around it fires while another step of the same drive still runs: the body goes on by its timers."""
    async with Environment(ALL) as env:
        Stage.set()
        id = await env.start(gives_up_on_the_broken)
        failed = appended(env, "held")
        driving = asyncio.create_task(env.drive(id))
        await Stage.working.reached.wait()
        await failed.wait()
        env.clock.advance(timedelta(hours=1))
        await driving
        assert (await env.finish(id)).value() == "gave up"


async def test_of_two_failed_steps_the_one_that_is_still_waited_for_is_the_cause() -> None:
    """Both have failed for good; then the later one times out, and a third step ends."""
    Stage.set()
    async with Environment(ALL) as env:
        id = await env.start(holds_two)
        driving = asyncio.ensure_future(env.drive(id))
        await until(lambda: sum(c.method == "append" and "held" in str(c.arguments) for c in env.store.calls) > 0)
        env.clock.advance(timedelta(seconds=61))
        await until(lambda: any(c.method == "append" and "timer" in str(c.arguments) for c in env.store.calls))
        Stage.working.open()
        execution = await driving
        assert execution.suspended
        assert execution.cause is not None
        assert execution.cause.message == "held"
        assert (await env.client.health()).stuck == {"ValueError": 1}
