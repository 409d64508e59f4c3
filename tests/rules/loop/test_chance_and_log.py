"""Chance, time and log lines: the same in every replay, others in every execution, and written once."""

import asyncio
import itertools
import logging
from datetime import datetime
from uuid import UUID

import pytest

from engine import Deferred, activity, workflow
from engine.testing import Environment
from tests.support.recovery import Scenario, completes, play, replays_alike, survives_crashes
from tests.support.steps import say

step = Deferred("chance.step", str)
_log = logging.getLogger("tests.chance")


@workflow
async def draws() -> list[str]:
    drawn: list[str] = []
    for _ in range(4):
        drawn += [str(workflow.uuid4()), repr(workflow.random().random())]
        await say(" ".join(drawn[-2:]))  # another value in replay would be another input
    return [*drawn, str(workflow.random().sample(range(1_000), 3)), workflow.execution_id()]


@workflow
async def looks_at_the_time() -> list[str]:
    times: list[str] = []
    for _ in range(3):
        times.append(workflow.now().isoformat())
        await say(times[-1])
        assert times[-1] <= workflow.now().isoformat()
        await asyncio.sleep(90)
        assert asyncio.get_running_loop().time() == pytest.approx(workflow.now().timestamp(), abs=0.001)
    return times


@activity
async def says_aloud(text: str) -> str:
    _log.info("activity %s", text)
    return text


@workflow
async def logs() -> None:
    workflow.logger.info("begins", extra={"color": "red"})
    for number in range(5):
        workflow.logger.info("before %d", number)
        await says_aloud(await step[number])
        workflow.logger.warning("after %d", number)


async def test_chance_is_the_same_in_every_replay() -> None:
    """I2: uuid4 and random survive any crash and any eviction, differ from call to call, and are valid."""
    whole = await survives_crashes(Scenario(draws))
    *drawn, _, _ = whole.value
    assert len(set(drawn)) == 8
    assert all(UUID(text).version == 4 for text in drawn[::2])
    assert all(0 <= float(text) < 1 for text in drawn[1::2])


async def test_chance_differs_between_executions_and_between_runs() -> None:
    """I2, O3: it comes from the run. A purged execution that is started again under its id draws anew."""
    async with Environment([draws]) as env:
        one, two = [(await env.run(draws, key=key)).value() for key in ("one", "two")]
        await env.client.purge(one[-1])
        again = (await env.run(draws, key="one")).value()
    assert not set(one) & set(two)
    assert set(one) & set(again) == {one[-1]}


@activity
async def key_of_a_charge() -> str:
    return activity.info().idempotency_key


@workflow
async def charges() -> str:
    return await key_of_a_charge()


async def test_the_key_of_a_step_is_its_runs_own() -> None:
    """O3: after a purge the same id charges again, under another key."""
    async with Environment([charges]) as env:
        first = await env.run(charges, key="one")
        await env.client.purge(first.execution_id)
        second = await env.run(charges, key="one")
        assert second.execution_id == first.execution_id
        assert second.value() != first.value()


async def test_time_is_that_of_the_last_event() -> None:
    """I2: now() doesn't move within a turn, and is the same in every replay; later, it is later."""
    whole = await play(Scenario(looks_at_the_time))
    assert whole.status.outcome == "completed", whole.status.error
    await replays_alike(whole)
    times = [datetime.fromisoformat(text) for text in whole.value]
    assert times[0] == whole.status.created_at
    assert [(later - sooner).total_seconds() for sooner, later in itertools.pairwise(times)] == (
        pytest.approx([90, 90], abs=0.01)
    )
    for call in whole.calls:
        await replays_alike(await play(Scenario(looks_at_the_time), [(call.number, "before")]))


async def test_log_lines_are_written_once(caplog: pytest.LogCaptureFixture) -> None:
    """I6: the code is evicted at each of five waits, and each line still comes once, in order, with its level and the
    execution's id; the lines of activities are left alone."""
    caplog.set_level(logging.INFO)
    async with Environment([logs]) as env:
        id = (await env.start(logs)).execution_id
        await env.settle()
        for number in range(5):
            env.worker = env.new_worker()
            await env.resolve(id, step[number], str(number))
            await env.settle()
        assert (await env.status(id)).is_complete
    lines = [(record.name, record.levelname, record.getMessage()) for record in caplog.records]
    assert lines[0] == ("engine.workflow", "INFO", "begins")
    assert lines[1:] == [
        line
        for n in range(5)
        for line in (
            ("engine.workflow", "INFO", f"before {n}"),
            ("tests.chance", "INFO", f"activity {n}"),
            ("engine.workflow", "WARNING", f"after {n}"),
        )
    ]
    first = caplog.records[0].__dict__
    assert (first["execution_id"], first["workflow"], first["color"]) == (id, "logs", "red")


async def test_log_lines_outlive_a_crash(caplog: pytest.LogCaptureFixture) -> None:
    """A line is written once what it tells of is recorded: a death in between may repeat it. Only a death between the
    commit that lets go of the execution and the line itself can lose one."""
    caplog.set_level(logging.INFO, "engine.workflow")
    scenario = Scenario(logs, signals=[completes(step[number], str(number)) for number in range(5)])
    whole = await play(scenario)
    expected = {record.getMessage() for record in caplog.records if record.name == "engine.workflow"}
    assert len(expected) == 11
    for call in whole.calls:
        for moment in ("before", "after") if call.method != "commit" else ("before",):
            caplog.clear()
            await play(scenario, [(call.number, moment)])
            lines = {record.getMessage() for record in caplog.records if record.name == "engine.workflow"}
            assert lines == expected, (call, moment)


@workflow
async def logs_what_changes() -> None:
    seen: list[int] = []
    for number in range(3):
        seen.append(number)
        workflow.logger.info("seen %s", seen)
    try:
        raise ValueError("broken")
    except ValueError:
        workflow.logger.exception("failed", extra={"page": 7})
    workflow.logger.info("%d", "not a number")
    workflow.logger.info("here", stack_info=True)


async def test_a_log_line_shows_what_was_true_when_it_was_written(caplog: pytest.LogCaptureFixture) -> None:
    """N14: arguments that change later, a traceback, fields, a stack; a line that can't be formatted says so."""
    caplog.set_level(logging.INFO, "engine.workflow")
    async with Environment([logs_what_changes]) as env:
        await env.run(logs_what_changes)
    lines = [record for record in caplog.records if record.name == "engine.workflow"]
    assert [line.getMessage() for line in lines[:4]] == ["seen [0]", "seen [0, 1]", "seen [0, 1, 2]", "failed"]
    assert lines[3].exc_info is not None
    assert str(lines[3].exc_info[1]) == "broken"
    assert lines[3].__dict__["page"] == 7
    assert "can't be formatted" in lines[4].getMessage()
    assert "logs_what_changes" in lines[5].getMessage()
