"""How often, and how long apart, a failing activity is tried."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from engine.values.failures import Failure


@dataclass(frozen=True)
class Retry:
    """When an activity that failed is tried again.

    `max_attempts` includes the first attempt: with 1 there is no second one. The delay before attempt n + 1 is
    `first_delay * factor ** (n - 1)`, at most `max_delay`. With `jitter`, the delay is a random time between half of
    that and all of it. An exception of a class in `non_retryable` isn't retried, and neither is a `Failure` that isn't
    `retryable`. Raises ValueError for values that make no sense.
    """

    max_attempts: int = 3
    first_delay: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    max_delay: timedelta = timedelta(minutes=5)
    jitter: bool = True
    non_retryable: tuple[type[BaseException], ...] = field(default=())

    def __post_init__(self) -> None:
        given: object = self.non_retryable
        if isinstance(given, type):
            raise TypeError(f"non_retryable= takes several classes, as in non_retryable=({given.__name__},)")
        object.__setattr__(self, "non_retryable", tuple(self.non_retryable))
        for kind in self.non_retryable:
            if not isinstance(kind, type) or not issubclass(kind, BaseException):
                raise ValueError(f"non_retryable must hold classes of exceptions, not {kind!r}")
        if isinstance(self.max_attempts, bool) or not isinstance(self.max_attempts, int) or self.max_attempts < 1:
            raise ValueError(f"max_attempts counts the first try, and must be at least 1, not {self.max_attempts!r}")
        if not math.isfinite(self.factor) or self.factor < 1:
            raise ValueError(f"factor must be a finite number of at least 1, not {self.factor!r}")
        for name in ("first_delay", "max_delay"):
            if not isinstance(getattr(self, name), timedelta):
                raise ValueError(f"{name} must be a timedelta, not {getattr(self, name)!r}")
        if self.first_delay < timedelta(0) or self.max_delay < self.first_delay:
            raise ValueError("0 <= first_delay <= max_delay must hold")

    def delay(self, failed_attempts: int, rng: random.Random) -> timedelta:
        """How long to wait after so many failed attempts, at most `max_delay`. Never overflows."""
        cap = self.max_delay.total_seconds()
        try:
            seconds = min(self.first_delay.total_seconds() * self.factor ** (failed_attempts - 1), cap)
        except OverflowError:
            seconds = cap
        if self.jitter:
            seconds *= 0.5 + rng.random() / 2
        return timedelta(seconds=seconds)

    def allows(self, error: BaseException, failed_attempts: int) -> bool:
        """Whether to try again after `error`, the error of the last of `failed_attempts`."""
        return failed_attempts < self.max_attempts and all(self._may_repeat(leaf) for leaf in _leaves(error))

    def _may_repeat(self, error: BaseException) -> bool:
        if isinstance(error, self.non_retryable):
            return False
        return not isinstance(error, Failure) or type(error).retryable


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions of a group and its subgroups, or the exception itself if it is no group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


NEVER = Retry(max_attempts=1)
"""The policy of an activity that declares none."""
