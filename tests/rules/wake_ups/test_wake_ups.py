"""No lost wake-up: whatever comes, and whenever, is seen within one sweep, though no feed delivers anything."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from typing import Any

import pytest

from engine import AlreadyResolved, Channel, Deferred, activity, workflow
from engine.core.declarations import Workflow
from engine.ground.errors import MissingDocument
from engine.store.base import Filter
from engine.store.documents import Execution
from engine.testing import Call, Environment
from engine.values.events import StepResolved
from tests.support.crashes import check_history, echo
from tests.support.gates import Gate
from tests.support.processes import SWEEPS_NEW_AFTER, ImpatientClock, Process, StaleStore
from tests.support.stored import store_of

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

wakeups_a = Deferred("wakeups.a", str)
wakeups_values = Channel("wakeups.values", str)
gate = Gate()


@activity
async def wakeups_slow() -> str:
    await gate.passed()
    return "slow"


@workflow
async def wakeups_at_once() -> str:
    return await wakeups_a


@workflow
async def wakeups_after_a_step() -> str:
    return await echo("first ") + await wakeups_a


@workflow
async def wakeups_with_a_timer() -> str:
    async with asyncio.timeout(86_400):
        return await wakeups_a


@workflow
async def wakeups_receives() -> str:
    return await wakeups_values.receive()


WAITING: list[tuple[Workflow[..., str], str]] = [
    (wakeups_at_once, "!"),
    (wakeups_after_a_step, "first !"),
    (wakeups_with_a_timer, "!"),
    (wakeups_receives, "!"),
]


async def _send(process: Process, id: str, one: Workflow[..., str]) -> None:
    if one is wakeups_receives:
        await process.client.send(id, wakeups_values, "!")
    else:
        await process.client.resolve(id, wakeups_a, "!")


@pytest.mark.parametrize(("one", "value"), WAITING, ids=[one.name for one, _ in WAITING])
@pytest.mark.parametrize("lag", [pytest.param(0, marks=SLOW), pytest.param(1, marks=SLOW), 5])
@pytest.mark.parametrize(
    "inside", [pytest.param(False, marks=SLOW, id="from outside"), pytest.param(True, id="in process")]
)
async def test_news_at_any_moment_arrives_within_one_sweep(
    one: Workflow[..., str], value: str, lag: int, inside: bool
) -> None:
    """A1: before the start's first turn, around every store call of its drive (the suspend write above all), and
    after it; told in the same process or not at all; with a replica that lags behind by several reads."""
    number, more = -1, True
    while more:
        for moment in ("before", "after"):
            async with Environment([one]) as env:
                env.clock = ImpatientClock()
                driver = Process(env, store=StaleStore(store_of(env), lag))
                outside = driver if inside else Process(env)
                id = (await env.start(one)).execution_id
                sent: list[int] = []

                async def news(
                    call: Call, sent: list[int] = sent, outside: Process = outside, id: str = id, number: int = number
                ) -> None:
                    if call.number == number and not sent:
                        sent.append(number)
                        await _send(outside, id, one)

                setattr(driver.store, moment, news)
                if number == -1:
                    sent.append(-1)
                    await _send(Process(env), id, one)
                env.clock.advance(SWEEPS_NEW_AFTER)
                await driver.worker.sweep()
                more = bool(sent)
                if not sent:
                    await _send(Process(env), id, one)
                await driver.worker.sweep()
                assert (await env.status(id)).value() == value, f"told {moment} call {number}"
                await check_history(env, id)
        number += 1
    assert number >= 2


async def test_a_replica_that_lags_for_too_long_is_reported_and_nothing_is_lost() -> None:
    """L6: documents that can't be read for long suspend the execution, with the cause; `resume` carries on."""
    async with Environment([wakeups_at_once]) as env:
        env.clock = ImpatientClock()
        id = (await env.start(wakeups_at_once)).execution_id
        await Process(env).client.resolve(id, wakeups_a, "!")
        driver = Process(env, store=StaleStore(store_of(env), 100))
        env.clock.advance(SWEEPS_NEW_AFTER)
        await driver.worker.sweep()
        status = await env.status(id)
        assert status.cause is not None
        assert status.cause.type == MissingDocument.__name__
        listed = await env.client.list(Filter(suspended_with_cause=True))
        assert [execution.execution_id for execution in listed.executions] == [id]
        await env.client.resume(id)
        assert (await env.finish(id)).value() == "!"


@SLOW
async def test_forty_executions_with_values_of_a_mebibyte() -> None:
    """A2: five started at a time, each value sent the moment its body comes to the wait: all 40 arrive, byte-equal."""
    async with Environment([wakeups_after_a_step]) as env:
        outside = Process(env)
        values: dict[str, str] = {}

        async def complete(call: Call) -> None:
            execution = call.arguments[0]
            if call.method == "commit" and isinstance(execution, Execution) and execution.execution_id not in values:
                id = execution.execution_id
                values[id] = hashlib.sha256(id.encode()).hexdigest() * 16_384
                await outside.client.resolve(id, wakeups_a, values[id])

        env.store.before = complete
        for _ in range(8):
            ids = [(await env.start(wakeups_after_a_step)).execution_id for _ in range(5)]
            await asyncio.gather(*[env.worker.drive(await env.store.inner.read(id)) for id in ids])
        assert len(values) == 40
        for id, value in values.items():
            assert (await env.status(id)).value() == "first " + value


