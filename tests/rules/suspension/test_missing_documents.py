"""Documents that vanish: the execution is suspended and says so, or ends; it never goes in circles."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from engine import Deferred, workflow
from engine.ground.errors import Unavailable
from engine.store.base import Filter
from engine.store.documents import Execution
from engine.testing import Environment
from tests.support.crashes import echo, ledger
from tests.support.gates import Gate, nth
from tests.support.processes import PAST_LEASE, ImpatientClock, Process, fed, unanswered
from tests.support.stored import delete, image, store_of

missing_answer = Deferred("missing.answer", str)
LARGE = "x" * 5_000


@workflow
async def missing_waits(payload: str) -> str:
    first = await echo("a")
    return first + await missing_answer


@workflow(idempotency_key=lambda: "large")
async def missing_large() -> str:
    return LARGE


@workflow
async def missing_takes_large() -> int:
    return len(await missing_large())


@workflow
async def missing_parent() -> str:
    return await missing_child() + await missing_answer


@workflow
async def missing_child() -> str:
    return await echo("child")


async def _parked(env: Environment) -> str:
    """An execution with an input document, two chunks of history, and a value that nobody has seen yet."""
    env.clock = ImpatientClock()
    env.worker = env.new_worker()
    id = (await env.start(missing_waits, LARGE)).execution_id
    await env.drive(id)
    await Process(env).client.resolve(id, missing_answer, "b")
    return id


async def _untold(env: Environment) -> tuple[str, Execution]:
    """A parent, and its child that has ended with a large result, which it could not tell yet."""
    env.clock = ImpatientClock()
    env.worker = env.new_worker()
    parent = (await env.start(missing_takes_large)).execution_id
    await env.drive(parent)
    (child,) = (await env.store.inner.list(Filter(workflow="missing_large"), 10)).executions
    process = Process(env)
    process.store.before = unanswered("signal")
    with pytest.raises(Unavailable):
        await process.worker.drive(child)
    return parent, await env.store.inner.read(child.execution_id)


async def _comes_to_rest(env: Environment, id: str) -> None:
    """Sweep after sweep, a lease apart: after a few, nothing is due any more."""
    for _ in range(4):
        env.clock.advance(PAST_LEASE)
        await env.worker.sweep()
    before = await image(env, id)
    env.clock.advance(timedelta(days=1))
    assert await env.worker.sweep() == 0
    assert await image(env, id) == before


@pytest.mark.parametrize("document", ["history::00000000", "deferred::missing.answer", "input"])
async def test_a_deleted_document_suspends_the_execution_with_the_cause(document: str) -> None:
    """L6: found by the sweep, with no delete event; listed among what needs somebody, and not tried again and again."""
    async with Environment([missing_waits]) as env:
        id = await _parked(env)
        await delete(env, id, document)
        await _comes_to_rest(env, id)
        execution = await env.store.inner.read(id)
        assert execution.cause is not None
        assert execution.cause.type == "MissingDocument"
        listed = await env.client.list(Filter(suspended_with_cause=True))
        assert [e.execution_id for e in listed.executions] == [id]
        await env.client.terminate(id)
        assert (await env.status(id)).outcome == "terminated"


async def test_a_document_that_comes_back_lets_the_execution_go_on() -> None:
    """L6: restored from a backup, resumed, it ends as if nothing had been."""
    async with Environment([missing_waits]) as env:
        id = await _parked(env)
        query = "SELECT * FROM documents WHERE execution_id = ? AND id = 'history::00000000'"
        row = await store_of(env)._read(lambda db: db.execute(query, (id,)).fetchone())
        await delete(env, id, "history::00000000")
        await _comes_to_rest(env, id)
        marks = ", ".join("?" * len(row))
        await store_of(env)._write(lambda db: db.execute(f"INSERT INTO documents VALUES ({marks})", row))
        await env.client.resume(id)
        assert (await env.finish(id)).value() == "ab"
        assert ledger.ran == ["echo"]


@pytest.mark.parametrize("method", ["replace", "commit"])
async def test_an_exec_document_deleted_under_a_driver_ends_its_drive(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """L6: gone before the claim, or before the suspension: it stops, reports no error, and leaves nothing behind."""
    async with Environment([missing_waits]) as env:
        id = (await env.start(missing_waits, "small")).execution_id
        env.store.before = gate = Gate(nth(method))
        driving = env.worker.start(await env.store.inner.read(id))
        await gate.reached.wait()
        await delete(env, id, "exec")
        gate.open()
        with caplog.at_level(logging.ERROR, "engine"):
            await driving
        assert await image(env, id) == []
        assert caplog.records == []


async def test_a_child_s_exit_that_was_deleted_is_noticed() -> None:
    """L6: the parent's inbox counts it."""
    async with Environment([missing_parent, missing_child]) as env:
        env.clock = ImpatientClock()
        env.worker = env.new_worker()
        id = (await env.start(missing_parent)).execution_id
        await env.settle()
        await Process(env).client.resolve(id, missing_answer, "!")
        await delete(env, id, f"child::missing_child::{(await env.store.inner.read(id)).run_id}")
        await env.worker.sweep()
        execution = await env.store.inner.read(id)
        assert execution.cause is not None
        assert execution.cause.type == "MissingDocument"


async def test_a_child_whose_result_was_deleted_fails_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    """L6: its parent isn't told `null`. The batch that holds it goes on, and a sweep tells once the result is back."""
    async with Environment([missing_large, missing_takes_large, missing_child]) as env:
        parent, child = await _untold(env)
        output = (await env.store.inner.load(child.execution_id)).output
        assert output is not None
        await delete(env, child.execution_id, "output")
        other = (await env.start(missing_child)).execution_id
        await env.worker.drive_changes(await fed(env, child.execution_id, other))
        assert (await env.status(other)).is_complete
        assert "was deleted" in caplog.text
        ended = await env.store.inner.read(child.execution_id)
        assert ended.owes
        await env.store.inner.commit(ended, output=output)  # restored
        assert (await env.finish(parent)).value() == len(LARGE)


async def test_a_late_hint_of_a_child_that_was_purged_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """L6: its large result went with it, after its parent was told. The old version owes an exit that nobody lacks."""
    async with Environment([missing_large, missing_takes_large]) as env:
        parent, child = await _untold(env)
        assert child.owes
        assert (await env.finish(parent)).value() == len(LARGE)
        await env.client.purge(child.execution_id)
        await env.worker.drive(child)
        assert await image(env, child.execution_id) == []
        assert caplog.records == []


async def test_a_parent_that_attaches_to_a_child_without_result_is_suspended_with_the_cause() -> None:
    """L6: not tried again for ever; resumed when the result is back, it has it."""
    async with Environment([missing_large, missing_takes_large]) as env:
        env.clock = ImpatientClock()
        env.worker = env.new_worker()
        child = (await env.start(missing_large)).execution_id
        await env.finish(child)
        output = (await env.store.inner.load(child)).output
        await delete(env, child, "output")
        parent = (await env.start(missing_takes_large)).execution_id
        await env.drive(parent)
        execution = await env.store.inner.read(parent)
        assert execution.suspended
        assert execution.cause is not None
        assert execution.cause.type == "MissingDocument"
        await env.store.inner.commit(await env.store.inner.read(child), output=output)
        await env.client.resume(parent)
        assert (await env.finish(parent)).value() == len(LARGE)
