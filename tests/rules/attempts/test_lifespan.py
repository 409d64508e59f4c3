"""What an app opens once for each process: activities find it, and it is closed after the last of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from engine import ActivityError, Retry, Runtime, activity, workflow
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment, survives
from tests.support.gates import Gate
from tests.support.processes import until


class Bank:
    """A client that must be opened and closed."""

    def __init__(self) -> None:
        self.log: list[str] = ["open"]

    def pay(self) -> int:
        self.log.append("pay")
        return self.log.count("pay")


class Stage:
    banks: list[Bank]
    failures: list[BaseException]
    working = Gate()

    @classmethod
    def reset(cls) -> None:
        cls.banks, cls.failures = [], []
        cls.working.close()


@pytest.fixture(autouse=True)
async def _reset() -> None:
    Stage.reset()


@contextlib.asynccontextmanager
async def bank() -> AsyncIterator[Bank]:
    if Stage.failures:
        raise Stage.failures.pop()
    Stage.banks.append(Bank())
    try:
        yield Stage.banks[-1]
    finally:
        Stage.banks[-1].log.append("close")


@activity(retry=Retry(max_attempts=2))
async def lifespan_pay() -> int:
    return activity.lifespan(Bank).pay()


@activity
def lifespan_pay_in_a_thread() -> int:
    return activity.lifespan(Bank).pay()


@activity
async def lifespan_hang() -> int:
    try:
        await Stage.working.passed()
    finally:
        activity.lifespan(Bank).pay()
    return 0


@workflow(name="lifespan.pays")
async def pays() -> list[int]:
    return [await lifespan_pay(), await lifespan_pay_in_a_thread()]


@workflow(name="lifespan.hangs")
async def hangs() -> int:
    return await lifespan_hang()


@workflow(name="lifespan.lacks")
async def lacks() -> str:
    try:
        return str(await lifespan_pay.with_options(retry=None)())
    except ActivityError as error:
        return f"{error.type_name}: {error.message}"


async def test_it_is_opened_once_and_closed_after_the_last_activity() -> None:
    async with Environment([pays], lifespan=bank) as env:
        assert Stage.banks == []
        assert (await env.run(pays)).value() == [1, 2]
        assert (await env.run(pays, key="2")).value() == [3, 4]
    assert [one.log for one in Stage.banks] == [["open", *["pay"] * 4, "close"]]


async def test_each_process_has_its_own_and_a_crash_opens_the_next() -> None:
    async with Environment([pays], lifespan=bank) as env:
        env.crash_at("lifespan_pay", after=True)
        assert (await env.run(pays)).value() == [1, 2]
    assert [one.log for one in Stage.banks] == [["open", "pay", "close"], ["open", "pay", "pay", "close"]]


async def test_wherever_the_process_dies_the_next_one_opens_its_own() -> None:
    async def play(env: Environment) -> int:
        await env.run(pays)
        return 0 if all(one.log[0] == "open" for one in Stage.banks) else 1

    assert await survives([pays], play, lifespan=bank) == 0
    assert all(one.log.count("close") == 1 and one.log[-1] == "close" for one in Stage.banks)


@pytest.mark.parametrize("failure", [ConnectionError("the bank is closed"), asyncio.CancelledError()], ids=repr)
async def test_a_failed_opening_fails_the_attempt_and_the_next_one_opens_again(failure: BaseException) -> None:
    """Also one that ends by a cancellation of its own, as a cancel scope may do."""
    Stage.failures = [failure]
    async with Environment([pays], lifespan=bank) as env:
        assert (await env.run(pays)).value() == [1, 2]
    assert len(Stage.banks) == 1


async def test_a_runtime_that_closes_cuts_its_activities_first() -> None:
    runtime = Runtime([hangs], lambda: SqliteStore(":memory:"), lifespan=bank)
    execution = (await runtime.client.start(hangs)).execution_id
    runtime.worker.start(await runtime.store.read(execution))
    await Stage.working.reached.wait()
    await runtime.close(timedelta(0))
    assert Stage.banks[0].log == ["open", "pay", "close"]


async def test_an_error_in_closing_is_logged_and_the_store_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    @contextlib.asynccontextmanager
    async def breaks() -> AsyncIterator[Bank]:
        yield Bank()
        raise ConnectionError("lost")

    async with Environment([pays], lifespan=breaks) as env:
        assert (await env.run(pays)).value() == [1, 2]
    assert "the lifespan of the app ended with an error" in caplog.text


async def test_an_opening_that_hangs_does_not_hold_up_the_end() -> None:
    gate = Gate()

    @contextlib.asynccontextmanager
    async def hangs_at_opening() -> AsyncIterator[Bank]:
        await gate.passed()
        yield Bank()

    async with Environment([pays], lifespan=hangs_at_opening) as env:
        execution = await env.client.start(pays)
        env.worker.start(await env.store.inner.read(execution.execution_id))
        await until(gate.reached.is_set)


@pytest.mark.parametrize(
    ("lifespan", "given"),
    [
        (None, "the app has no lifespan, or one that gives None"),
        (lambda: contextlib.nullcontext("a bank"), "the app gives 'a bank'"),
    ],
)
async def test_what_an_activity_does_not_find_is_named(lifespan: Any, given: str) -> None:
    async with Environment([lacks], lifespan=lifespan) as env:
        said = (await env.run(lacks)).value()
        assert said.startswith(f"TypeError: activity.lifespan(Bank) finds no Bank: {given}. Declare one")


def test_what_makes_no_context_manager_is_refused() -> None:
    made: Any = contextlib.nullcontext(1)
    with pytest.raises(TypeError, match="lifespan= takes a function that makes an async context manager"):
        Runtime([pays], lambda: SqliteStore(":memory:"), lifespan=made)
    with pytest.raises(RuntimeError, match=r"activity\.lifespan\(\) is for the code of an activity"):
        activity.lifespan(Bank)
