"""What an execution costs in store calls: no more than planned, and never growing faster than its steps."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from engine import Deferred, activity, workflow
from engine.testing import Environment
from tests.support.crashes import check_history
from tests.support.gates import Gate
from tests.support.processes import Process, until

counts_answer = Deferred("counts.answer", str)
WRITES = ("create", "replace", "append", "commit", "signal", "interrupt", "purge")
runs: list[int] = []
working = Gate()


@activity
async def counts_step(number: int) -> int:
    runs.append(number)
    return number


@activity
def counts_sync_step(number: int) -> int:
    runs.append(number)
    return number


@workflow
async def counts_in_a_row(steps: int) -> int:
    for number in range(steps):
        await counts_step(number)
    return steps


@workflow
async def counts_at_once(width: int) -> list[int]:
    return list(await asyncio.gather(*(counts_step(number) for number in range(width))))


@workflow
async def counts_in_threads(width: int) -> list[int]:
    return list(await asyncio.gather(*(counts_sync_step(number) for number in range(width))))


@workflow
async def counts_waits() -> str:
    return await counts_answer


@workflow
async def counts_nothing() -> None:
    return None


@workflow
async def counts_sleeps() -> None:
    await asyncio.sleep(3600)


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
async def test_steps_in_a_row_cost_two_calls_more_than_there_are(steps: int) -> None:
    """Start, claim, N - 1 appends, the completion; no read of any kind."""
    runs.clear()
    async with Environment([counts_in_a_row]) as env:
        id = await env.start(counts_in_a_row, steps)
        await env.drive(id)
        assert [call.method for call in env.store.calls] == [
            "create",
            "replace",
            *["append"] * (steps - 1),
            "commit",
        ]
        assert runs == list(range(steps))


@pytest.mark.parametrize("steps", [1, 2, 5, 20])
async def test_a_start_that_is_driven_where_it_is_made_costs_one_call_more_than_it_has_steps(steps: int) -> None:
    """The start is the claim; N - 1 appends, the completion; and one read for the answer."""
    async with Environment([counts_in_a_row]) as env:
        assert await env.client.execute(counts_in_a_row, steps) == steps
        assert [call.method for call in env.store.calls] == ["create", *["append"] * (steps - 1), "commit", "read"]


async def test_a_workflow_without_steps_costs_three_calls() -> None:
    """Start, claim, completion."""
    async with Environment([counts_nothing]) as env:
        await env.drive(await env.start(counts_nothing))
        assert [call.method for call in env.store.calls] == ["create", "replace", "commit"]


async def test_a_wait_costs_one_suspension_and_one_load() -> None:
    """Start, claim, suspension; the value; claim, load, completion."""
    async with Environment([counts_waits]) as env:
        id = await env.start(counts_waits)
        await env.drive(id)
        await env.resolve(id, counts_answer, "x")
        await env.drive(id)
        methods = [call.method for call in env.store.calls]
        assert methods == ["create", "replace", "commit", "signal", "replace", "load", "commit"]


async def test_a_timer_costs_one_suspension() -> None:
    """Start, claim, suspension; when it is due: claim and completion. Nothing in between, however often it is looked
    at; nothing was recorded, so nothing is loaded."""
    async with Environment([counts_sleeps]) as env:
        id = await env.start(counts_sleeps)
        await env.drive(id)
        for _ in range(59):
            env.clock.advance(timedelta(minutes=1))
            assert await env.worker.sweep() == 0
        env.clock.advance(timedelta(minutes=1))
        await env.worker.sweep()
        methods = [call.method for call in env.store.calls if call.method != "due"]
        assert methods == ["create", "replace", "commit", "replace", "commit"]


@pytest.mark.parametrize("width", [99, 100, 101, 1_000])
@pytest.mark.parametrize("evicted", [False, True], ids=["in one process", "replayed"])
async def test_a_fan_out_of_any_width_runs_each_once_in_order(width: int, evicted: bool) -> None:
    """G3: around the 100 operations of a Cosmos DB batch, and far beyond; also when the second half is done by
    another process, which replays the first."""
    runs.clear()
    async with Environment([counts_at_once]) as env:
        id = (await env.start(counts_at_once, width)).execution_id
        first = Process(env)
        driving = await first.drive(id)
        if evicted:
            await until(lambda: len(runs) > width // 2)
            await first.worker.close(timedelta(0))
        await driving
        recorded = sum(len(chunk.events) for chunk in (await env.store.inner.load(id)).chunks)
        assert (await env.finish(id)).value() == list(range(width))
        assert set(runs) == set(range(width))
        assert len(runs) <= width + 64, "more than what was in flight ran again"
        if not evicted:
            assert len(runs) == width
            assert first.store.count("append") <= 5 + width // 25, "what ends together is written together"
        else:
            assert 0 < recorded < width
        await check_history(env, id)


async def test_a_fan_out_of_sync_activities_runs_each_once() -> None:
    """G3: in threads, in whatever order they end."""
    runs.clear()
    async with Environment([counts_in_threads]) as env:
        id = (await env.start(counts_in_threads, 200)).execution_id
        assert (await env.drive(id)).value() == list(range(200))
        assert sorted(runs) == list(range(200))
        await check_history(env, id)


@pytest.mark.parametrize("one", [counts_in_a_row, counts_at_once], ids=lambda w: w.name)
async def test_store_calls_and_bytes_grow_in_proportion(one: object) -> None:
    """G4: twice the steps cost less than 2.5 times the calls and the bytes written; replays included."""
    calls, written = list[int](), list[int]()
    for steps in (250, 500):
        async with Environment([counts_in_a_row, counts_at_once]) as env:
            id = await env.start(one, steps)  # type: ignore[call-overload]
            await env.drive(id)
            calls.append(env.store.count())
            records = [a for c in env.store.calls if c.method in WRITES for a in c.arguments if a is not None]
            written.append(sum(len(str(record)) for record in records))
    assert calls[1] < 2.5 * calls[0]
    assert written[1] < 2.5 * written[0]


async def test_a_heartbeat_costs_one_call() -> None:
    """A long wait in memory is a call every ten seconds, and nothing else."""
    working.close()
    async with Environment([counts_long]) as env:
        id = (await env.start(counts_long)).execution_id
        driving = env.worker.start(await env.store.inner.read(id))
        await working.reached.wait()
        for beat in range(6):
            env.clock.advance(timedelta(seconds=10))
            await until(lambda beats=beat + 2: env.store.count("replace") == beats and bool(env.clock._waiting))  # type: ignore[misc]
        working.open()
        await driving
        assert [call.method for call in env.store.calls] == ["create", *["replace"] * 7, "commit"]


@activity
async def counts_long_step() -> str:
    await working.passed()
    return "x"


@workflow
async def counts_long() -> str:
    return await counts_long_step()
