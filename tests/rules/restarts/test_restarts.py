"""A restart ends a run and begins the next under the same id: the history is empty again, and nothing else is lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import engine.driving.drive
import engine.driving.lease
from engine import Channel, Deferred, EncodingError, Filter, activity, compensate, finalizer, restart, workflow
from engine.ground.errors import Conflict
from engine.store.base import MAX_DISCARD, Loaded
from engine.store.wrapper import Call
from engine.testing import Environment, export, replay, survives
from engine.testing.environment import TEST_SETTINGS
from tests.support.processes import ImpatientClock, Process

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

added = Channel("restarts.added", int)
confirmed = Deferred("restarts.confirmed", str)
stop = Deferred("restarts.stop", str)


@activity
async def note(what: str) -> str:
    return what


@workflow
async def count(total: int = 0) -> int:
    """Add up two values a run; a zero ends it."""
    first = await added.receive()
    await note(f"+{first}")
    second = await added.receive()
    if second == 0:
        return total + first
    restart(total + first + second)


@workflow
async def count_as_child() -> int:
    return await count(0)


async def _send(env: Environment, id: str, *values: int) -> None:
    for value in values:
        await env.client.send(id, added, value)


async def test_values_that_nobody_received_come_along_and_each_is_received_once() -> None:
    async with Environment([count]) as env:
        handle = await env.client.start(count, 100)
        await _send(env, handle.execution_id, 1, 2, 3, 4, 5, 0)
        status = await env.finish(handle.execution_id)
        assert status.value() == 115
        assert env.ran() == ["note"] * 3


@SLOW
@pytest.mark.parametrize("at_once", [MAX_DISCARD, 1])
async def test_a_restart_survives_every_crash(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one transaction, and in several, where a crash comes between the deletions and the restart."""
    for module in (engine.driving.drive, engine.driving.lease):
        monkeypatch.setattr(module, "MAX_DISCARD", at_once)

    async def play(env: Environment) -> Any:
        handle = await env.client.start(count, 0)
        await _send(env, handle.execution_id, 1, 2, 3, 4, 5, 0)
        return (await env.finish(handle.execution_id)).value()

    assert await survives([count], play) == 15


async def test_drivers_that_die_after_progress_in_a_later_run_are_no_reason_for_quarantine() -> None:
    @workflow
    async def note_often(runs: int) -> None:
        if runs:
            restart(runs - 1)
        for number in range(9):
            await note(str(number))

    async with Environment([note_often]) as env:
        for number in range(2, 10):
            env.crash_at(f"note#{number}")
        status = await env.run(note_often, 40)
        assert status.outcome == "completed", status.cause


async def test_a_new_run_has_an_empty_history_and_leaves_nothing_behind() -> None:
    async with Environment([count]) as env:
        handle = await env.client.start(count, 0)
        await _send(env, handle.execution_id, 1, 2, 3)
        await env.settle()
        execution = await env.store.inner.read(handle.execution_id)
        everything = await env.store.inner.load(handle.execution_id)
        assert (execution.restarts, execution.inbox_count) == (1, 1)
        assert everything.chunks[0].number == execution.history_start
        assert [item.value for item in everything.inbox] == ["3"]
        assert everything.input is None


@pytest.mark.parametrize("size", [10, 200_000])
async def test_a_large_payload_takes_the_place_of_the_one_before(size: int) -> None:
    @workflow
    async def grow(text: str) -> int:
        if len(text) > size:
            return len(text)
        restart(text + "x")

    async with Environment([grow]) as env:
        handle = await env.client.start(grow, "x" * size)
        assert (await env.finish(handle.execution_id)).value() == size + 1
        assert (await env.store.inner.load(handle.execution_id)).input is None


async def test_a_deferred_that_was_awaited_can_be_resolved_anew_and_another_comes_along() -> None:
    @workflow
    async def confirm_twice(before: list[str]) -> list[str]:
        before = [*before, await confirmed]
        if len(before) == 2:
            return [*before, await stop]
        restart(before)

    async with Environment([confirm_twice]) as env:
        handle = await env.client.start(confirm_twice, [])
        await handle.resolve(confirmed, "first")
        await handle.resolve(stop, "kept")
        await env.settle()
        await handle.resolve(confirmed, "second")
        await env.finish(handle.execution_id)
        assert await handle.result() == ["first", "second", "kept"]


async def test_a_parent_waits_for_the_end_and_not_for_a_restart() -> None:
    async with Environment([count_as_child, count]) as env:
        parent = await env.client.start(count_as_child)
        await env.settle()
        (child,) = (await env.store.inner.list(Filter(workflow="count"), 10)).executions
        await _send(env, child.execution_id, 1, 2, 3, 0)
        await env.finish(parent.execution_id)
        assert await parent.result() == 6


async def test_a_run_that_has_read_more_than_one_transaction_deletes() -> None:
    many = 2 * MAX_DISCARD + 5

    @workflow
    async def read_all(rounds: int) -> int:
        seen = [await added.receive() for _ in range(many)]
        if rounds == 1:
            return sum(seen)
        restart(rounds - 1)

    async with Environment([read_all]) as env:
        handle = await env.client.start(read_all, 2)
        await _send(env, handle.execution_id, *[1] * many, *[2] * many)
        assert (await env.finish(handle.execution_id)).value() == 2 * many


