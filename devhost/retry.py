"""The retry policy of a function (`@app.retry`): how often a failed invocation is repeated, and after which delay."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from devhost.clock import Clock, backoff
from devhost.settings import timespan

_log = logging.getLogger("devhost")


@dataclass(frozen=True)
class RetryPolicy:
    """How often a failed invocation is repeated, and after how many seconds. `max_retries` None: until it succeeds.

    The delay doubles from `first_delay` up to `max_delay`. For a fixed delay, the two are equal.
    """

    max_retries: int | None
    first_delay: float
    max_delay: float

    def delay(self, retries: int) -> float:
        """Seconds to wait after the first attempt and `retries` retries have failed."""
        return backoff(retries + 1, self.first_delay, self.max_delay)


@dataclass(frozen=True)
class Attempt:
    """One attempt at an invocation. The first attempt has 0 `retries`. `failure` is the previous attempt's error."""

    retries: int = 0
    max_retries: int = 0
    failure: Exception | None = None


class Outcome(Enum):
    """How an invocation with its retries ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """It failed, and the policy allows no further retry."""
    ABANDONED = "abandoned"
    """It failed, and the host stopped before the next attempt."""


def parse_policy(setting: Mapping[str, Any] | None) -> RetryPolicy | None:
    """The policy in a `retry_policy` setting of azure-functions. Raises ValueError."""
    if setting is None:
        return None
    text = str(setting.get("max_retry_count"))
    try:
        count = int(text)
    except ValueError:
        count = -2
    if count < -1:
        raise ValueError(f"max_retry_count must be a whole number (-1 for no limit), not {text!r}")
    if setting.get("strategy") == "fixed_delay":
        names = ("delay_interval", "delay_interval")
    else:
        # The platform's worker treats any other strategy as exponential.
        names = ("minimum_interval", "maximum_interval")
    try:
        first, largest = (timespan(setting.get(name)) for name in names)
    except ValueError as error:
        raise ValueError(f"{' and '.join(dict.fromkeys(names))}: {error}") from error
    if first > largest:
        raise ValueError("minimum_interval is longer than maximum_interval")
    return RetryPolicy(None if count == -1 else count, first, largest)


async def run_with_retries(
    call: Callable[[Attempt], Awaitable[object]],
    policy: RetryPolicy | None,
    clock: Clock,
    ended: asyncio.Event,
    what: str,
) -> Outcome:
    """Calls until a call succeeds, no retry is left, or `ended` is set between two attempts.

    Each failure is logged with its traceback. `what` names the invocation in the log.
    """
    limit = -1 if policy is None or policy.max_retries is None else policy.max_retries
    attempt = Attempt(0, 0 if policy is None else limit)
    while True:
        try:
            await call(attempt)
            return Outcome.SUCCEEDED
        except Exception as error:  # noqa: BLE001 - the policy decides, no matter what the function raises
            if policy is None or attempt.retries == policy.max_retries:
                _log.error("%s failed", what, exc_info=error)
                return Outcome.FAILED
            delay = policy.delay(attempt.retries)
            left = "no limit" if policy.max_retries is None else f"of {limit}"
            _log.warning(
                "%s failed; retry %d (%s) follows in %g s",
                what,
                attempt.retries + 1,
                left,
                delay,
                exc_info=error,
            )
            attempt = Attempt(attempt.retries + 1, limit, error)
        if await clock.wait(ended, delay):
            return Outcome.ABANDONED
