"""A worker that closes: what it cuts off is no failure, burns no attempt, and runs again elsewhere."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta

import pytest

from engine import Deferred, Retry, activity, workflow
from engine.testing import Environment
from engine.testing.environment import TEST_SETTINGS
from tests.support.crashes import check_history, echo, ledger
from tests.support.gates import Gate, nth
from tests.support.processes import PAST_LEASE, Process

AT_ONCE = timedelta(0)
RETRY = Retry(max_attempts=2, first_delay=timedelta(seconds=1), jitter=False)

closing_answer = Deferred("closing.answer", str)


class Door:
    """What the activities of these tests wait at, in their first run."""

    attempts: list[int]
    gate = Gate()
    caught: list[str]

    @classmethod
    def shut(cls) -> None:
        cls.attempts, cls.caught = [], []
        cls.gate.close()


@activity(retry=RETRY)
async def closing_async() -> str:
    Door.attempts.append(activity.info().attempt)
    await Door.gate.passed()
    return "done"


@activity(retry=RETRY)
def closing_sync() -> str:
    Door.attempts.append(activity.info().attempt)
    Door.gate.passed_in_thread()
    return "done"


@workflow
async def closing_uses_async() -> str:
    try:
        return await closing_async()
    except BaseException as error:
        Door.caught.append(repr(error))
        raise


@workflow
async def closing_uses_sync() -> str:
    try:
        return await closing_sync()
    except BaseException as error:
        Door.caught.append(repr(error))
        raise


@workflow
async def closing_steps() -> list[str]:
    return [await echo("a"), await echo("b")]


@activity
def closing_plain() -> str:
    ledger.note()
    return "plain"


@workflow
async def closing_one_plain() -> str:
    return await closing_plain()


@workflow
async def closing_waits() -> str:
    return await closing_answer


@pytest.mark.parametrize("one", [closing_uses_async, closing_uses_sync], ids=lambda w: w.name)
async def test_an_activity_that_is_cut_off_is_no_failure(one: object) -> None:
    """M1: no failed attempt, no user `except` of a living run, the lease released; another worker runs it at once."""
    assert one in (closing_uses_async, closing_uses_sync)
    Door.shut()
    async with Environment([closing_uses_async, closing_uses_sync]) as env:
        id = (await env.start(one)).execution_id
        first = Process(env)
        driving = await first.drive(id)
        await Door.gate.reached.wait()
        await first.worker.close(AT_ONCE)
        await driving
        let_go = await env.store.inner.read(id)
        assert (let_go.worker, let_go.suspended, let_go.claims, let_go.cause) == (None, False, 0, None)
        assert (await env.store.inner.load(id)).chunks == []
        Door.gate.open()
        assert (await env.drive(id)).value() == "done"
        assert Door.attempts == [1, 1], "the cut attempt was counted"
        assert [caught for caught in Door.caught if "GeneratorExit" not in caught] == []


async def test_an_activity_that_ends_within_the_grace_is_recorded_and_nothing_after_it_starts() -> None:
    """M1: closing drains: what runs may end, and its result is kept; the next step belongs to another worker."""
    Door.shut()
    async with Environment([closing_then_echo]) as env:
        id = (await env.start(closing_then_echo)).execution_id
        first = Process(env)
        driving = await first.drive(id)
        await Door.gate.reached.wait()
        closing = asyncio.ensure_future(first.worker.close(timedelta(seconds=20)))
        await asyncio.sleep(0)
        Door.gate.open()
        await closing
        assert driving.done()
        assert ledger.ran == []
        assert len((await env.store.inner.load(id)).chunks) == 1
        let_go = await env.store.inner.read(id)
        assert (let_go.worker, let_go.claims, let_go.is_complete) == (None, 0, False)
        assert (await env.drive(id)).value() == "donee"
        assert Door.attempts == [1]
        await check_history(env, id)


@workflow
async def closing_then_echo() -> str:
    return await closing_async() + await echo("e")


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_worker_that_closes_during_a_claim_starts_nothing(moment: str) -> None:
    """M1: the claim is under way when the worker closes: no activity fails for want of the threads that are gone."""
    async with Environment([closing_one_plain]) as env:
        id = (await env.start(closing_one_plain)).execution_id
        first = Process(env)
        gate = Gate(nth("replace"))
        setattr(first.store, moment, gate)
        driving = await first.drive(id)
        await gate.reached.wait()
        closing = asyncio.ensure_future(first.worker.close(AT_ONCE))
        await asyncio.sleep(0)
        gate.open()
        await closing
        assert driving.done(), "it was not waited for: its store would be closed under it"
        assert ledger.ran == []
        assert (await env.store.inner.read(id)).worker is None
        assert (await env.drive(id)).value() == "plain"
        assert ledger.ran == ["closing_plain"]


async def test_a_closed_worker_claims_no_more() -> None:
    """Neither by hand, nor from the feed, nor from a sweep, nor for those that waited for a place."""
    Door.shut()
    settings = dataclasses.replace(TEST_SETTINGS, max_held=1)
    async with Environment([closing_uses_async, closing_steps], settings=settings) as env:
        busy, waiting = (
            (await env.start(closing_uses_async)).execution_id,
            (await env.start(closing_steps)).execution_id,
        )
        first = Process(env)
        drives = [await first.drive(busy), await first.drive(waiting)]
        await Door.gate.reached.wait()
        await first.worker.close(AT_ONCE)
        await asyncio.gather(*drives)
        env.clock.advance(PAST_LEASE)
        await first.worker.sweep()
        await first.worker.drive(await env.store.inner.read(waiting))
        assert first.store.count("replace") == 1
        assert ledger.ran == []
        assert (await env.drive(waiting)).value() == ["a", "b"]


async def test_closing_a_worker_at_rest_leaves_what_waits_alone() -> None:
    """An execution that waits for the outside isn't touched by the end of a process that drove it before."""
    async with Environment([closing_waits]) as env:
        id = (await env.start(closing_waits)).execution_id
        await env.drive(id)
        before = await env.store.inner.read(id)
        await env.worker.close(AT_ONCE)
        assert await env.store.inner.read(id) == before
        assert before.suspended