async def test_a_deleted_value_that_a_lagging_replica_shows_is_not_received_again() -> None:
    """The replica shows a value of the run before in place of one that has come since. Their number is right."""
    async with Environment([count]) as env:
        handle = await env.client.start(count, 0)
        await _send(env, handle.execution_id, 1, 2)
        inner, load = env.store.inner, env.store.inner.load
        old = (await load(handle.execution_id)).inbox
        await env.settle()
        await _send(env, handle.execution_id, 3, 0)
        lags = iter([True])

        async def lag(execution_id: str, from_chunk: int = 0) -> Loaded:
            loaded = await load(execution_id, from_chunk)
            return replace(loaded, inbox=[*old[:1], *loaded.inbox[1:]]) if next(lags, False) else loaded

        inner.load = lag  # type: ignore[method-assign]
        env.clock = ImpatientClock()
        await (await Process(env).drive(handle.execution_id))
        assert next(lags, None) is None
        assert (await env.status(handle.execution_id)).value() == 6


async def test_an_interrupt_goes_before_a_restart() -> None:
    """The interrupt comes between the end of the run's code and the write that begins the next run."""
    async with Environment([count]) as env:
        handle = await env.client.start(count, 0)
        await _send(env, handle.execution_id, 1, 2)

        async def interrupt(call: Call) -> None:
            if call.method == "commit" and call.arguments[0].restarts and not call.arguments[0].interrupted:
                env.store.before = _pass
                await env.store.inner.interrupt(handle.execution_id, env.clock.now())

        env.store.before = interrupt
        status = await env.finish(handle.execution_id)
        assert status.outcome == "interrupted"
        assert (await env.store.inner.read(handle.execution_id)).restarts == 0


async def test_a_driver_of_the_old_run_writes_nothing_into_the_new_one() -> None:
    """It holds the version of before, and its etag is gone."""
    async with Environment([count]) as env:
        handle = await env.client.start(count, 0)
        old = await env.store.inner.read(handle.execution_id)
        await _send(env, handle.execution_id, 1, 2)
        await env.settle()
        with pytest.raises(Conflict):
            await env.store.inner.replace(old.model_copy(update={"claims": 7}))


async def test_each_run_has_a_time_limit_of_its_own_and_its_own_random_numbers() -> None:
    seen: list[str] = []

    @workflow(time_limit=timedelta(hours=1))
    async def tick(rounds: int) -> int:
        seen.append(await note(str(workflow.uuid4())))
        await asyncio.sleep(3000)
        if rounds == 0:
            return len(set(seen))
        restart(rounds - 1)

    async with Environment([tick]) as env:
        status = await env.run(tick, 3)
        assert status.outcome == "completed"
        assert status.value() >= 4


async def test_a_recording_holds_the_present_run() -> None:
    async with Environment([count]) as env:
        handle = await env.client.start(count, 0)
        await _send(env, handle.execution_id, 1, 2, 3, 0)
        await env.finish(handle.execution_id)
        recording = await export(env.store.inner, handle.execution_id)
        replayed = replay(recording, [count])
        assert replayed.outcome is not None
        assert replayed.outcome.value == "6"


@workflow
async def restarts_with_a_compensation() -> None:
    compensate(note, "undo")
    _restart(RuntimeError, "would lose 1 compensations")


@workflow
async def restarts_with_a_finalizer() -> None:
    async def last(outcome: Any) -> None:
        await note("last")

    finalizer(last)
    _restart(RuntimeError, "1 finalizers")


@workflow
async def restarts_in_a_task() -> None:
    async def task() -> None:
        _restart(RuntimeError, "not by one of its tasks")

    await asyncio.create_task(task())


@workflow
async def restarts_with_what_cannot_be_stored(payload: int) -> None:
    _restart(EncodingError, "payload", "text")


def _restart(error: type[Exception], message: str, payload: Any = None) -> None:
    with pytest.raises(error, match=message):
        restart(payload) if payload is not None else restart()


@pytest.mark.parametrize(
    ("refused", "payload"),
    [
        (restarts_with_a_compensation, None),
        (restarts_with_a_finalizer, None),
        (restarts_in_a_task, None),
        (restarts_with_what_cannot_be_stored, 1),
    ],
)
async def test_a_restart_that_would_lose_something_is_refused(refused: Any, payload: Any) -> None:
    async with Environment([refused]) as env:
        status = await (env.run(refused) if payload is None else env.run(refused, payload))
        assert status.outcome == "completed", status.error


def test_outside_a_workflow_it_says_where_it_belongs() -> None:
    with pytest.raises(RuntimeError, match="restart"):
        restart(1)


async def test_a_full_history_suspends_the_execution_until_the_setting_allows_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Environment([count], settings=replace(TEST_SETTINGS, warn_at_events=1, max_events=2)) as env:
        handle = await env.client.start(count, 0)
        await _send(env, handle.execution_id, 1, 2)
        status = await env.finish(handle.execution_id)
        assert status.suspended
        assert status.cause is not None
        assert "restart()" in status.cause.message
        assert "has recorded 1 events" in caplog.text
        await handle.interrupt()
        assert (await env.finish(handle.execution_id)).outcome == "interrupted"


async def _pass(_: Call) -> None:
    return None
