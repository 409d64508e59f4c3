"""An execution that kills its drivers is tried a set number of times, then suspended with the cause, until resumed."""

from __future__ import annotations

import asyncio
import linecache
from typing import Any

import pytest

from engine import Channel, Deferred, activity, workflow
from engine.ground.errors import Refused, Unavailable
from engine.store.base import Filter
from engine.testing import Call, Environment
from tests.support.crashes import check_history, echo
from tests.support.processes import PAST_LEASE, Process, unanswered

quarantine_answer = Deferred("quarantine.answer", str)
quarantine_notes = Channel("quarantine.notes", str)
MAX_CLAIMS = 5
"""What the settings of the tests say."""


class Bomb:
    """Kills the process that runs it, as often as it is told to, by step."""

    left: dict[str, int]
    runs: dict[str, int]
    process: Process
    execution: str
    here = True

    @classmethod
    def arm(cls, **left: int) -> None:
        cls.left, cls.runs, cls.here = left, {}, True


@activity
async def quarantine_bomb(step: str) -> str:
    Bomb.runs[step] = Bomb.runs.get(step, 0) + 1
    if Bomb.left.get(step, 0) > 0:
        Bomb.left[step] -= 1
        driving = Bomb.process.worker.running(Bomb.execution)
        assert driving is not None
        driving.cancel()
        await asyncio.Event().wait()
    return step


@workflow
async def quarantine_first() -> str:
    return await quarantine_bomb("a")


@workflow
async def quarantine_second() -> list[str]:
    return [await quarantine_bomb("a"), await quarantine_bomb("b")]


@workflow
async def quarantine_later() -> str:
    return await quarantine_answer + await quarantine_bomb("a")


@workflow
async def quarantine_listens() -> None:
    while True:
        await echo(await quarantine_notes.receive())


@workflow
async def quarantine_healthy() -> str:
    return await echo("fine")


async def _sweep_until_it_rests(env: Environment, id: str, limit: int = 40) -> int:
    """Sweep after sweep, each by a new process that may die of it. Returns how many of them claimed it."""
    claims = 0
    for _ in range(limit):
        Bomb.process, Bomb.execution = Process(env), id
        env.clock.advance(PAST_LEASE)
        driving = await Bomb.process.drive(id)
        await asyncio.wait([driving])
        claims += Bomb.process.store.count("replace")
        execution = await env.store.inner.read(id)
        if execution.is_complete or execution.suspended:
            return claims
    raise AssertionError(f"it was still being tried after {limit} processes had died of it")


@pytest.mark.parametrize("one", [quarantine_first, quarantine_second], ids=lambda w: w.name)
async def test_an_activity_that_kills_its_process_is_tried_a_set_number_of_times(one: object) -> None:
    """F4: as the first step and as a later one, after progress: then it is suspended, says why, and is found."""
    step = "a" if one is quarantine_first else "b"
    Bomb.arm(**{step: 1_000})
    async with Environment([quarantine_first, quarantine_second, quarantine_healthy]) as env:
        id = (await env.start(one)).execution_id  # type: ignore[call-overload]
        healthy = await env.start(quarantine_healthy)
        await _sweep_until_it_rests(env, id)
        # The driver that made the progress before it has run the step, too.
        assert Bomb.runs[step] == MAX_CLAIMS + (one is quarantine_second)
        execution = await env.store.inner.read(id)
        assert execution.cause is not None
        assert execution.cause.type == "Quarantined"
        last = "its beginning" if one is quarantine_first else "step quarantine_bomb"
        assert f"its driver dies each time, in what follows {last}." in execution.cause.message
        assert execution.suspended
        assert (execution.worker, execution.due_at) == (None, None)
        listed = await env.client.list(Filter(suspended_with_cause=True))
        assert [e.execution_id for e in listed.executions] == [id]
        assert (await env.client.health()).stuck == {"Quarantined": 1}
        assert (await env.finish(healthy)).value() == "fine"
        await check_history(env, id)


