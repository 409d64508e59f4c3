"""Two workers and the outside on one store: leases, fencing, wake-ups, first writers. Each race is forced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from engine import AlreadyResolved, Deferred, Runtime, Workflow, activity, workflow
from engine.ground.errors import Unavailable
from engine.store.base import Filter
from engine.testing import Call, Environment, WatchedStore
from tests.support import documents
from tests.support.crashes import check_history, echo, ledger

pytestmark = pytest.mark.usefixtures("every_store")

answer = Deferred("protocol.answer", str)
PAST_LEASE = timedelta(seconds=36)


class Gates:
    """Lets an activity wait for the test."""

    started: asyncio.Event
    release: asyncio.Event

    @classmethod
    def close(cls) -> None:
        cls.started, cls.release = asyncio.Event(), asyncio.Event()


@activity
async def slow(value: str) -> str:
    ledger.note()
    Gates.started.set()
    await Gates.release.wait()
    return value


@workflow
async def waits() -> str:
    first = await echo("before")
    return first + await answer


@workflow
async def works_long() -> list[str]:
    return [await echo("a"), await slow("b"), await echo("c")]


@workflow
async def loops() -> None:
    while True:
        await echo("again")


@workflow
async def three_steps() -> list[str]:
    return [await echo("a"), await echo("b"), await echo("c")]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(5))
async def test_a_value_that_comes_at_any_moment_wakes_the_execution(number: int, after: bool) -> None:
    """A1: around each store call of the driver (the suspend write above all), with no delivery by the feed."""
    async with Environment([waits]) as env:
        id = await env.start(waits)
        outside = Environment([waits], store=env.store.inner)  # another process
        outside.clock = env.clock
        env.store.calls.clear()

        async def complete(call: Call) -> None:
            if call.number == number:
                await outside.client.resolve(id, answer, "!")

        if after:
            env.store.after = complete
        else:
            env.store.before = complete
        await env.settle()
        if len(env.store.calls) <= number:
            await outside.client.resolve(id, answer, "!")
        await env.worker.sweep()
        assert (await env.status(id)).value() == "before!"
        await check_history(env, id)


async def test_the_first_value_wins() -> None:
    """A5, A6: the same again is a success, another one is refused and shows the first."""
    async with Environment([waits]) as env:
        id = await env.start(waits)
        for _ in range(3):
            await env.complete(id, answer, "first")
        with pytest.raises(AlreadyResolved) as refused:
            await env.complete(id, answer, "second")
        assert refused.value.first == '"first"'
        assert (await env.finish(id)).value() == "beforefirst"
        assert (await env.store.inner.read(id)).inbox_count == 1


async def test_parallel_starts_make_one_execution() -> None:
    """H4: 50 starts of one key; the activities run once; a start after the end gives the outcome."""
    ledger.ran.clear()
    async with Environment([three_steps]) as env:
        started = await asyncio.gather(*(env.client.start(three_steps, key="k") for _ in range(50)))
        assert len({status.execution_id for status in started}) == 1
        status = await env.finish(started[0].execution_id)
        again = await env.run(three_steps, key="k")
    assert status.value() == again.value() == ["a", "b", "c"]
    assert ledger.ran == ["echo", "echo#2", "echo#3"]


async def test_of_two_workers_one_drives() -> None:
    """L4: one batch given to two workers at once, many times: one history, each step once."""
    for _ in range(50):
        ledger.ran.clear()
        async with Environment([three_steps]) as env:
            id = await env.start(three_steps)
            documents = [(await env.store.inner.read(id)).to_document()]
            documents[0]["_etag"] = (await env.store.inner.read(id)).etag
            await asyncio.gather(env.worker.drive_changes(documents), env.new_worker().drive_changes(documents))
            assert (await env.status(id)).value() == ["a", "b", "c"]
            assert sorted(ledger.ran) == ["echo", "echo#2", "echo#3"]
            await check_history(env, id)


@pytest.mark.parametrize("frozen_at", ["append", "replace", "commit"])
async def test_a_worker_frozen_past_its_lease_writes_nothing(frozen_at: str) -> None:
    """L7: frozen before a write, past its lease; another takes over and ends it; the first wakes, and is refused."""
    async with Environment([three_steps]) as env:
        id = await env.start(three_steps)
        old_store = WatchedStore(env.store.inner)
        frozen, thaw = asyncio.Event(), asyncio.Event()

        async def freeze(call: Call) -> None:
            if (
                call.method == frozen_at
                and not frozen.is_set()
                and old_store.count("replace") > (frozen_at == "replace")
            ):
                frozen.set()
                await thaw.wait()

        old_store.before = freeze
        if frozen_at == "replace":  # the claim itself: another has claimed since
            old_store.before = _freezer(frozen, thaw)
        old = env.new_worker(old_store)
        driving = asyncio.ensure_future(old.drive(await env.store.inner.read(id)))
        await frozen.wait()
        env.clock.advance(PAST_LEASE)
        assert (await env.drive(id)).value() == ["a", "b", "c"]
        before = await env.store.inner.load(id), await env.store.inner.read(id)
        thaw.set()
        await driving
        assert (await env.store.inner.load(id), await env.store.inner.read(id)) == before
        await check_history(env, id)
        await old.close(timedelta(0))


def _freezer(frozen: asyncio.Event, thaw: asyncio.Event) -> Callable[[Call], Awaitable[None]]:
    async def freeze(call: Call) -> None:
        if call.method == "replace" and not frozen.is_set():
            frozen.set()
            await thaw.wait()

    return freeze


async def test_the_seal_fences_a_driver_that_writes_between_load_and_seal() -> None:
    """The old driver appends after the new one has loaded: the seal collides, the new one loads again, and knows it."""
    async with Environment([three_steps]) as env:
        id = await env.start(three_steps)
        old_store, new_store = WatchedStore(env.store.inner), WatchedStore(env.store.inner)
        frozen, thaw = asyncio.Event(), asyncio.Event()

        async def freeze(call: Call) -> None:
            if call.method == "append" and call.of_method == 1:
                frozen.set()
                await thaw.wait()

        old_store.before = freeze
        old, new = env.new_worker(old_store), env.new_worker(new_store)
        ledger.ran.clear()
        driving = asyncio.ensure_future(old.drive(await env.store.inner.read(id)))
        await frozen.wait()
        env.clock.advance(PAST_LEASE)
        appended = asyncio.Event()

        async def noticed(call: Call) -> None:
            if call.method == "append":
                appended.set()

        old_store.after = noticed

        async def let_it_write(call: Call) -> None:
            if call.method == "append" and call.of_method == 0:  # the seal
                thaw.set()
                await appended.wait()

        new_store.before = let_it_write
        await new.drive(await env.store.inner.read(id))
        await driving
        assert (await env.status(id)).value() == ["a", "b", "c"]
        assert ledger.ran.count("echo") == ledger.ran.count("echo#2") == 1, "a recorded step ran again"
        await check_history(env, id)
        for worker in (old, new):
            await worker.close(timedelta(0))


async def test_a_lost_lease_cancels_the_running_activity() -> None:
    """The old driver notices at its heartbeat, and its activity's late result is not recorded."""
    Gates.close()
    ledger.ran.clear()
    async with Environment([works_long]) as env:
        id = await env.start(works_long)
        first = asyncio.ensure_future(env.worker.drive(await env.store.inner.read(id)))
        await Gates.started.wait()
        execution = await env.store.inner.read(id)
        await env.store.inner.replace(documents.extended(execution, env.clock.now(), "a stranger"))
        env.clock.advance(timedelta(seconds=11))
        await first
        assert ledger.ran == ["echo", "slow"]
        loaded = await env.store.inner.load(id)
        assert sum(len(chunk.events) for chunk in loaded.chunks) == 1


