"""What may be an activity: bound methods, partials, and plain wrappers of async functions."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import pytest

from engine import activity, workflow
from engine.testing import Environment

P = ParamSpec("P")
R = TypeVar("R")


class Payments:
    """An activity's dependencies stand in an instance."""

    def __init__(self, currency: str) -> None:
        self._currency = currency

    async def charge(self, cents: int) -> str:
        return f"{cents} {self._currency}"

    def refund(self, cents: int) -> str:
        return f"-{cents} {self._currency}"


def traced(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
        return function(*args, **kwargs)

    return wrapper


@traced
async def doubled(number: int) -> int:
    return 2 * number


def power(base: int, exponent: int) -> int:
    return int(base**exponent)


payments = Payments("EUR")
charge = activity(payments.charge)
refund = activity(payments.refund)
double = activity(doubled)
square = activity(functools.partial(power, exponent=2))


@workflow
async def uses_them() -> list[str]:
    return [await charge(7), await refund(7), str(await double(4)), str(await square(5))]


async def test_methods_partials_and_wrappers_are_activities() -> None:
    """N16."""
    async with Environment([uses_them]) as env:
        assert (await env.run(uses_them)).value() == ["7 EUR", "-7 EUR", "8", "25"]
        assert env.ran() == ["charge", "refund", "doubled", "power"]


def test_a_method_in_its_class_is_refused_with_what_to_write() -> None:
    """N16: it would be called without its instance."""
    with pytest.raises(TypeError, match=r"activity\(Payments\(client\).charge\)"):

        class Shop:
            @activity
            async def sell(self, what: str) -> str:
                return what
