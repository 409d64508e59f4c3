"""What a workflow's code shows of itself, its status and its tags, is stored with the engine's own writes, follows from
the history alone, and is never ahead of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, Field

from engine import Channel, Deferred, EncodingError, Filter, TooLarge, Workflow, activity, restart, workflow
from engine.boundary.answers import describe
from engine.core.displayed import MAX_STATUS_BYTES
from engine.driving.lease import EVENTS_AT_A_TIME
from engine.store.conditions import Condition
from engine.testing import Call, Environment, survives
from tests.support.recovery import Scenario, completes, survives_crashes

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

shown_go = Deferred("shown.go", str)
shown_rounds = Channel("shown.rounds", str)


class Progress(BaseModel):
    done: int
    of: int = Field(alias="outOf")


@activity
async def shown_step(what: str) -> str:
    return what


@workflow(tags={"kind": "parcel"})
async def shown_parcel() -> str:
    workflow.set_status("packing")
    workflow.set_tag("place", "here")
    await shown_step("pack")
    workflow.set_status({"sent": 1, "of": 2})
    await asyncio.sleep(3600)
    workflow.set_status(["waits", None])
    workflow.set_tag("place", "there")
    went = await shown_go
    workflow.set_status(Progress(done=2, outOf=2))
    workflow.set_tag("carrier", "van")
    return went


async def _watched(env: Environment) -> list[Any]:
    """What the outside sees while the execution is parked, and at its end."""
    parcel = await env.start(shown_parcel)
    seen = list[Any]()
    await env.settle()
    seen.append(await env.status(parcel))
    env.clock.advance(timedelta(hours=2))
    await env.settle()
    seen.append(await env.status(parcel))
    await env.resolve(parcel, shown_go, "well")
    seen.append(await env.finish(parcel))
    return [(status.custom_status, dict(status.tags)) for status in seen]


PARCEL = [
    ({"sent": 1, "of": 2}, {"kind": "parcel", "place": "here"}),
    (["waits", None], {"kind": "parcel", "place": "there"}),
    ({"done": 2, "outOf": 2}, {"kind": "parcel", "place": "there", "carrier": "van"}),
]


async def test_the_outside_sees_them_while_it_is_parked_and_at_its_end() -> None:
    async with Environment([shown_parcel]) as env:
        assert await _watched(env) == PARCEL


@SLOW
async def test_a_crash_at_any_call_of_the_store_changes_nothing_of_it() -> None:
    assert await survives([shown_parcel], _watched) == PARCEL
    await survives_crashes(Scenario(shown_parcel, signals=[completes(shown_go, "well")]))


async def test_the_answer_the_list_and_the_filter_have_them() -> None:
    async with Environment([shown_parcel]) as env:
        parcel = await env.start(shown_parcel)
        await env.settle()
        assert describe(await env.status(parcel))["customStatus"] == {"sent": 1, "of": 2}
        there = Condition((("tags", "place"),), "is", ("here",))
        (found,) = (await env.client.list(Filter(conditions=(there,)))).executions
        assert (found.execution_id, found.custom_status) == (parcel.execution_id, {"sent": 1, "of": 2})


def _calls(store_calls: list[Call]) -> list[str]:
    return [call.method for call in store_calls]


async def test_they_cost_no_request() -> None:
    """The calls of the store are those of the same workflow without them."""

    def told(shows: bool) -> Workflow[Any, Any]:
        @workflow(name="shown.counted")
        async def counted() -> str:
            for number in range(5):
                if shows:
                    workflow.set_status(number)
                    workflow.set_tag("number", str(number))
                await shown_step(str(number))
            await asyncio.sleep(60)
            if shows:
                workflow.set_status("slept")
            return await shown_go

        return counted

    calls = list[list[str]]()
    for shows in (True, False):
        async with Environment([told(shows)]) as env:
            execution = await env.start("shown.counted")
            await env.settle()
            await env.resolve(execution, shown_go, "on")
            await env.finish(execution)
            calls.append(_calls(env.store.calls))
    assert calls[0] == calls[1]


async def test_a_heartbeat_shows_it_while_an_activity_runs() -> None:
    seen = list[Any]()

    @activity
    async def takes_long() -> None:
        for _ in range(3):
            env.clock.advance(env.settings.heartbeat)
            for _ in range(50):
                await asyncio.sleep(0)
        seen.append((await env.client.status(execution)).custom_status)

    @workflow(name="shown.long")
    async def long() -> None:
        workflow.set_status("long")
        await takes_long()

    async with Environment([long]) as env:
        execution = (await env.start(long)).execution_id
        await env.finish(execution)
    assert seen == ["long"]


async def test_a_heartbeat_shows_nothing_that_is_not_recorded() -> None:
    """A status that follows from an event which isn't recorded yet may never come true. The heartbeat between two
    turns of a long delivery comes before the record."""
    stored = list[tuple[str, str | None]]()

    @workflow(name="shown.ahead")
    async def ahead() -> None:
        await shown_step("first")
        for number in range(EVENTS_AT_A_TIME + 1):
            await shown_rounds.receive()
            workflow.set_status("ahead")
            if number == 1:
                env.clock.advance(env.settings.heartbeat)

    async def after(call: Call) -> None:
        if call.method in ("append", "replace"):
            stored.append((call.method, (await env.store.inner.read(execution)).custom_status))

    async with Environment([ahead]) as env:
        execution = (await env.start(ahead)).execution_id
        for number in range(EVENTS_AT_A_TIME + 1):
            await env.client.send(execution, shown_rounds, str(number))
        env.store.after = after
        status = await env.finish(execution)
    assert status.custom_status == "ahead"
    assert stored[-1] == ("replace", None), "the heartbeat came after the record, or was ahead of it"


async def test_they_come_along_in_a_restart_until_others_are_shown() -> None:
    @workflow(name="shown.rounds_of")
    async def rounds(number: int) -> str:
        said = await shown_rounds.receive()
        if said == "show":
            workflow.set_status(number)
            workflow.set_tag("round", str(number))
        if said == "clear":
            workflow.set_status(None)
        if said == "end":
            return said
        restart(number + 1)

    async with Environment([rounds]) as env:
        execution = await env.start(rounds, 1)
        for said, status, tags in (
            ("on", None, {}),
            ("show", 2, {"round": "2"}),
            ("on", 2, {"round": "2"}),
            ("show", 4, {"round": "4"}),
            ("clear", None, {"round": "4"}),
            ("end", None, {"round": "4"}),
        ):
            await env.client.send(execution.execution_id, shown_rounds, said)
            await env.settle()
            seen = await env.status(execution)
            assert (seen.custom_status, seen.tags) == (status, tags), said


async def test_a_replay_that_breaks_off_shows_nothing_older() -> None:
    @workflow(name="shown.changed")
    async def changed() -> str:
        workflow.set_status("begins")
        await asyncio.sleep(60)
        workflow.set_status("slept")
        return await shown_go

    @workflow(name="shown.changed")
    async def other() -> str:
        workflow.set_status("begins")
        return await shown_go

    async with Environment([changed]) as env:
        execution = await env.start(changed)
        await env.settle()
        env.clock.advance(timedelta(minutes=2))
        await env.settle()
        env.deploy([other])
        await env.resolve(execution, shown_go, "on")
        await env.settle()
        broken = await env.status(execution)
        assert broken.cause is not None
        assert broken.cause.type == "NonDeterminism"
        assert broken.custom_status == "slept"


class Unstorable:
    pass


@dataclass
class Parcel:
    weight: float


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ("x" * MAX_STATUS_BYTES, TooLarge, "2,048"),
        (Unstorable(), EncodingError, "Unstorable"),
        ([Parcel(1.0)], EncodingError, "the custom status"),
        (float("nan"), EncodingError, "the custom status"),
        ({1: "x"}, EncodingError, "the custom status"),
        ("\ud800", EncodingError, "the custom status"),
    ],
    ids=["large", "no JSON", "inside", "nan", "no text", "half a character"],
)
async def test_a_status_that_cannot_be_shown_is_refused_and_the_old_one_stays(
    value: Any, error: type[Exception], words: str
) -> None:
    @workflow(name="shown.refused")
    async def refused() -> str:
        workflow.set_status(Parcel(2.5))
        with pytest.raises(error) as raised:
            workflow.set_status(value)
        return str(raised.value)

    async with Environment([refused]) as env:
        status = await env.run(refused)
        assert words in status.value()
        assert status.custom_status == {"weight": 2.5}


async def test_tags_keep_the_limits_of_tags_in_replay_too() -> None:
    """The twenty-first is refused, live and in a replay that begins with the tags of later turns."""

    @workflow(name="shown.many", tags={"first": "1"})
    async def many() -> list[str]:
        refused = list[str]()
        for number in range(25):
            try:
                workflow.set_tag(f"tag {number}", "x")
            except ValueError as error:
                refused.append(f"{number}: {error}")
            await asyncio.sleep(60)
        wrong: list[tuple[str, Any]] = [("", "x"), ("x" * 257, "x"), ("a", 1), ("\ud800", "x")]
        for name, text in wrong:
            with pytest.raises((TypeError, ValueError)):
                workflow.set_tag(name, text)
        workflow.set_tag("first", "")
        return refused

    async with Environment([many]) as env:
        status = await env.run(many)
        assert [line.split(":")[0] for line in status.value()] == ["19", "20", "21", "22", "23", "24"]
        assert "at most 20 tags" in status.value()[0]
        assert dict(status.tags) == {"first": ""} | {f"tag {number}": "x" for number in range(19)}


async def test_what_failed_shows_its_last_status_and_a_retry_shows_the_new_one() -> None:
    up = {"now": False}

    @activity
    async def shown_press() -> str:
        if not up["now"]:
            raise ValueError("down")
        return "up"

    @workflow(name="shown.presses")
    async def presses() -> str:
        workflow.set_status("pressing")
        pressed = await shown_press()
        workflow.set_status("pressed")
        return pressed

    async with Environment([presses]) as env:
        execution = await env.start(presses)
        failed = await env.finish(execution)
        assert (failed.outcome, failed.custom_status) == ("failed", "pressing")
        up["now"] = True
        await env.client.retry(execution.execution_id)
        ended = await env.finish(execution)
        assert (ended.outcome, ended.custom_status) == ("completed", "pressed")


def test_outside_of_a_workflow_both_say_where_they_belong() -> None:
    with pytest.raises(RuntimeError, match="for the code of a workflow"):
        workflow.set_status(1)
    with pytest.raises(RuntimeError, match="for the code of a workflow"):
        workflow.set_tag("a", "b")
