"""Retry policies: what they say, and what comes of them."""

from __future__ import annotations

import asyncio

import pytest

from devhost.clock import backoff
from devhost.retry import Attempt, Outcome, RetryPolicy, parse_policy, run_with_retries
from tests.devhost.support import FakeClock, settle


@pytest.mark.parametrize(
    ("setting", "policy"),
    [
        (None, None),
        (
            {"strategy": "fixed_delay", "max_retry_count": "3", "delay_interval": "00:00:02"},
            RetryPolicy(3, 2, 2),
        ),
        ({"strategy": "fixed_delay", "max_retry_count": 0, "delay_interval": "00:00:02"}, RetryPolicy(0, 2, 2)),
        (
            {
                "strategy": "exponential_backoff",
                "max_retry_count": "-1",
                "minimum_interval": "00:00:01",
                "maximum_interval": "00:01:00",
            },
            RetryPolicy(None, 1, 60),
        ),
    ],
)
def test_policies(setting: dict[str, object] | None, policy: RetryPolicy | None) -> None:
    assert parse_policy(setting) == policy


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"strategy": "fixed_delay", "max_retry_count": "-2", "delay_interval": "00:00:02"}, "max_retry_count"),
        ({"strategy": "fixed_delay", "max_retry_count": "1"}, "delay_interval"),
        ({"strategy": "exponential_backoff", "max_retry_count": "1"}, "minimum_interval and maximum_interval"),
        (
            {
                "strategy": "exponential_backoff",
                "max_retry_count": "1",
                "minimum_interval": "00:00:03",
                "maximum_interval": "00:00:02",
            },
            "longer",
        ),
    ],
)
def test_what_is_no_policy(setting: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_policy(setting)


def test_delays_double_up_to_the_largest_and_never_overflow() -> None:
    policy = RetryPolicy(None, 1, 300)
    assert [policy.delay(n) for n in (0, 1, 2, 8, 9, 5000)] == [1, 2, 4, 256, 300, 300]
    assert [RetryPolicy(3, 2, 2).delay(n) for n in (0, 5000)] == [2, 2]
    assert [backoff(n) for n in (1, 2, 5000)] == [0.5, 1, 30]


class Flaky:
    """Fails that many times before it succeeds."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.attempts: list[Attempt] = []

    async def __call__(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        if len(self.attempts) <= self.failures:
            raise ValueError(f"failure {len(self.attempts)}")


async def test_attempts_follow_each_other_after_the_delay(clock: FakeClock) -> None:
    call = Flaky(2)
    running = asyncio.ensure_future(run_with_retries(call, RetryPolicy(3, 2, 2), clock, asyncio.Event(), "it"))
    await settle()
    assert len(call.attempts) == 1
    await clock.advance(1.9)
    assert len(call.attempts) == 1
    await clock.advance(0.1)
    assert len(call.attempts) == 2
    await clock.advance(2)
    assert await running is Outcome.SUCCEEDED
    assert [(attempt.retries, attempt.max_retries) for attempt in call.attempts] == [(0, 3), (1, 3), (2, 3)]
    assert [attempt.failure and str(attempt.failure) for attempt in call.attempts] == [
        None,
        "failure 1",
        "failure 2",
    ]


@pytest.mark.parametrize(("policy", "attempts"), [(None, 1), (RetryPolicy(0, 1, 1), 1), (RetryPolicy(2, 1, 1), 3)])
async def test_a_policy_is_exhausted(
    clock: FakeClock, policy: RetryPolicy | None, attempts: int, caplog: pytest.LogCaptureFixture
) -> None:
    call = Flaky(100)
    running = asyncio.ensure_future(run_with_retries(call, policy, clock, asyncio.Event(), "it"))
    await clock.advance(100)
    assert await running is Outcome.FAILED
    assert len(call.attempts) == attempts
    assert "it failed" in caplog.text
    assert f"ValueError: failure {attempts}" in caplog.text


async def test_without_a_limit_it_never_gives_up_but_ends_with_the_host(clock: FakeClock) -> None:
    call, ended = Flaky(10_000), asyncio.Event()
    running = asyncio.ensure_future(run_with_retries(call, RetryPolicy(None, 1, 1), clock, ended, "it"))
    await clock.advance(50)
    assert len(call.attempts) == 51
    ended.set()
    await settle()
    assert await running is Outcome.ABANDONED
    assert len(call.attempts) == 51
