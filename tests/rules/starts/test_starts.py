"""Starting twice is starting once, whoever else starts it, whatever answers are lost, and whether it has ended."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from engine import AlreadyEnded, AlreadyStarted, Deferred, Failure, Handle, activity, workflow
from engine.boundary.status import Status
from engine.ground.errors import Unavailable
from engine.testing import Call, Environment
from tests.support.crashes import check_history, ledger
from tests.support.processes import Process
from tests.support.stored import image, purge

pytestmark = pytest.mark.usefixtures("every_store")

starts_answer = Deferred("starts.answer", str)
MINE = "order 7"


class StartsRefused(Failure):
    order: str


@activity
async def starts_work(order: str) -> str:
    ledger.note()
    if order.startswith("refused"):
        raise StartsRefused(order=order)
    return order


@workflow(idempotency_key=lambda order: MINE)
async def starts_order(order: str) -> str:
    done = await starts_work(order)
    if order.startswith("waits"):
        done += await starts_answer
    return done


async def _end(env: Environment, how: str) -> Status:
    """Bring an execution to that end."""
    id = await env.start(starts_order, {"completed": "a", "failed": "refused"}.get(how, "waits"))
    status = await env.drive(id)
    if how == "interrupted":
        await env.client.interrupt(id)
        status = await env.drive(id)
    if how == "terminated":
        status = await env.client.terminate(id)
    assert status.outcome == how
    return status


@pytest.mark.sqlite_only("each store call would be a request")
@pytest.mark.parametrize("inputs", [["same"], ["first", "second", "third"]], ids=["same input", "different input"])
async def test_fifty_parallel_starts_make_one_execution(inputs: list[str]) -> None:
    """H4: from five processes, with the same or different input: one execution, the first input, each activity once.
    Whoever gave another input is told."""
    async with Environment([starts_order]) as env:
        clients = [Process(env).client for _ in range(5)]
        pairs = zip(itertools.cycle(clients), itertools.cycle(inputs), range(50), strict=False)
        answers = await asyncio.gather(
            *(client.start(starts_order, order) for client, order, _ in pairs), return_exceptions=True
        )
        refused = [answer for answer in answers if isinstance(answer, BaseException)]
        assert {type(answer) for answer in refused} == ({AlreadyStarted} if len(inputs) > 1 else set())
        (id,) = {answer.execution_id for answer in answers if isinstance(answer, Handle | AlreadyStarted)}
        payload = (await env.store.inner.read(id)).payload
        await asyncio.gather(*(client.drive(id) for client in clients))
        status = await env.finish(id)
        assert f'"{status.value()}"' == payload
        assert ledger.ran == ["starts_work"]
        await check_history(env, id)


async def test_a_start_while_it_runs_changes_nothing() -> None:
    """H4: neither its input nor where it stands."""
    async with Environment([starts_order]) as env:
        id = (await env.start(starts_order, "waits")).execution_id
        await env.drive(id)
        before = await image(env, id)
        again = await env.client.start(starts_order, "waits")
        with pytest.raises(AlreadyStarted):
            await env.client.start(starts_order, "another input")
        assert (again.execution_id, (await env.store.inner.read(id)).payload) == (id, '"waits"')
        assert await image(env, id) == before
        await env.resolve(id, starts_answer, "!")
        assert (await env.finish(id)).value() == "waits!"
        assert ledger.ran == ["starts_work"]


@pytest.mark.parametrize("how", ["completed", "failed", "interrupted", "terminated"])
async def test_a_start_after_the_end_gives_the_old_outcome(how: str) -> None:
    """H5: in each terminal state, and nothing runs or changes."""
    async with Environment([starts_order]) as env:
        ended = await _end(env, how)
        id = ended.execution_id
        before, ran = await image(env, id), list(ledger.ran)
        with pytest.raises(AlreadyStarted):
            await env.client.start(starts_order, "another input")
        handle = await env.client.start(starts_order, {"completed": "a", "failed": "refused"}.get(how, "waits"))
        await env.client.drive(handle)
        again = await handle.status()
        assert (again.outcome, again.result, again.error) == (how, ended.result, ended.error)
        assert await image(env, id) == before
        assert ledger.ran == ran


@pytest.mark.parametrize("how", ["completed", "failed", "interrupted", "terminated"])
async def test_a_start_after_a_purge_is_a_fresh_run(how: str) -> None:
    """H5: nothing of the old run is left: no output, error, history, deferred or timer."""
    async with Environment([starts_order]) as env:
        ended = await _end(env, how)
        id = ended.execution_id
        await purge(env, id)
        assert await image(env, id) == []
        ledger.ran.clear()
        assert (await env.start(starts_order, "waits afresh")).execution_id == id
        status = await env.drive(id)
        assert (status.is_complete, status.error, status.result) == (False, None, None)
        assert not status.interrupted
        await env.resolve(id, starts_answer, "!")
        assert (await env.finish(id)).value() == "waits afresh!"
        assert ledger.ran == ["starts_work"]
        await check_history(env, id)


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_start_whose_answer_is_lost_can_be_repeated(moment: str) -> None:
    """H7: the caller can't know whether it landed; starting again finds or makes the one execution."""
    async with Environment([starts_order]) as env:

        async def lose(call: Call) -> None:
            if call.number == 0:
                raise Unavailable("no answer")

        setattr(env.store, moment, lose)
        with pytest.raises(Unavailable):
            await env.client.start(starts_order, "mine")
        again = await env.client.start(starts_order, "mine")
        assert (await env.finish(again.execution_id)).value() == "mine"
        assert ledger.ran == ["starts_work"]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_completion_whose_answer_is_lost_can_be_repeated(moment: str) -> None:
    """H7: the same value again is a success, and one value, also when the execution has ended meanwhile."""
    async with Environment([starts_order]) as env:
        id = (await env.start(starts_order, "waits")).execution_id
        await env.drive(id)
        outside = Process(env)

        async def lose(call: Call) -> None:
            if call.method == "signal" and call.of_method == 0:
                raise Unavailable("no answer")

        setattr(outside.store, moment, lose)
        with pytest.raises(Unavailable):
            await outside.client.resolve(id, starts_answer, "!")
        await env.settle()
        await outside.client.resolve(id, starts_answer, "!")
        assert (await env.finish(id)).value() == "waits!"
        assert (await env.store.inner.read(id)).inbox_count == 1


async def test_a_value_that_comes_after_the_end_is_refused_and_stored_nowhere() -> None:
    """A deferred that the execution never saw: the reply says that it came too late."""
    async with Environment([starts_order]) as env:
        ended = await _end(env, "completed")
        before = await image(env, ended.execution_id)
        with pytest.raises(AlreadyEnded):
            await env.resolve(ended.execution_id, starts_answer, "late")
        assert await image(env, ended.execution_id) == before


async def test_a_value_that_comes_again_after_the_end_is_a_success() -> None:
    """A5, H7: the sender of the value that counted is told so, however late it asks again."""
    async with Environment([starts_order]) as env:
        id = await env.start(starts_order, "waits")
        await env.resolve(id, starts_answer, "!")
        await env.finish(id)
        status = await env.client.resolve(id, starts_answer, "!")
        assert status.value() == "waits!"
