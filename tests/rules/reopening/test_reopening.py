"""P4: an execution that failed or was interrupted runs again under its id, with mended code, or is refused by name."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from engine import (
    Deferred,
    Failure,
    NotReopened,
    Runtime,
    Settings,
    UnknownExecution,
    UnreadableExecution,
    activity,
    compensate,
    restart,
    workflow,
)
from engine.boundary import http
from engine.boundary.answers import Request
from engine.store.documents import Chunk
from engine.store.sqlite.store import SqliteStore
from engine.store.wrapper import Call
from engine.testing import Environment
from engine.values.events import Takeover
from tests.support.gates import nth
from tests.support.processes import Process
from tests.support.stored import delete, purge

approval = Deferred("reopening.approval", str)


class Shop:
    """What the outside is like, and what was done to it."""

    done: ClassVar[list[str]] = []
    is_open = True
    code_is_right = True


class Closed(Failure):
    pass


@pytest.fixture(autouse=True)
def shop() -> None:
    Shop.done, Shop.is_open, Shop.code_is_right = [], True, True


@activity
async def reserve(what: str) -> str:
    Shop.done.append(f"reserve {what}")
    return what


@activity
async def buy(what: str) -> str:
    Shop.done.append(f"buy {what}")
    if not Shop.is_open:
        raise ConnectionError("the shop is closed")
    return f"{what} bought"


@activity
async def put_back(what: str) -> None:
    Shop.done.append(f"put back {what}")


@workflow
async def reopening_order(what: str) -> str:
    await reserve(what)
    if not Shop.code_is_right:
        raise KeyError("price")
    return await buy(what)


@workflow
async def reopening_undoes(what: str) -> str:
    compensate(put_back, await reserve(what))
    return await buy(what)


@workflow
async def reopening_restarts(what: str) -> str:
    if what == "first":
        restart("next " + "x" * 300_000)
    if not Shop.code_is_right:
        raise KeyError("price")
    return what[:4]


@workflow(suspend_on_failure=True)
async def reopening_held(what: str) -> str:
    compensate(put_back, await reserve(what))
    if not Shop.code_is_right:
        raise KeyError("price")
    if what == "nothing":
        raise Closed
    return what


@workflow
async def reopening_waits(what: str) -> str:
    try:
        return await approval + await buy(what)
    finally:
        await reserve("the bin")


@workflow
async def reopening_parent(what: str) -> str:
    return await reopening_order(what)


@workflow
async def reopening_group(what: str) -> str:
    async with asyncio.TaskGroup() as group:
        bought = [group.create_task(buy(f"{what} {number}")) for number in range(2)]
    return ", ".join(task.result() for task in bought)


@workflow
async def reopening_gathers(what: str) -> str:
    answers = await asyncio.gather(buy(what), buy(what), return_exceptions=True)
    if errors := [answer for answer in answers if isinstance(answer, Exception)]:
        raise ExceptionGroup("not all was bought", errors)
    return ", ".join(map(str, answers))


ALL = [reopening_order, reopening_undoes, reopening_held, reopening_waits, reopening_parent]
ALL += [reopening_group, reopening_gathers]


async def _failed(env: Environment, workflow: Any = reopening_order, what: str = "tea") -> str:
    id: str = (await env.start(workflow, what)).execution_id
    await env.settle()
    assert (await env.status(id)).is_complete
    return id


@pytest.mark.usefixtures("every_store")
async def test_a_run_that_failed_before_its_first_step_keeps_its_payload() -> None:
    """A large payload of a restart lies in the event that began the run. That event counts after the retry too."""
    async with Environment([reopening_restarts]) as env:
        Shop.code_is_right = False
        failed = await env.run(reopening_restarts, "first")
        assert failed.outcome == "failed"
        Shop.code_is_right = True
        await env.client.retry(failed.execution_id)
        assert (await env.finish(failed.execution_id)).value() == "next"


async def test_a_step_that_failed_runs_again_and_those_before_it_do_not() -> None:
    """P4: same id; the activity has all its attempts again."""
    Shop.is_open = False
    async with Environment(ALL) as env:
        id = await _failed(env)
        Shop.is_open = True
        status = await env.client.retry(id)
        assert (status.is_complete, status.outcome, status.error) == (False, None, None)
        assert (await env.finish(id)).value() == "tea bought"
        assert Shop.done == ["reserve tea", "buy tea", "buy tea"]


@pytest.mark.parametrize("one", [reopening_group, reopening_gathers], ids=lambda w: w.name)
async def test_the_steps_in_a_group_that_failed_run_again(one: Any) -> None:
    """P4, N7: an activity that failed in a TaskGroup, and two that failed with the same message."""
    Shop.is_open = False
    async with Environment(ALL) as env:
        id = await _failed(env, one)
        Shop.is_open = True
        await env.client.retry(id)
        found = "tea 0 bought, tea 1 bought" if one is reopening_group else "tea bought, tea bought"
        assert (await env.finish(id)).value() == found


async def test_a_mistake_in_the_code_goes_on_with_mended_code() -> None:
    """P4: what was recorded stays, and nothing runs twice. It may fail and be mended more than once."""
    Shop.code_is_right = False
    async with Environment(ALL) as env:
        id = await _failed(env)
        for _ in range(3):
            await env.client.retry(id)
            await env.settle()
            assert (await env.status(id)).outcome == "failed"
        Shop.code_is_right = True
        await env.client.retry(id)
        assert (await env.finish(id)).value() == "tea bought"
        assert Shop.done == ["reserve tea", "buy tea"]


async def test_what_was_interrupted_goes_on_where_the_interrupt_reached_it() -> None:
    """P4: what its cleanup did is taken back from the history, the interrupt as well."""
    async with Environment(ALL) as env:
        id = (await env.start(reopening_waits, "tea")).execution_id
        await env.settle()
        await env.client.interrupt(id)
        assert (await env.finish(id)).outcome == "interrupted"
        await env.client.retry(id)
        await env.settle()
        status = await env.status(id)
        assert (status.is_complete, status.interrupted, status.suspended) == (False, False, True)
        await env.resolve(id, approval, "yes, ")
        assert (await env.finish(id)).value() == "yes, tea bought"
        assert Shop.done == ["reserve the bin", "buy tea", "reserve the bin"]


async def test_compensations_that_ran_refuse_it_by_name() -> None:
    """P4: nothing does again what they undid."""
    Shop.is_open = False
    async with Environment(ALL) as env:
        id = await _failed(env, reopening_undoes)
        with pytest.raises(NotReopened, match="its compensations have run: put_back"):
            await env.client.retry(id)
        assert (await env.status(id)).outcome == "failed"


async def test_an_execution_whose_end_a_parent_knows_is_refused() -> None:
    """P4: before and after the parent was told."""
    Shop.code_is_right = False
    async with Environment(ALL) as env:
        parent = (await env.start(reopening_parent, "tea")).execution_id
        await env.drive(parent)
        (child,) = [e for e in await _all(env) if e.workflow == "reopening_order"]
        process = Process(env)
        refused: list[str] = []

        async def retry(call: Call) -> None:
            if nth("signal")(call):
                with pytest.raises(NotReopened, match=parent):
                    await env.client.retry(child.execution_id)
                refused.append("before")

        process.store.before = retry
        await process.worker.drive(child)
        await env.finish(parent)
        with pytest.raises(NotReopened, match=parent):
            await env.client.retry(child.execution_id)
        assert refused == ["before"]


async def _all(env: Environment) -> list[Any]:
    from engine.store.base import Filter

    return (await env.store.inner.list(Filter(), 100)).executions


@pytest.mark.parametrize("how", ["completed", "terminated"])
async def test_what_ended_otherwise_is_refused(how: str) -> None:
    async with Environment(ALL) as env:
        id = (await env.start(reopening_order, "tea")).execution_id
        if how == "terminated":
            await env.client.terminate(id)
        await env.settle()
        with pytest.raises(NotReopened, match=how):
            await env.client.retry(id)


async def test_twice_at_once_is_once() -> None:
    """P4: two requests from two processes, with any order of their calls: one chunk says so, and one step runs."""
    Shop.is_open = False
    async with Environment(ALL) as env:
        id = await _failed(env)
        Shop.is_open = True
        one, other = Process(env), Process(env)
        await asyncio.gather(one.client.retry(id), other.client.retry(id))
        assert (await env.finish(id)).value() == "tea bought"
        await env.store.inner.read(id)
        chunks = (await env.store.inner.load(id)).chunks
        kinds = [event["kind"] for chunk in chunks for event in chunk.events]
        assert kinds.count("reopened") == 1
        assert Shop.done == ["reserve tea", "buy tea", "buy tea"]


async def test_a_chunk_that_was_deleted_is_missed_by_name() -> None:
    """P4, Q3: a retry ends, and doesn't ask the store for ever. Before that, it waits for a lagging replica."""
    Shop.is_open = False
    async with Environment(ALL) as env:
        id = await _failed(env)
        await delete(env, id, "history::00000000")
        retrying = asyncio.ensure_future(env.client.retry(id))
        for _ in range(200):
            await asyncio.wait([retrying], timeout=0.02)
            env.clock.advance(timedelta(seconds=1))
        with pytest.raises(UnreadableExecution, match="counts 2 history chunks, but has 1: some were deleted"):
            await asyncio.wait_for(retrying, 5)