async def test_signals_do_not_run_a_quarantined_execution() -> None:
    """Values and interrupts are kept for it, and its code stays where it is; the cause stays visible."""
    Bomb.arm(a=1_000)
    async with Environment([quarantine_later]) as env:
        id = (await env.start(quarantine_later)).execution_id
        await env.drive(id)
        await env.resolve(id, quarantine_answer, "value ")
        await _sweep_until_it_rests(env, id)
        runs = dict(Bomb.runs)
        for _ in range(3):
            await env.client.resolve(id, quarantine_other, "another")
            await env.worker.sweep()
        await env.client.interrupt(id)
        await env.worker.sweep()
        execution = await env.store.inner.read(id)
        assert Bomb.runs == runs
        assert execution.cause is not None
        assert execution.cause.type == "Quarantined"
        assert execution.interrupted
        await env.client.resume(id)
        await env.worker.sweep()
        assert (await env.status(id)).outcome == "interrupted"
        assert Bomb.runs == runs


quarantine_other = Deferred("quarantine.other", str)


async def test_resume_gives_a_quarantined_execution_all_its_tries_again() -> None:
    """F4: cured meanwhile, it ends; not cured, it is quarantined after as many tries as before."""
    Bomb.arm(a=MAX_CLAIMS + 3)
    async with Environment([quarantine_first]) as env:
        id = (await env.start(quarantine_first)).execution_id
        await _sweep_until_it_rests(env, id)
        assert Bomb.runs == {"a": MAX_CLAIMS}
        resumed = await env.client.resume(id)
        assert (resumed.suspended, resumed.cause, (await env.store.inner.read(id)).claims) == (False, None, 0)
        await _sweep_until_it_rests(env, id)
        assert (await env.status(id)).value() == "a"
        assert Bomb.runs == {"a": MAX_CLAIMS + 4}


@pytest.mark.parametrize("deaths", [1, MAX_CLAIMS - 1])
async def test_progress_resets_the_count(deaths: int) -> None:
    """Each step may kill as many drivers but one: that is bad luck, not poison."""
    Bomb.arm(a=deaths, b=deaths)
    async with Environment([quarantine_second]) as env:
        id = (await env.start(quarantine_second)).execution_id
        await _sweep_until_it_rests(env, id)
        assert (await env.status(id)).value() == ["a", "b"]
        assert Bomb.runs == {"a": deaths + 1, "b": deaths + 1}


async def test_suspending_in_between_resets_the_count() -> None:
    """A driver that lets go in good order has made progress, though it recorded nothing."""
    Bomb.arm(a=MAX_CLAIMS - 1)
    async with Environment([quarantine_later]) as env:
        id = (await env.start(quarantine_later)).execution_id
        for _ in range(MAX_CLAIMS + 2):
            await env.drive(id)
            await env.client.resume(id)
        await env.drive(id)
        await env.resolve(id, quarantine_answer, "value ")
        await _sweep_until_it_rests(env, id)
        assert (await env.status(id)).value() == "value a"


async def test_a_store_that_is_away_quarantines_nobody() -> None:
    """L9: while it answers nothing, no claim is made, so none is counted; it ends with no manual step."""
    async with Environment([quarantine_healthy]) as env:
        id = await env.start(quarantine_healthy)
        for method in ("due", "replace"):
            for _ in range(MAX_CLAIMS * 2):
                process = Process(env)
                process.store.before = unanswered(method)
                env.clock.advance(PAST_LEASE)
                with pytest.raises(Unavailable):
                    await process.worker.sweep()
        env.clock.advance(PAST_LEASE)
        await env.worker.sweep()
        assert (await env.status(id)).value() == "fine"


