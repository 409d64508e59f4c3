"""An activity says when to try again: RetryAfter goes before the policy's delays, and counts as an attempt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from engine import Retry, RetryAfter, activity, workflow
from engine.testing import Environment

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(seconds=1), max_delay=timedelta(seconds=1)))
async def ask() -> str:
    raise AssertionError("each test has a stand-in for it")


@workflow
async def asking() -> float:
    before = workflow.now()
    await ask()
    return (workflow.now() - before).total_seconds()


@pytest.mark.parametrize(
    "when", [7200, "7200", timedelta(hours=2), NOW + timedelta(hours=2), "Thu, 01 Jan 2026 02:00:00 GMT"]
)
async def test_the_next_attempt_is_made_at_the_time_that_the_activity_asks_for(when: object) -> None:
    async with Environment([asking], activities={"ask": lambda: "yes"}) as env:
        env.fail("ask", RetryAfter(when))  # type: ignore[arg-type]
        waited = (await env.run(asking)).value()
        assert 7200 <= waited < 7201


async def test_a_moment_that_has_passed_means_at_once() -> None:
    async with Environment([asking], activities={"ask": lambda: "yes"}) as env:
        env.fail("ask", RetryAfter(NOW - timedelta(days=1)))
        assert (await env.run(asking)).value() < 1


async def test_it_counts_as_an_attempt_and_its_cause_is_recorded() -> None:
    error = RetryAfter(1)
    error.__cause__ = ConnectionError("429")
    async with Environment([asking], activities={"ask": lambda: "yes"}) as env:
        env.fail("ask", error, times=None)
        status = await env.run(asking)
        assert status.outcome == "failed"
        assert status.error is not None
        assert (status.error.type, status.error.cause.type) == ("RetryAfter", "ConnectionError")  # type: ignore[union-attr]
        assert env.ran() == ["ask", "ask"]


@pytest.mark.parametrize(
    "when", [-1, timedelta(seconds=-1), "soon", "", "-3", datetime(2026, 1, 1), float("nan"), float("inf")]
)
def test_what_is_no_time_is_refused(when: object) -> None:
    with pytest.raises(ValueError, match="RetryAfter takes"):
        RetryAfter(when)  # type: ignore[arg-type]