async def test_a_purge_that_comes_between_wins() -> None:
    """P4: purged between the look and the write, it is unknown; a purge after it is refused."""
    Shop.is_open = False
    async with Environment(ALL) as env:
        id = await _failed(env)

        async def between(call: Call) -> None:
            if call.method == "commit":
                env.store.before = nothing
                await purge(env, id)

        async def nothing(call: Call) -> None:
            return None

        env.store.before = between
        with pytest.raises(UnknownExecution):
            await env.client.retry(id)


async def test_a_purge_that_has_begun_refuses_it() -> None:
    """P4: some of its documents may be gone."""
    Shop.is_open = False
    async with Environment(ALL) as env:
        id = await _failed(env)
        ended = await env.store.inner.read(id)
        await env.store.inner.replace(ended.model_copy(update={"purging": True}))
        with pytest.raises(NotReopened, match="its purge has begun"):
            await env.client.retry(id)


async def test_suspend_on_failure_holds_a_mistake_of_the_code() -> None:
    """P4: nothing is undone; mended and resumed, it ends well. A failure is an answer, and isn't held."""
    Shop.code_is_right = False
    async with Environment(ALL) as env:
        id = await env.start(reopening_held, "tea")
        await env.settle()
        status = await env.status(id)
        assert status.suspended
        assert status.cause is not None
        assert status.cause.type == "KeyError"
        await env.client.resume(id)
        await env.settle()
        assert (await env.status(id)).suspended
        Shop.code_is_right = True
        await env.client.resume(id)
        assert (await env.finish(id)).value() == "tea"
        assert Shop.done == ["reserve tea"]
        other = await env.start(reopening_held, "nothing")
        assert (await env.finish(other)).outcome == "failed"