async def test_a_drive_that_hangs_in_the_store_does_not_hold_up_the_end_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store call that never answers is given up; the lease expires and another worker takes over."""
    async with Environment([closing_steps]) as env:
        id = (await env.start(closing_steps)).execution_id
        first = Process(env)
        first.store.before = gate = Gate(nth("append"))
        driving = await first.drive(id)
        await gate.reached.wait()
        waited: list[float] = []
        wait = asyncio.wait

        async def wait_less(tasks: object, timeout: float | None = None) -> object:
            waited.append(timeout or 0)
            return await wait(tasks, timeout=0)  # type: ignore[arg-type]

        monkeypatch.setattr("engine.driving.worker.asyncio.wait", wait_less)
        await first.worker.close(timedelta(seconds=3))
        monkeypatch.undo()
        assert waited == [3, 5]
        await asyncio.wait([driving])
        assert driving.cancelled()
        env.clock.advance(PAST_LEASE)
        assert (await env.drive(id)).value() == ["a", "b"]


async def test_an_old_host_drains_while_a_new_one_sweeps() -> None:
    """L9: at a deployment both run at once; every execution ends, each step is recorded once."""
    async with Environment([closing_steps]) as env:
        ids = [(await env.start(closing_steps)).execution_id for _ in range(20)]
        old, new = Process(env), Process(env)
        env.clock.advance(PAST_LEASE)
        sweeping = asyncio.ensure_future(old.worker.sweep())
        gate = Gate(lambda call: call.method == "append" and call.of_method == 7)
        old.store.before = gate
        await gate.reached.wait()
        closing = asyncio.ensure_future(old.worker.close(timedelta(seconds=20)))
        await new.worker.sweep()
        gate.open()
        await asyncio.gather(closing, sweeping)
        env.clock.advance(timedelta(seconds=10))
        await new.worker.sweep()
        for id in ids:
            assert (await env.status(id)).value() == ["a", "b"]
            await check_history(env, id)
