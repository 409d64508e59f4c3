"""What user code may do besides what it should: nothing of it reaches the driver (actors of trust)."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
from datetime import timedelta

import pytest
from pydantic import Field

from engine import Failure, Retry, activity, compensate, workflow
from engine.ground.errors import ActivityError
from engine.testing import Environment
from engine.testing.environment import TEST_SETTINGS
from tests.support.gates import Gate


class HostileDone(StopIteration):
    pass


@activity
def hostile_next() -> int:
    return next(iter(()))


@activity
def hostile_done() -> int:
    raise HostileDone(42)


@workflow
async def hostile_stops(which: str) -> str:
    try:
        return f"returned {await (hostile_next() if which == 'next' else hostile_done())}"
    except ActivityError as error:
        return error.type_name


@activity
async def hostile_step() -> None:
    pass


@workflow
async def hostile_logs(what: str) -> str:
    match what:
        case "name":
            workflow.logger.info("x", extra={"name": "taken"})
        case "extra":
            workflow.logger.info("x", extra=[1])  # type: ignore[arg-type]
        case "level":
            workflow.logger.log("INFO", "x")  # type: ignore[arg-type]
    workflow.logger.info("and on")
    await hostile_step()
    return "done"


@workflow
async def hostile_ends_the_process(where: str) -> str:
    async def task() -> None:
        raise KeyboardInterrupt

    if where == "task":
        left = asyncio.create_task(task())
        await hostile_step()
        return f"went on {left.done()}"
    raise KeyboardInterrupt


class HostileLimit(Failure):
    limit: float


class HostileAlias(Failure):
    code: str = Field(alias="codeName")


@activity
async def hostile_fails(how: str) -> None:
    match how:
        case "inf":
            raise HostileLimit(limit=math.inf)
        case "alias":
            raise HostileAlias(codeName="x")
        case "changed":
            failure = HostileLimit(limit=1)
            failure.limit = "none"  # type: ignore[assignment]
            raise failure


@workflow
async def hostile_failures(how: str) -> str:
    try:
        await hostile_fails(how)
    except HostileLimit as error:
        return f"limit {error.limit}"
    except HostileAlias as error:
        return f"code {error.code}"
    except ActivityError as error:
        return f"as {error.type_name}"
    return "nothing"


class HostileSub(ActivityError):
    def __init__(self) -> None:
        Exception.__init__(self, 3)


class HostileText(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class HostileCause(Exception):
    @property
    def __cause__(self) -> BaseException | None:  # type: ignore[override]
        raise RuntimeError("no cause")


class HostileModule(Exception):
    pass


HostileModule.__module__ = None  # type: ignore[assignment]

ODD = {
    "sub": HostileSub,
    "text": HostileText,
    "cause": HostileCause,
    "module": HostileModule,
    "message": lambda: ActivityError("T", None),  # type: ignore[arg-type]
}


@activity
async def hostile_raises(which: str) -> None:
    raise ODD[which]()  # type: ignore[operator]


@workflow
async def hostile_odd(which: str) -> str:
    try:
        await hostile_raises(which)
    except ActivityError:
        return "caught"
    return "nothing"


@activity(retry=Retry(2, timedelta(days=3_000_000), max_delay=timedelta(days=3_000_000), jitter=False))
async def hostile_never_again() -> None:
    raise ConnectionError


@workflow
async def hostile_waits_for_ever() -> None:
    await hostile_never_again()


@workflow
async def hostile_compensations() -> None:
    async def exits() -> None:
        raise GeneratorExit

    compensate(hostile_step)
    compensate(exits)
    raise ValueError("the cause")


@pytest.mark.parametrize("which", ["next", "done"])
async def test_a_sync_activity_that_raises_stop_iteration_fails(which: str) -> None:
    """A thread's future can't carry it: the attempt would never end, or succeed with its value."""
    async with Environment([hostile_stops]) as env:
        assert (await env.run(hostile_stops, which)).value() == "RuntimeError"


@pytest.mark.parametrize("what", ["name", "extra", "level"])
async def test_a_line_that_logging_refuses_costs_only_that_line(what: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is found out by whoever writes it: the driver, after the event was recorded."""
    with caplog.at_level(logging.INFO):
        async with Environment([hostile_logs]) as env:
            assert (await env.run(hostile_logs, what)).value() == "done"
    assert "can't be logged" in caplog.text
    assert "and on" in caplog.messages


@pytest.mark.parametrize(("where", "outcome"), [("main", "failed"), ("task", "completed")])
async def test_a_keyboard_interrupt_in_a_workflow_ends_no_host(where: str, outcome: str) -> None:
    async with Environment([hostile_ends_the_process]) as env:
        assert (await env.run(hostile_ends_the_process, where)).outcome == outcome


@pytest.mark.parametrize(("how", "seen"), [("inf", "limit inf"), ("alias", "code x"), ("changed", "as HostileLimit")])
async def test_a_failure_comes_back_or_is_told_as_what_it_was(how: str, seen: str) -> None:
    """One that could not be read back must not suspend whoever catches it."""
    async with Environment([hostile_failures], evict=True) as env:
        assert (await env.run(hostile_failures, how)).value() == seen


@pytest.mark.parametrize("which", ODD)
async def test_an_exception_that_resists_is_recorded(which: str) -> None:
    async with Environment([hostile_odd]) as env:
        assert (await env.run(hostile_odd, which)).value() == "caught"
        assert env.ran() == ["hostile_raises"]


def test_a_failure_that_no_coroutine_may_raise_is_refused() -> None:
    with pytest.raises(TypeError, match="StopIteration"):
        type("HostileStop", (Failure, StopIteration), {})


def test_what_is_not_retried_are_classes() -> None:
    with pytest.raises(ValueError, match="classes of exceptions, not 'ValueError'"):
        Retry(non_retryable=("ValueError",))  # type: ignore[arg-type]


async def test_a_retry_after_the_end_of_time_suspends() -> None:
    async with Environment([hostile_waits_for_ever]) as env:
        id = await env.start(hostile_waits_for_ever)
        execution = await env.drive(id)
        assert execution.suspended
        assert execution.due_at is not None
        assert execution.due_at.year == 9999
        assert execution.cause is None


async def test_compensations_go_on_after_one_that_exits() -> None:
    async with Environment([hostile_compensations]) as env:
        execution = await env.run(hostile_compensations)
        assert env.ran() == ["hostile_step"]
        assert [error.type for error in execution.compensation_errors] == ["GeneratorExit"]
        assert execution.error is not None
        assert execution.error.type == "ValueError"


thread = Gate()


@activity
def hostile_holds_the_thread() -> None:
    thread.passed_in_thread()


@activity(timeout=timedelta(seconds=5))
def hostile_waits_for_a_thread() -> str:
    return "in time"


@workflow
async def hostile_shares_a_thread() -> str:
    _, said = await asyncio.gather(hostile_holds_the_thread(), hostile_waits_for_a_thread())
    return said


async def test_the_time_before_it_has_a_thread_is_not_the_activity_s() -> None:
    """All threads are busy for longer than its timeout."""
    thread.close()
    settings = dataclasses.replace(TEST_SETTINGS, activity_threads=1)
    async with Environment([hostile_shares_a_thread], settings=settings) as env:
        id = (await env.start(hostile_shares_a_thread)).execution_id
        driving = env.worker.start(await env.store.inner.read(id))
        await thread.reached.wait()
        for _ in range(3):
            env.clock.advance(timedelta(seconds=6))
            for _ in range(50):
                await asyncio.sleep(0)
        thread.open()
        await driving
        assert (await env.status(id)).value() == "in time"
