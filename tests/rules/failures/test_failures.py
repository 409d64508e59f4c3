"""Failures of activities as the workflow and the outside see them: every exception, every policy of retries."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from engine import ActivityError, ActivityErrorGroup, Failure, Retry, Workflow, activity, workflow
from engine.testing import Environment
from engine.values.error_records import MAX_DEPTH, MAX_MESSAGE
from tests.support.mortal import assert_replays, everywhere, journal


class Keywords(Exception):
    """One that plain pickling can't bring back."""

    def __init__(self, *, status_code: int, detail: str) -> None:
        super().__init__(f"{status_code}: {detail}")
        self.status_code, self.detail = status_code, detail


class Held(Exception):
    """One that holds what nobody can store."""

    def __init__(self) -> None:
        super().__init__("holds things", threading.Lock(), lambda: 1, self)
        self.lock, self.itself, self.code = threading.Lock(), self, 7


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Throttled(Failure):
    retryable = True
    after: int


class Refused(Failure):
    by: str


def chain(length: int) -> Exception:
    error: Exception = ValueError("the deepest")
    for number in range(length):
        outer = ValueError(f"level {number}")
        outer.__cause__ = error
        error = outer
    return error


def circle() -> Exception:
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__cause__ = other, one
    return one


MAKE: dict[str, Callable[[], BaseException]] = {
    "64 KB": lambda: ValueError("x" * 65_536),
    "3 MB": lambda: ValueError("é" * 1_500_000),
    "50 MB": lambda: ValueError("x" * 50_000_000),
    "surrogate": lambda: ValueError("\ud800\x00"),
    "chain": lambda: chain(10_000),
    "circle": circle,
    "keywords": lambda: Keywords(status_code=404, detail="gone"),
    "held": Held,
    "unspeakable": Unspeakable,
    "exit": lambda: SystemExit(3),
    "keyboard": KeyboardInterrupt,
    "stop": lambda: StopIteration(1),
    "group": lambda: ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
    "memory": MemoryError,
    "recursion": RecursionError,
}
TYPES = {
    "keywords": "Keywords",
    "held": "Held",
    "unspeakable": "Unspeakable",
    "exit": "SystemExit",
    "keyboard": "KeyboardInterrupt",
    "stop": "RuntimeError",
    "group": "ExceptionGroup",
    "memory": "MemoryError",
    "recursion": "RecursionError",
}


@activity
async def fails(how: str) -> None:
    journal.note(how)
    raise MAKE[how]()


@activity(raises=[Keywords, Held])
async def fails_declared(how: str) -> None:
    raise MAKE[how]()


@activity(raises=[ExceptionGroup])
async def fails_as_group() -> None:
    raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])


@activity(retry=Retry(max_attempts=3, first_delay=timedelta(seconds=10), jitter=False))
async def stumbles(times: int) -> str:
    info = activity.info()
    journal.note(f"{info.attempt} {info.idempotency_key.partition('-')[2]}")
    if info.attempt <= times:
        raise ValueError(f"attempt {info.attempt}")
    return "well"


@activity(retry=Retry(max_attempts=4, first_delay=timedelta(0), non_retryable=(LookupError,)))
async def picks(how: str) -> None:
    journal.note(how)
    raise {
        "throttled": Throttled(after=3),
        "refused": Refused(by="Ada"),
        "lookup": KeyError("k"),
        "value": ValueError("v"),
    }[how]


@workflow
async def catches_group() -> list[str]:
    try:
        await fails_as_group()
    except ActivityError as error:
        inner = map(str, cast(ActivityErrorGroup, error).exceptions)
        return [type(error).__name__, error.type_name, str(error), *inner]
    return []


@workflow
async def catches(how: str) -> list[str]:
    try:
        await fails(how)
    except ActivityError as error:
        return [error.type_name, error.message]
    return []


@workflow
async def lets_through(how: str) -> None:
    await fails(how)


@workflow
async def catches_declared(how: str) -> list[Any]:
    try:
        await fails_declared(how)
    except Keywords as error:
        return [error.status_code, error.detail, str(error)]
    except Held as error:
        return [error.code, hasattr(error, "lock"), len(error.args)]
    return []


@workflow
async def retries(times: int) -> str:
    return await stumbles(times)


@workflow
async def picky(how: str) -> None:
    await picks(how)


@workflow
async def fails_at_the_last_line() -> str:
    await stumbles(0)
    raise Refused(by="the last line")


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]


