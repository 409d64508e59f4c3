"""The details of `activity.heartbeat` outlive the attempt: the next one reads them, also after a crash."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from engine import ActivityError, Retry, Runtime, Workflow, activity, workflow
from engine.boundary import http
from engine.boundary.answers import Request
from engine.core.attempt_state import MAX_DETAILS
from engine.driving.activities import MAX_ALL_DETAILS
from engine.testing import Environment, survives
from tests.support.gates import Gate
from tests.support.processes import PAST_LEASE, Process

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")
TRIES = Retry(max_attempts=4, first_delay=timedelta(minutes=1), jitter=False)
HEARTBEAT = timedelta(seconds=11)
"""The time between two heartbeats of a lease, and a little more."""


class Copied(BaseModel):
    rows: int


class Stage:
    """What the activities of these tests share with them."""

    working = Gate()
    begun_with: list[Any]
    details: Any

    @classmethod
    def reset(cls) -> None:
        cls.working.close()
        cls.begun_with, cls.details = [], None


@pytest.fixture(autouse=True)
async def _reset() -> None:
    Stage.reset()


@activity(retry=TRIES)
async def details_copy(rows: int) -> list[int]:
    """Copies five rows in each attempt. Returns where the last attempt began."""
    done = activity.last_heartbeat(Copied) or Copied(rows=0)
    for row in range(done.rows, min(rows, done.rows + 5)):
        activity.heartbeat(Copied(rows=row + 1))
    if done.rows + 5 < rows:
        raise ConnectionError("closed")
    return [done.rows, activity.info().attempt]


@activity(retry=TRIES)
def details_copy_in_a_thread(rows: int) -> list[int]:
    return asyncio.run(details_copy.function(rows))


@activity(retry=TRIES)
async def details_hang() -> str:
    Stage.begun_with.append(activity.last_heartbeat())
    activity.heartbeat(f"by attempt {activity.info().attempt}")
    await Stage.working.passed()
    return "done"


@activity
async def details_give() -> None:
    activity.heartbeat(Stage.details)
    await Stage.working.passed()


@activity(retry=Retry(max_attempts=2))
async def details_of_another_type() -> Any:
    if activity.info().attempt == 1:
        activity.heartbeat("five")
        raise ConnectionError("closed")
    return activity.last_heartbeat(Copied)


@workflow(name="details.copies")
async def copies() -> list[list[int]]:
    return [await details_copy(13), await details_copy_in_a_thread(12), await details_copy(5)]


@workflow(name="details.hangs")
async def hangs() -> str:
    return await details_hang()


@workflow(name="details.held", suspend_on_failure=True)
async def held() -> list[int]:
    return await details_copy.with_options(retry=None)(7)


@workflow(name="details.gives")
async def gives(calls: int = 1) -> str:
    try:
        await asyncio.gather(*(details_give() for _ in range(calls)))
    except ActivityError as error:
        return f"{error.type_name}: {error.message}"
    return "done"


@workflow(name="details.mistyped")
async def mistyped() -> str:
    try:
        return str(await details_of_another_type())
    except ActivityError as error:
        return f"{error.type_name}: {error.message}"


ALL: list[Workflow[Any, Any]] = [copies, hangs, held]


async def test_the_next_attempt_goes_on_where_the_last_one_was_and_each_step_has_its_own() -> None:
    async with Environment([copies], evict=True) as env:
        assert (await env.run(copies)).value() == [[10, 3], [10, 3], [0, 1]]


@SLOW
async def test_wherever_the_process_dies_nothing_that_was_recorded_is_copied_again() -> None:
    async def play(env: Environment) -> Any:
        return (await env.run(copies)).value()

    assert await survives([copies], play) == [[10, 3], [10, 3], [0, 1]]


async def test_a_crash_in_the_middle_of_an_attempt_keeps_what_the_lease_carried() -> None:
    """The attempt is made again, as it has not failed."""
    async with Environment([hangs]) as env:
        execution = (await env.start(hangs)).execution_id
        first = Process(env)
        await first.drive(execution)
        await Stage.working.reached.wait()
        env.clock.advance(HEARTBEAT)
        await _until_stored(env, execution)
        assert (await env.status(execution)).heartbeats == {"details_hang": "by attempt 1"}
        polled = await _polled(env, execution)
        assert polled["heartbeats"] == {"details_hang": "by attempt 1"}
        assert [step["details"]["value"] for step in polled["pending"]] == ["by attempt 1"]
        await first.die(execution)
        env.clock.advance(PAST_LEASE)
        Stage.working.open()
        assert (await env.finish(execution)).value() == "done"
        assert Stage.begun_with == [None, "by attempt 1"]
        stored = await env.store.inner.read(execution)
        assert stored.heartbeats == {}


async def test_a_host_that_stops_writes_the_details_of_what_it_cuts() -> None:
    async with Environment([hangs]) as env:
        execution = (await env.start(hangs)).execution_id
        first = Process(env)
        await first.drive(execution)
        await Stage.working.reached.wait()
        await first.worker.close(timedelta(0))
        assert (await env.status(execution)).heartbeats == {"details_hang": "by attempt 1"}


async def test_they_show_while_the_step_waits_and_a_held_step_keeps_them() -> None:
    async with Environment([held]) as env:
        execution = (await env.start(held)).execution_id
        await env.settle()
        assert (await env.status(execution)).heartbeats == {"details_copy": {"rows": 5}}
        (step,) = (await _polled(env, execution))["pending"]
        assert step["details"]["value"] == {"rows": 5}
        await env.client.resume(execution)
        assert (await env.finish(execution)).value() == [5, 1]
        assert (await env.status(execution)).heartbeats == {}


async def test_the_end_of_an_execution_deletes_them() -> None:
    async with Environment([hangs]) as env:
        execution = (await env.start(hangs)).execution_id
        first = Process(env)
        driving = await first.drive(execution)
        await Stage.working.reached.wait()
        env.clock.advance(HEARTBEAT)
        await _until_stored(env, execution)
        await env.client.terminate(execution)
        await first.die(execution)
        assert driving.done()
        assert (await env.store.inner.read(execution)).heartbeats == {}


async def _polled(env: Environment, execution: str) -> dict[str, Any]:
    runtime = Runtime(ALL, lambda: env.store.inner, env.settings, env.clock)
    answer = await http.poll(runtime, Request("https://host/", query={"pending": "true"}), execution)
    polled: dict[str, Any] = json.loads(answer.body)
    return polled


async def _until_stored(env: Environment, execution: str) -> None:
    for _ in range(10_000):
        if (await env.store.inner.read(execution)).heartbeats:
            return
        await asyncio.sleep(0)
    raise AssertionError("the details were not stored")


# -- misuse --


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ("x" * MAX_DETAILS, "TooLarge: the details of activity.heartbeat() take 4,098 characters as JSON, and at most"),
        (object(), "EncodingError: the details of activity.heartbeat(): a value of type object"),
        ([object()], "EncodingError: the details of activity.heartbeat(): a value of type list"),
    ],
)
async def test_details_that_cannot_be_kept_are_refused_at_the_call(details: Any, message: str) -> None:
    async with Environment([gives]) as env:
        Stage.details = details
        assert (await env.run(gives)).value().startswith(message)
        assert env.ran() == ["details_give"]


async def test_many_large_details_leave_room_in_the_exec_document() -> None:
    calls = MAX_ALL_DETAILS // MAX_DETAILS + 10
    made = workflow(name="details.gives", max_parallel=calls)(gives.function)
    async with Environment([made]) as env:
        Stage.details = "x" * (MAX_DETAILS - 2)
        execution = (await env.start(made, calls)).execution_id
        process = Process(env)
        driving = await process.drive(execution)
        await Stage.working.reached.wait()
        await process.worker.close(timedelta(0))
        assert driving.done()
        kept = (await env.store.inner.read(execution)).heartbeats
        assert len(kept) == MAX_ALL_DETAILS // MAX_DETAILS


async def test_details_of_another_type_say_so() -> None:
    async with Environment([mistyped]) as env:
        said = (await env.run(mistyped)).value()
        assert said.startswith("EncodingError: the details of activity.heartbeat() can't be read as Copied")


@pytest.mark.parametrize("call", ["heartbeat", "last_heartbeat", "is_cancelled"])
def test_outside_an_activity_each_call_says_so(call: str) -> None:
    arguments = [1] if call == "heartbeat" else []
    with pytest.raises(RuntimeError, match=rf"activity\.{call}\(\) is for the code of an activity that a workflow"):
        getattr(activity, call)(*arguments)