async def test_an_interrupt_reaches_what_is_held_for_a_mistake() -> None:
    """P4: it then winds up."""
    Shop.code_is_right = False
    async with Environment(ALL) as env:
        id = await env.start(reopening_held, "tea")
        await env.settle()
        await env.client.interrupt(id)
        assert (await env.finish(id)).outcome == "interrupted"
        assert Shop.done == ["reserve tea", "put back tea"]


async def test_over_http() -> None:
    """202, and 409 with the reason."""
    runtime = Runtime(ALL, lambda: SqliteStore(":memory:"), Settings(hold=timedelta(0)))
    Shop.is_open = False
    started = await http.start(runtime, Request("", b'"tea"', {"wait": "5"}), "reopening_order")
    id = json.loads(started.body)["executionId"]
    Shop.is_open = True
    assert (await http.retry(runtime, Request(""), id)).status == 202
    await runtime.worker.sweep()
    ended = await http.poll(runtime, Request(""), id)
    assert json.loads(ended.body)["result"] == "tea bought"
    again = await http.retry(runtime, Request(""), id)
    assert (again.status, json.loads(again.body)["title"]) == (409, "Can't run again")
    await runtime.close()


@pytest.mark.usefixtures("every_store")
@pytest.mark.parametrize("size", [10, 3_000])
async def test_the_last_events_come_along_wherever_they_lie(size: int) -> None:
    """Few of them lie in the exec document of an execution that has ended, many in a chunk. A driver of a purged run
    may have taken the number of their chunk."""
    Shop.code_is_right = False
    async with Environment([reopening_order, reopening_mends]) as env:
        id = (await env.start(reopening_mends, size)).execution_id
        await env.finish(id)
        ended = await env.store.inner.read(id)
        assert (ended.last_events is not None) == (size == 10)
        events = await _events(env, id)
        late = Chunk.of(id, ended.history_length - (size == 10), [Takeover(env.clock.now(), "late")], "an earlier run")
        await env.store.inner.append(late)
        assert await _events(env, id) == [*events, *late.events]
        Shop.code_is_right = True
        await env.client.retry(id)
        running = await env.store.inner.read(id)
        assert running.last_events is None
        assert (await env.finish(id)).value() == size
        assert Shop.done == [f"reserve {'x' * size}"]


async def _events(env: Environment, id: str) -> list[Any]:
    chunks = (await env.store.inner.load(id)).chunks
    return [event for chunk in sorted(chunks, key=lambda one: one.run_id == "an earlier run") for event in chunk.events]


@workflow
async def reopening_mends(size: int) -> int:
    length = len(await reserve("x" * size))
    if not Shop.code_is_right:
        raise KeyError("price")
    return length
