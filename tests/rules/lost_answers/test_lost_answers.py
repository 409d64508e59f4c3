"""A store that loses answers or goes away for a while: the workflow never notices, and comes to the same end."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from engine import Deferred, Retry, activity, workflow
from engine.ground.errors import StoreError, Unavailable
from engine.testing import Call, Environment, WatchedStore
from engine.values.events import StepResolved
from tests.support.crashes import check_history, echo, ledger
from tests.support.processes import PAST_LEASE, Process

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

lost_answer = Deferred("lost.answer", str)
seen: list[str] = []
"""What the workflow's code caught that it shouldn't have."""
EXPECTED = ["flaky", "a", "b", "c", "value", "slept", "large" * 2_000]


@activity(retry=Retry(max_attempts=3, first_delay=timedelta(minutes=1), jitter=False))
async def lost_flaky() -> str:
    ledger.note()
    if activity.info().attempt == 1:
        raise OSError("the first attempt fails")
    return "flaky"


@workflow
async def lost_child() -> str:
    return await echo("c")


@workflow
async def lost_everything() -> list[str]:
    """Every kind of store call: appends, suspensions, timers, retries, a child, a value, a large result."""
    try:
        done = [await lost_flaky()]
        done += await asyncio.gather(echo("a"), echo("b"), lost_child())
        done.append(await lost_answer)
        await asyncio.sleep(60)
        done.append("slept")
        done.append(await echo("large" * 2_000))
    except BaseException as error:
        if not isinstance(error, GeneratorExit):
            seen.append(repr(error))
        raise
    return done


@workflow
async def lost_swallows() -> list[str]:
    """M7: it eats whatever comes, in a loop around each wait."""
    done: list[str] = []
    for wait in (lost_flaky, lambda: echo("a"), lost_answer.wait, lambda: echo("b")):
        for _ in range(3):
            try:
                done.append(await wait())
                break
            except GeneratorExit:
                raise
            except BaseException as error:
                seen.append(repr(error))
    return done


async def _run_on(env: Environment, id: str, store: WatchedStore) -> None:
    """Processes come and go on that store, sweep after sweep, until the execution has ended. One that meets an
    unreachable store lives on; the time of its lease passes."""
    process = Process(env, store=store)
    value_sent = False
    for _ in range(200):
        try:
            if not value_sent:
                await process.client.resolve(id, lost_answer, "value")
                value_sent = True
            await process.worker.sweep()
        except Unavailable:
            pass
        execution = await env.store.inner.read(id)
        assert execution.cause is None, execution.cause
        if execution.is_complete:
            return
        env.clock.advance(PAST_LEASE)
    raise AssertionError("it never ended")


async def _same_end(one: object, expected: list[str], first: int, length: int, moment: str) -> bool:
    """A run in which the calls from `first` on, `length` of them, meet an unreachable store. False if it ended before:
    how many calls a run takes is not fixed, since what ends together is written together."""
    seen.clear()
    async with Environment([lost_everything, lost_swallows, lost_child]) as env:
        id = (await env.start(one)).execution_id  # type: ignore[call-overload]
        store = WatchedStore(env.store.inner)
        lost = 0

        async def lose(call: Call) -> None:
            nonlocal lost
            if first <= call.number < first + length:
                lost += 1
                raise Unavailable(f"no answer to {call.method}")

        setattr(store, moment, lose)
        await _run_on(env, id, store)
        where = f"lost {moment} call {first} of {[call.method for call in store.calls]}"
        assert (await env.status(id)).value() == expected, where
        assert seen == [], where
        await check_history(env, id)
        chunks = (await env.store.inner.load(id)).chunks
        ended = [event.step for c in chunks for event in c.decoded() if isinstance(event, StepResolved)]
        assert len(ended) == len(set(ended))
        return lost > 0


async def _lose_any(one: object, expected: list[str], length: int, moment: str, stride: int = 1) -> int:
    """Lose the first calls of a run, then later ones, until the run is over before. Returns where that was."""
    first = 0
    while await _same_end(one, expected, first, length, moment):
        first += stride
    return first


@pytest.mark.sqlite_only("tests/stores/cosmos/test_engine.py loses each answer on the wire")
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_an_answer_lost_at_any_call_changes_nothing(moment: str) -> None:
    """H7: before and after the effect of each call of the scenario; one run, no lost and no doubled entry."""
    assert await _lose_any(lost_everything, EXPECTED, 1, moment) > 10


@SLOW
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_store_away_for_a_while_changes_nothing(moment: str) -> None:
    """L9: away from any call on, for several; then back: it ends with no manual step."""
    assert await _lose_any(lost_everything, EXPECTED, 7, moment, stride=3) > 10


@SLOW
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_code_that_swallows_everything_never_meets_an_error_of_the_store(moment: str) -> None:
    """M7: `except BaseException` around each wait, in a loop: the result is right."""
    assert await _lose_any(lost_swallows, ["flaky", "a", "value", "b"], 1, moment) > 5


async def test_errors_of_the_store_reach_a_client_as_such() -> None:
    """L8: whoever asks is told that it isn't known what happened."""
    async with Environment([lost_everything, lost_child]) as env:
        id = await env.start(lost_everything)

        async def lose(call: Call) -> None:
            raise Unavailable("no answer")

        env.store.before = lose
        for ask in (
            env.client.status(id),
            env.client.interrupt(id),
            env.client.resolve(id, lost_answer, "x"),
            env.client.start(lost_everything),
            env.client.terminate(id),
            env.client.resume(id),
            env.client.purge(id),
        ):
            with pytest.raises(StoreError):
                await ask