@pytest.mark.parametrize("one", [three_steps, loops], ids=lambda w: w.name)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(8))
async def test_an_interrupt_at_any_moment_ends_the_execution(number: int, after: bool, one: Workflow[Any, Any]) -> None:
    """E1, E7: accepted, it is never downgraded, and the outcome agrees with the answer."""
    async with Environment([three_steps, loops]) as env:
        id = await env.start(one)
        accepted: list[bool] = []
        outside = Environment([one], store=env.store.inner)  # another process: only the heartbeat tells the driver
        outside.clock = env.clock
        env.store.calls.clear()

        async def interrupt(call: Call) -> None:
            env.clock.advance(timedelta(seconds=2))
            if call.number == number:
                status = await outside.client.interrupt(id)
                accepted.append(status.interrupted)

        if after:
            env.store.after = interrupt
        else:
            env.store.before = interrupt
        status = await env.finish(id)
        assert status.outcome == ("interrupted" if accepted == [True] else "completed")


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
async def test_a_fresh_execution_costs_two_more_calls_than_it_has_steps(steps: int) -> None:
    """Start, claim, N - 1 appends, one commit."""
    async with Environment([many_in_a_row]) as env:
        assert (await env.run(many_in_a_row, steps)).value() == steps
        assert env.store.count("create", "replace", "append", "commit") == steps + 2
        assert env.store.count("append") == steps - 1
        assert env.store.count("load", "read") == 0