@pytest.mark.parametrize("method", ["load", "append", "commit"])
async def test_a_store_that_lets_claim_and_nothing_more_quarantines_nobody(method: str) -> None:
    """L9: throttled in the midst of each drive, for far longer than a driver that dies would be given. No claim is
    counted, none is tried again before its lease ends, and it ends with no manual step."""
    Bomb.arm()
    async with Environment([quarantine_second]) as env:
        id = (await env.start(quarantine_second)).execution_id
        for number in range(MAX_CLAIMS * 5):
            process = Process(env)
            process.store.before = unanswered(method if number else "append")  # the first claim loads nothing
            env.clock.advance(PAST_LEASE)
            await process.worker.sweep()
            assert process.store.count("replace") == 2  # the claim, and that it isn't counted
            await process.worker.drive(await env.store.inner.read(id))
            assert process.store.count("replace") == 2
        assert (await env.store.inner.read(id)).cause is None
        env.clock.advance(PAST_LEASE)
        await env.worker.sweep()
        assert (await env.status(id)).value() == ["a", "b"]
        await check_history(env, id)


@pytest.mark.parametrize("method", ["load", "append"])
async def test_a_claim_is_taken_back_though_news_came_meanwhile(method: str) -> None:
    """L9: a value arrives in each outage, so that the exec document is another when the claim is to be taken back."""
    async with Environment([quarantine_listens]) as env:
        id = (await env.start(quarantine_listens)).execution_id
        await env.drive(id)
        for number in range(MAX_CLAIMS * 3):
            process = Process(env)

            async def away(call: Call) -> None:
                if call.method == method:
                    await env.client.send(id, quarantine_notes, "meanwhile")
                    raise Unavailable("no answer")

            process.store.before = away
            await env.client.send(id, quarantine_notes, f"note {number}")
            env.clock.advance(PAST_LEASE)
            await process.worker.sweep()
            execution = await env.store.inner.read(id)
            assert execution.cause is None, execution.cause.message
            assert execution.claims == 0


async def test_what_the_store_refuses_is_counted() -> None:
    """A request that makes no sense to the store will make none tomorrow: that is poison, not bad luck."""
    Bomb.arm()
    async with Environment([quarantine_second]) as env:
        id = (await env.start(quarantine_second)).execution_id

        async def refuse(call: Call) -> None:
            if call.method == "append":
                raise Refused("400")

        for _ in range(MAX_CLAIMS * 2 + 1):  # not even the seal can be written
            process = Process(env)
            process.store.before = refuse
            env.clock.advance(PAST_LEASE)
            await process.worker.sweep()
        cause = (await env.store.inner.read(id)).cause
        assert cause is not None
        assert cause.type == "Quarantined"


@workflow
async def quarantine_dies_in_its_code() -> str:
    value = await quarantine_answer  # where it was at work
    driving = Bomb.process.worker.running(Bomb.execution)
    assert driving is not None
    driving.cancel()
    return value


@workflow
async def quarantine_dies_at_once() -> None:
    driving = Bomb.process.worker.running(Bomb.execution)
    assert driving is not None
    driving.cancel()
    await quarantine_answer


HERE = "tests/rules/suspension/test_quarantine.py"


@pytest.mark.parametrize(
    ("one", "line", "where"),
    [
        (quarantine_second, 'await quarantine_bomb("b")]', "quarantine_second, in activity quarantine_bomb#2"),
        (quarantine_dies_in_its_code, "# where it was at work", "quarantine_dies_in_its_code, after deferred"),
        (quarantine_dies_at_once, None, "quarantine_dies_at_once. "),
    ],
    ids=["an activity", "the code after a value", "the code at its beginning"],
)
async def test_the_quarantine_names_the_line(one: Any, line: str | None, where: str) -> None:
    """M6: of the workflow that was at work when its last driver died: in a step, after one, or before all."""
    Bomb.arm(b=1_000)
    async with Environment([one]) as env:
        id = (await env.start(one)).execution_id
        Bomb.process, Bomb.execution = Process(env), id
        if one is quarantine_dies_in_its_code:
            await env.resolve(id, quarantine_answer, "x")
        await _sweep_until_it_rests(env, id)
        status = await env.status(id)
        assert status.cause is not None
        lines = linecache.getlines(__file__)
        number = next(n for n, text in enumerate(lines, 1) if (line or f"async def {one.name}(") in text)
        number -= 1 if line is None else 0  # a function begins at its decorator
        assert f"The workflow was at work at {HERE}:{number} in {where}" in status.cause.message
        assert (await env.store.inner.read(id)).at_work is None
