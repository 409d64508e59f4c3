"""The options of a workflow: time limit, retention, tags, parallel activities; what each does, and its misuse."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from engine import Deferred, InvalidInput, Workflow, activity, compensate, workflow
from engine.boundary.filters import parse
from engine.boundary.http import describe
from engine.core.options import DEFAULT_PARALLEL
from engine.ground.clock import FAR_FUTURE
from engine.ground.settings import Settings
from engine.store.base import Filter
from engine.testing import Environment
from engine.testing.environment import TEST_SETTINGS
from tests.support.mortal import assert_at_rest, assert_replays, do, everywhere, executions, journal, mortal

answer = Deferred("options.answer", str)


class Load:
    """How many activities run now, and how many ever did at a time."""

    now = most = 0
    hanging: asyncio.Event


@activity
async def weighs() -> None:
    Load.now += 1
    Load.most = max(Load.most, Load.now)
    for _ in range(20):
        await asyncio.sleep(0)
    Load.now -= 1


@activity
async def hangs() -> None:
    Load.hanging.set()
    await asyncio.Event().wait()


@workflow
async def waits_for_long() -> str:
    return await answer


@workflow(time_limit=timedelta(hours=1))
async def is_limited(how: str) -> str:
    compensate(do, "undone")
    match how:
        case "quick":
            await asyncio.sleep(3_599)
        case "sleep":
            await asyncio.sleep(86_400)
        case "child":
            await waits_for_long()
        case "activity":
            await hangs()
        case "swallow":
            try:
                await answer
            except asyncio.CancelledError:
                return await do("swallowed")
        case "deferred":
            return await answer
    return await do("done")


@workflow(tags={"team": "post", "größe": "∞"}, retention=timedelta.max)
async def is_tagged() -> str:
    return "x"


@workflow(max_parallel=3)
async def three_at_a_time() -> None:
    await asyncio.gather(*(weighs() for _ in range(20)))


@workflow
async def as_many_as_usual() -> None:
    await asyncio.gather(*(weighs() for _ in range(DEFAULT_PARALLEL + 20)))


@workflow(time_limit=timedelta.max)
async def limited_for_ever() -> str:
    return await answer


@workflow
async def starts_tagged() -> str:
    return await is_tagged()


async def sleeps_twice() -> list[str]:
    first = await do("one")
    await asyncio.sleep(600)
    second = await do("two")
    await asyncio.sleep(600)
    return [first, second]


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]


@pytest.mark.parametrize("how", ["sleep", "deferred", "swallow", "child"])
async def test_a_time_limit_cancels_compensates_and_fails(how: str) -> None:
    """After the hour and not before, whatever it waits for and whatever it makes of it; at every crash."""

    async def scenario(env: Environment) -> None:
        status = await env.run(is_limited, how, key="k")
        assert status.outcome == "failed"
        assert status.error is not None
        assert status.error.type == "TimeoutError"
        assert "1:00:00" in status.error.message
        assert status.completed_at is not None
        took = status.completed_at - status.created_at
        assert timedelta(hours=1) <= took < timedelta(hours=1, minutes=2)
        assert journal.counts()["undone"] >= 1
        assert "done" not in journal.effects
        await env.settle()
        assert {child.interrupted for child in await executions(env, waits_for_long)} <= {True}

    await everywhere(ALL, scenario)


async def test_a_time_limit_reaches_a_running_activity() -> None:
    """It is cancelled; no drive waits for it."""
    async with mortal(ALL) as env:
        Load.hanging = asyncio.Event()
        id = await env.start(is_limited, "activity")
        driving = asyncio.create_task(env.drive(id))
        await Load.hanging.wait()
        env.clock.advance(timedelta(hours=1))
        await driving
        assert (await env.status(id)).outcome == "failed"
        assert journal.effects == ["undone"]


async def test_who_is_in_time_hears_nothing_of_the_limit() -> None:
    """An end a second before it; the clock may go on for days."""
    async with mortal(ALL) as env:
        id = (await env.start(is_limited, "quick")).execution_id
        assert (await env.finish(id)).value() == "done"
        ended = await env.store.inner.read(id)
        env.clock.advance(timedelta(days=9))
        await env.worker.sweep()
        assert await env.store.inner.read(id) == ended
        assert journal.effects == ["done"]


async def test_an_interrupt_before_the_limit_stays_an_interrupt() -> None:
    """The limit passes later, and changes nothing."""
    async with mortal(ALL) as env:
        id = await env.start(is_limited, "deferred")
        await env.settle()
        await env.client.interrupt(id)
        assert (await env.finish(id)).outcome == "interrupted"
        assert journal.effects == ["undone"]


@pytest.mark.parametrize("limit", [None, timedelta(days=1), timedelta(days=2)])
async def test_a_deployment_may_set_change_or_take_away_a_limit(limit: timedelta | None) -> None:
    """I1: it is an option, no step: executions that began without it, or with another, replay as before."""
    before = workflow(name="redeployed", time_limit=timedelta(days=3) if limit is None else None)(sleeps_twice)
    after = workflow(name="redeployed", time_limit=limit)(sleeps_twice)
    async with Environment([before]) as env:
        journal.clear()
        id = (await env.start(before)).execution_id
        await env.settle()
        execution = await env.store.inner.read(id)
        assert execution.due_at is not None
        env.clock.jump(execution.due_at)
        await env.settle()
        assert journal.effects == ["one", "two"]
        env.deploy([after])
        assert (await env.finish(id)).value() == ["one", "two"]
        assert journal.effects == ["one", "two"]


async def test_tags_are_on_the_execution_its_children_and_in_lists() -> None:
    """What the option says, for each of its executions however it is started."""
    tags = {"team": "post", "größe": "∞"}
    async with Environment(ALL) as env:
        await env.run(is_tagged)
        await env.run(starts_tagged)
        listed = (await env.client.list(Filter(workflow="is_tagged"))).executions
        assert [execution.tags for execution in listed] == [tags, tags]
        assert [describe(await env.status(e.execution_id))["tags"] for e in listed] == [tags, tags]
        (parent,) = await executions(env, starts_tagged)
        assert "tags" not in describe(await env.status(parent.execution_id))


@workflow(tags=lambda order: order)
async def is_tagged_by_its_payload(order: dict[str, Any]) -> str:
    return await do("tagged")


@workflow(tags=lambda: {"team": "post"})
async def starts_one_tagged_by_its_payload() -> str:
    try:
        await is_tagged_by_its_payload({"size": 3})
    except InvalidInput as error:
        await do(str(error)[:80])
    return await is_tagged_by_its_payload({"customer": "ada"})


async def test_tags_are_made_of_the_payload_at_the_start_also_for_a_child() -> None:
    """What can't be a tag is refused before anything is stored: to the client, and to the parent's code."""
    async with Environment([is_tagged_by_its_payload, starts_one_tagged_by_its_payload]) as env:
        assert (await env.run(is_tagged_by_its_payload, {"customer": "eve"})).tags == {"customer": "eve"}
        parent = await env.run(starts_one_tagged_by_its_payload)
        assert (parent.value(), parent.tags) == ("tagged", {"team": "post"})
        found = parse("tag.customer:ada", env.clock.now()).filter
        assert [one.tags for one in (await env.client.list(found)).executions] == [{"customer": "ada"}]


@pytest.mark.parametrize(
    "tags",
    [{"size": 3}, {"": "x"}, {"a": "x" * 257}, {"a" * 257: "x"}, {str(n): "" for n in range(21)}, {"a": "\ud800"}],
)
async def test_tags_that_cannot_be_stored_refuse_the_start(tags: dict[str, Any]) -> None:
    """Static ones are refused where they are declared."""
    broken: Any = workflow(name="options.broken_tags", tags=lambda: tags)(starts_one_tagged_by_its_payload.function)
    async with Environment([broken, is_tagged_by_its_payload]) as env:
        with pytest.raises(InvalidInput, match=r"can't make its tags .*(tag|half)"):
            await env.start(broken)
        assert env.store.count("create") == 0
    with pytest.raises((TypeError, ValueError)):
        workflow(tags=tags)(starts_one_tagged_by_its_payload.function)


async def test_the_longest_durations_overflow_nothing() -> None:
    """Kept for ever, limited for ever: each ends, and neither driver nor sweep stumbles over it."""
    async with Environment(ALL) as env:
        status = await env.run(is_tagged)
        assert status.value() == "x"
        assert (await env.store.inner.read(status.execution_id)).due_at == FAR_FUTURE
        id = await env.start(limited_for_ever)
        await env.settle()
        await env.worker.sweep()
        await env.resolve(id, answer, "at last")
        await env.settle()
        assert (await env.status(id)).value() == "at last"
        await assert_at_rest(env)
        await assert_replays(env)


@pytest.mark.parametrize(
    ("own", "settings", "days"), [(None, 30, 30), (None, 0, None), (2, 30, 2), (2, 0, 2), (0, 30, None)]
)
async def test_how_long_it_is_kept_when_it_has_ended(own: int | None, settings: int, days: int | None) -> None:
    """The workflow's own retention, else that of the settings; zero is for ever. Its child's as well."""
    retention = None if own is None else timedelta(days=own)

    @workflow(retention=retention)
    async def kept() -> str:
        return "kept"

    @workflow(retention=retention)
    async def keeper() -> str:
        return await kept()

    kept_for = Settings.from_environment({"ENGINE_RETENTION_DAYS": str(settings)}).retention
    async with Environment([kept, keeper], settings=replace(TEST_SETTINGS, retention=kept_for)) as env:
        id = await env.start(keeper)
        assert (await env.finish(id)).value() == "kept"
        assert len(await executions(env)) == 2
        env.clock.advance(timedelta(days=days or 10_000, seconds=-1))
        await env.worker.sweep()
        assert len(await executions(env)) == 2
        env.clock.advance(timedelta(seconds=1))
        await env.worker.sweep()
        assert len(await executions(env)) == (2 if days is None else 0)


@pytest.mark.parametrize("days", ["-1", "soon", "40000", "inf", "0.0001"])
def test_a_retention_that_makes_no_sense_is_refused_at_start_up(days: str) -> None:
    with pytest.raises(ValueError, match="ENGINE_RETENTION_DAYS"):
        Settings.from_environment({"ENGINE_RETENTION_DAYS": days})


def test_thirty_days_unless_set() -> None:
    assert Settings.from_environment({}).retention == Settings().retention == timedelta(days=30)


@pytest.mark.parametrize(("one", "most"), [(three_at_a_time, 3), (as_many_as_usual, DEFAULT_PARALLEL)])
async def test_no_more_activities_run_at_a_time_than_the_limit_says(one: Workflow[Any, Any], most: int) -> None:
    """The limit is reached, not passed, and everything runs."""
    Load.now = Load.most = 0
    async with Environment(ALL) as env:
        assert (await env.run(one)).outcome == "completed"
        assert Load.most == most


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"time_limit": timedelta(0)}, ValueError, "time_limit must be more than zero"),
        ({"time_limit": 5}, TypeError, "time_limit must be a timedelta"),
        ({"retention": timedelta(seconds=-1)}, ValueError, "retention must be at least a minute"),
        ({"retention": timedelta(seconds=59)}, ValueError, "retention must be at least a minute"),
        ({"retention": "1d"}, TypeError, "retention must be a timedelta"),
        ({"max_parallel": 0}, ValueError, "max_parallel must be a number of at least 1"),
        ({"max_parallel": "3"}, ValueError, "max_parallel must be a number of at least 1"),
        ({"tags": {"size": 3}}, TypeError, "tags must be texts by name"),
        ({"name": "a-b"}, ValueError, "letters, digits"),
        ({"name": "日" * 150}, ValueError, "quoted form"),
    ],
)
def test_misuse_is_an_error_where_it_is_declared(options: dict[str, Any], error: type[Exception], words: str) -> None:
    """The app doesn't start with it, and the message says what is wanted."""
    with pytest.raises(error, match=words):
        workflow(**options)(sleeps_twice)