@pytest.mark.parametrize("how", MAKE)
async def test_any_exception_is_caught_and_ends_what_does_not_catch_it(how: str) -> None:
    """D1, D4, D5: type and message arrive, cut with a visible mark; one run; polling and replay work."""
    async with Environment(ALL) as env:
        type_name, message = (await env.run(catches, how)).value()
        assert type_name == TYPES.get(how, "ValueError")
        assert len(message) < MAX_MESSAGE + 100
        assert ("cut" in message) == (how in ("64 KB", "3 MB", "50 MB"))
        assert journal.effects == [how]
        status = await env.run(lets_through, how)
        assert status.outcome == "failed"
        assert status.error is not None
        assert status.error.type == type_name
        with pytest.raises(ActivityError) as raised:
            status.value()
        assert raised.value.type_name == type_name
        causes, error = 0, status.error.cause
        while error is not None:
            causes, error = causes + 1, error.cause
        assert causes < MAX_DEPTH
        assert causes >= (MAX_DEPTH - 1 if how == "chain" else 1 if how == "circle" else 0)
        await assert_replays(env)


async def test_a_declared_exception_comes_back_as_itself() -> None:
    """D4, D5: without its constructor; what can't be stored of it is left out."""
    async with Environment(ALL) as env:
        assert (await env.run(catches_declared, "keywords")).value() == [404, "gone", "404: gone"]
        assert (await env.run(catches_declared, "held")).value() == [7, False, 1]
        await assert_replays(env)


async def test_a_group_of_exceptions_comes_back_with_its_parts() -> None:
    """D4, N7: under the class name that it had."""
    async with Environment(ALL) as env:
        assert (await env.run(catches_group)).value() == [
            "ActivityErrorGroup",
            "ExceptionGroup",
            "several (2 sub-exceptions)",
            "ValueError: one",
            "KeyError: 'two'",
        ]
        await assert_replays(env)


async def test_an_error_in_the_last_line_is_no_success() -> None:
    """D7: failed, with that error; at every crash."""

    async def scenario(env: Environment) -> None:
        status = await env.run(fails_at_the_last_line, key="k")
        assert status.outcome == "failed"
        with pytest.raises(Refused) as refused:
            status.value()
        assert refused.value.by == "the last line"

    await everywhere(ALL, scenario)


@pytest.mark.parametrize(("times", "runs"), [(0, 1), (1, 2), (2, 3), (9, 3)])
async def test_attempts_are_counted_with_the_first(times: int, runs: int) -> None:
    """F1, M2: so many runs in all, each with its number and the same key; the last failure is the error."""
    async with Environment(ALL) as env:
        status = await env.run(retries, times)
        assert journal.effects == [f"{number} stumbles" for number in range(1, runs + 1)]
        if times < 3:
            assert status.value() == "well"
        else:
            assert status.error is not None
            assert status.error.message == "attempt 3"
        took = env.clock.now() - status.created_at
        assert timedelta(seconds=[0, 0, 10, 30][runs]) <= took < timedelta(seconds=[1, 1, 11, 31][runs])


async def test_attempts_survive_every_crash() -> None:
    """M2: a failed attempt that was recorded is never made again; one that was cut off is, under its old number."""

    async def scenario(env: Environment) -> None:
        assert (await env.run(retries, 2, key="k")).value() == "well"
        assert list(dict.fromkeys(journal.effects)) == ["1 stumbles", "2 stumbles", "3 stumbles"]
        assert len(journal.effects) <= 4

    await everywhere(ALL, scenario)


@pytest.mark.parametrize(("how", "runs"), [("throttled", 4), ("refused", 1), ("lookup", 1), ("value", 4)])
async def test_what_is_tried_again(how: str, runs: int) -> None:
    """A Failure only if its class says so; never what the policy excludes, subclasses included."""
    async with Environment(ALL) as env:
        assert (await env.run(picky, how)).outcome == "failed"
        assert journal.effects == [how] * runs


@pytest.mark.parametrize("factor", [2.0, 1e300, 1.0])
@pytest.mark.parametrize("failed", [1, 2, 1_100, 10**9])
def test_a_delay_never_overflows(factor: float, failed: int) -> None:
    """F3: past the cap it is the cap; never zero, never an exception."""
    retry = Retry(max_attempts=10**10, factor=factor, jitter=False)
    delay = retry.delay(failed, random.Random(1))
    assert timedelta(seconds=1) <= delay <= retry.max_delay
    if failed > 2 and factor > 1:
        assert delay == retry.max_delay
    dice = Retry(max_attempts=10**10, factor=factor).delay(failed, random.Random(1))
    assert timedelta(seconds=0.5) <= dice <= retry.max_delay


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": True},
        {"max_attempts": 2.0},
        {"factor": math.nan},
        {"factor": math.inf},
        {"factor": 0.5},
        {"first_delay": timedelta(seconds=-1)},
        {"max_delay": timedelta(0)},
        {"first_delay": 3},
        {"max_delay": None},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    """F1, F3: where it is declared."""
    with pytest.raises(ValueError, match=r"at least 1|must hold|must be a timedelta, not"):
        Retry(**wrong)