@pytest.mark.parametrize("inside", [False, True], ids=["from outside", "in process"])
async def test_news_that_comes_while_an_activity_runs_is_kept(inside: bool) -> None:
    """A3: sent at once after the start, and while an earlier activity is in flight."""
    for early in (True, False):
        gate.close()
        async with Environment([wakeups_slow_first]) as env:
            id = (await env.start(wakeups_slow_first)).execution_id
            outside = Process(env)
            client = env.client if inside else outside.client
            if early:
                await client.resolve(id, wakeups_a, " news")
            driving = env.worker.start(await env.store.inner.read(id))
            await gate.reached.wait()
            if not early:
                await client.resolve(id, wakeups_a, " news")
            gate.open()
            await driving
            assert (await env.status(id)).value() == "slow news"


@workflow
async def wakeups_slow_first() -> str:
    return await wakeups_slow() + await wakeups_a


@workflow
async def wakeups_race() -> str:
    slow = asyncio.create_task(wakeups_slow(), name="slow")
    quick = asyncio.create_task(wakeups_a.wait(), name="quick")
    done, _ = await asyncio.wait({slow, quick}, return_when=asyncio.FIRST_COMPLETED)
    return ",".join(sorted(task.get_name() for task in done)) + await echo("!")


@pytest.mark.parametrize("seconds", [0, 10], ids=["in process: at once", "from outside: by the heartbeat"])
async def test_news_wins_a_race_while_the_other_branch_runs(seconds: int) -> None:
    """A8: the branch goes on at once if the news is told in this process, else within a heartbeat; never only when
    the activity ends, whose late result is ignored."""
    gate.close()
    async with Environment([wakeups_race]) as env:
        id = (await env.start(wakeups_race)).execution_id
        driving = env.worker.start(await env.store.inner.read(id))
        await gate.reached.wait()
        client = Process(env).client if seconds else env.client
        await client.resolve(id, wakeups_a, "x")
        env.clock.advance(timedelta(seconds=seconds))
        await driving
        assert (await env.status(id)).value() == "quick!"
        before = await env.store.inner.load(id)
        gate.open()
        await asyncio.sleep(0)
        assert await env.store.inner.load(id) == before


async def test_the_same_completion_three_times_is_one_value() -> None:
    """A5: delivered again before the wait, after it and after the end: one document, one event."""
    async with Environment([wakeups_after_a_step]) as env:
        id = (await env.start(wakeups_after_a_step)).execution_id
        await env.resolve(id, wakeups_a, "!")
        await env.drive(id)
        for _ in range(2):
            await env.resolve(id, wakeups_a, "!")
        assert (await env.status(id)).value() == "first !"
        loaded = await env.store.inner.load(id)
        assert [item.id for item in loaded.inbox] == ["deferred::wakeups.a"]
        assert (await env.store.inner.read(id)).inbox_count == 1
        assert [event.step for event in _events(loaded)] == ["echo", "wakeups.a"]


@pytest.mark.parametrize("driven", [False, True], ids=["before the wait", "after the wait"])
async def test_the_first_of_two_values_counts_on_every_replay(driven: bool) -> None:
    """A6: the second is refused and shows the first; the code sees the first, also when it is replayed."""
    async with Environment([wakeups_twice]) as env:
        id = await env.start(wakeups_twice)
        if driven:
            await env.drive(id)
        await env.resolve(id, wakeups_a, "1")
        with pytest.raises(AlreadyResolved) as refused:
            await env.resolve(id, wakeups_a, "2")
        assert refused.value.first == '"1"'
        await env.drive(id)
        assert not (await env.status(id)).is_complete
        env.worker = env.new_worker()
        assert (await env.finish(id)).value() == ["1", "1"]


@workflow
async def wakeups_twice() -> list[str]:
    first = await wakeups_a
    await asyncio.sleep(60)
    return [first, await wakeups_a]


@SLOW
async def test_news_for_many_executions_is_found_by_one_sweep() -> None:
    """L1: nothing was delivered to anyone; one sweep finds all of it."""
    async with Environment([wakeups_after_a_step]) as env:
        ids = [(await env.start(wakeups_after_a_step)).execution_id for _ in range(250)]
        env.clock.advance(SWEEPS_NEW_AFTER)
        assert await env.worker.sweep() == 250
        outside = Process(env)
        for id in ids:
            await outside.client.resolve(id, wakeups_a, id)
        assert await env.worker.sweep() == 250
        for id in ids:
            assert (await env.status(id)).value() == f"first {id}"
        assert await env.worker.sweep() == 0


def _events(loaded: Any) -> list[StepResolved]:
    return [event for chunk in loaded.chunks for event in chunk.decoded() if isinstance(event, StepResolved)]