@workflow
async def many_in_a_row(steps: int) -> int:
    for _ in range(steps):
        await echo("x")
    return steps


@workflow
async def many_at_once(width: int) -> int:
    return len(await asyncio.gather(*(echo(str(number)) for number in range(width))))


@pytest.mark.parametrize(("width", "appends"), [(99, 5), (100, 5), (101, 5), (200, 10), (1_000, 40)])
async def test_a_fan_out_is_recorded_in_groups(width: int, appends: int) -> None:
    """G3, G4: each runs once, and what ends together is written together."""
    ledger.ran.clear()
    async with Environment([many_at_once]) as env:
        assert (await env.run(many_at_once, width)).value() == width
        assert len(ledger.ran) == len(set(ledger.ran)) == width
        assert env.store.count("append") <= appends


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 6))
async def test_a_store_that_goes_away_loses_nothing(number: int, after: bool) -> None:
    """H7, L9: an answer that is lost, before or after the effect, ends the drive and never reaches the workflow."""
    ledger.ran.clear()
    async with Environment([three_steps]) as env:
        id = await env.start(three_steps)

        async def lose(call: Call) -> None:
            if call.number == number:
                raise Unavailable("the store is away")

        if after:
            env.store.after = lose
        else:
            env.store.before = lose
        with contextlib.suppress(Unavailable):
            await env.drive(id)
        assert (await env.finish(id)).value() == ["a", "b", "c"]
        await check_history(env, id)


async def test_a_drive_that_always_dies_is_quarantined_until_resumed() -> None:
    """F4: after the set number of claims without progress it is suspended, and says why; `resume` frees it."""
    async with Environment([three_steps]) as env:
        id = await env.start(three_steps)
        dies = True

        async def die(call: Call) -> None:
            if dies and call.method == "append" and call.arguments[0].events[0]["kind"] != "takeover":
                raise RuntimeError("it dies each time")

        env.store.before = die
        for _ in range(20):
            await env.drive(id)
            execution = await env.store.inner.read(id)
            if execution.cause:
                break
            env.clock.advance(PAST_LEASE)
        dies = False
        assert execution.suspended
        assert execution.cause is not None
        assert execution.cause.type == "Quarantined"
        listed = await env.client.list(Filter(suspended_with_cause=True))
        assert [e.execution_id for e in listed.executions] == [id]
        await env.client.resume(id)
        assert (await env.finish(id)).value() == ["a", "b", "c"]


async def test_closing_leaves_no_trace_of_a_cut_activity() -> None:
    """M1: a shutdown in mid-activity is no failure and burns no attempt; another worker runs it again at once."""
    Gates.close()
    ledger.ran.clear()
    async with Environment([works_long]) as env:
        id = await env.start(works_long)
        driving = asyncio.ensure_future(env.worker.drive(await env.store.inner.read(id)))
        await Gates.started.wait()
        await env.worker.close(timedelta(0))
        await driving
        execution = await env.store.inner.read(id)
        assert (execution.worker, execution.claims, execution.suspended) == (None, 0, False)
        Gates.release.set()
        env.worker = env.new_worker()
        assert (await env.drive(id)).value() == ["a", "b", "c"]
        assert ledger.ran == ["echo", "slow", "slow", "echo#2"]


def test_a_runtime_refuses_a_bad_declaration() -> None:
    """M3: the app must not start with a workflow that can't be run."""
    with pytest.raises(TypeError, match="registry"):
        Runtime([echo], lambda: None)  # type: ignore[list-item, arg-type, return-value]
