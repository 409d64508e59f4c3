"""Limits of an activity across the deployment, as an author declares them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

MAX_LIMIT = 1_000
"""The highest limit. The document of a limit lists what counts against it."""
MAX_PERIOD = timedelta(days=31)
MAX_KEY = 1_000
"""The most characters of a key."""

KeyOf = Callable[..., str | int]


@dataclass(frozen=True)
class Limit:
    """How many attempts of an activity may begin within a period, as in `Limit(10, per=timedelta(seconds=1))`.

    most: from 1 to 1,000.
    per: more than zero, up to 31 days. The period slides: it may begin at any moment.
    """

    most: int
    per: timedelta

    def __post_init__(self) -> None:
        _check_number("Limit()", self.most)
        if not isinstance(self.per, timedelta):
            raise TypeError(f"per= of a Limit must be a timedelta, not {self.per!r}")
        if not timedelta(milliseconds=1) <= self.per <= MAX_PERIOD:
            raise ValueError(f"per= of a Limit must be from one millisecond to {MAX_PERIOD.days} days, not {self.per}")


@dataclass(frozen=True)
class Limits:
    """All limits of one activity. `key` tells, from the arguments, whose limits an attempt counts against."""

    concurrency: int | None
    limit: Limit | None
    key: KeyOf | None

    def __str__(self) -> str:
        """The limits in words, for people."""
        words = [f"at most {self.concurrency} at once"] if self.concurrency is not None else []
        if self.limit is not None:
            words.append(f"at most {self.limit.most} in {self.limit.per.total_seconds():g} s")
        return ", ".join(words) + (", for each key" if self.key is not None else "")

    def key_of(self, arguments: Mapping[str, Any], owner: str) -> str:
        """The key of a call, by the names of its arguments. Empty if there is no key function. Raises what that
        function raises, TypeError and ValueError for a key that can't be one."""
        if self.key is None:
            return ""
        wanted = inspect.signature(self.key).parameters
        key = self.key(*(arguments[name] for name in wanted))
        if not isinstance(key, str | int):
            raise TypeError(f"key= of {owner} must give a str or an int, not {key!r:.80}")
        if len(str(key)) > MAX_KEY:
            raise ValueError(f"key= of {owner} gave a key of {len(str(key)):,} characters; the limit is {MAX_KEY:,}")
        return str(key)


def declared_limits(
    function: Callable[..., Any], owner: str, concurrency: object, limit: object, key: object
) -> Limits | None:
    """The limits in a declaration, or None. Raises TypeError and ValueError for what can't work."""
    if concurrency is not None:
        _check_number("concurrency=", concurrency)
    if limit is not None and not isinstance(limit, Limit):
        raise TypeError(f"limit= takes a Limit, such as Limit(10, per=timedelta(seconds=1)), not {limit!r}")
    if key is not None:
        _check_key(function, owner, key)
    if concurrency is None and limit is None:
        if key is not None:
            raise TypeError(f"key= of {owner} limits nothing by itself: give concurrency= or limit= as well")
        return None
    return Limits(concurrency, limit, key)  # type: ignore[arg-type]


def _check_number(what: str, number: object) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{what} takes a whole number, not {number!r}")
    if not 1 <= number <= MAX_LIMIT:
        raise ValueError(f"{what} takes a number from 1 to {MAX_LIMIT:,}, not {number}")


def _check_key(function: Callable[..., Any], owner: str, key: object) -> None:
    if not callable(key) or inspect.iscoroutinefunction(key):
        raise TypeError(f"key= of {owner} takes a plain function, such as lambda order: order.tenant, not {key!r}")
    has = inspect.signature(function).parameters
    for name, parameter in inspect.signature(key).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"key= of {owner} takes parameters of the activity by name, not {parameter}")
        if name not in has:
            raise TypeError(f"key= of {owner} takes {name!r}, but {owner} has only the parameters {', '.join(has)}")
