"""The test kit's stand-ins for children: a parent is tested without the code of the workflows that it calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from engine import Failure, Workflow, workflow
from engine.testing import Environment


class Bill(BaseModel):
    number: int


class Unpaid(Failure):
    number: int


@workflow
async def standing_prints(bill: Bill) -> None:
    raise AssertionError("the real one runs")


@workflow(idempotency_key=lambda order: order)
async def standing_bills(order: str) -> Bill:
    await standing_prints(Bill(number=1))
    raise AssertionError("the real one runs")


@workflow
async def standing_ticks() -> int:
    raise AssertionError("the real one runs")


@workflow
async def standing_sells(orders: list[str]) -> list[int]:
    bills = await asyncio.gather(*(standing_bills(order) for order in orders))
    await standing_ticks.start()
    try:
        return [bill.number for bill in bills] + [await standing_ticks()]
    except Unpaid as unpaid:
        return [-unpaid.number]


async def bills(order: str) -> Bill:
    await asyncio.sleep(3600)
    return Bill(number=len(order))


def fails() -> int:
    raise Unpaid(number=7)


STAND_INS: dict[str, Callable[..., Any]] = {"standing_bills": bills, "standing_ticks": lambda: 9}


@pytest.mark.parametrize("evict", [False, True])
async def test_a_function_runs_in_place_of_a_child(evict: bool) -> None:
    """P2: async or not, with the real types, durable waits and keys; the real child need not be registered, nor the
    workflows that it calls. A history with stand-ins replays."""
    async with Environment([standing_sells], children=STAND_INS, evict=evict, workers=2) as env:
        handle = await env.start(standing_sells, ["a", "bcd"])
        await env.finish(handle)
        assert await handle.result() == [1, 3, 9]
        child = env.client.handle(standing_sells, handle.execution_id)
        assert (await child.status()).outcome == "completed"


async def test_a_stand_in_may_fail() -> None:
    """P2: with a typed failure, which its parent catches."""
    async with Environment([standing_sells], children=STAND_INS | {"standing_ticks": fails}) as env:
        assert (await env.run(standing_sells, ["a"])).value() == [-7]


async def test_it_stands_in_for_a_registered_workflow_too() -> None:
    """P2: wherever that is started from, and after a deployment."""
    everything: list[Workflow[Any, Any]] = [standing_sells, standing_bills, standing_ticks, standing_prints]
    async with Environment(everything, children=STAND_INS) as env:
        assert (await env.run(standing_ticks)).value() == 9
        env.deploy(everything)
        assert (await env.run(standing_sells, ["a"])).value() == [1, 9]


async def test_what_it_returns_is_checked_by_the_real_type() -> None:
    """P2: a stand-in that returns something else fails as the real one would."""
    async with Environment([standing_sells], children=STAND_INS | {"standing_bills": lambda order: 3}) as env:
        status = await env.run(standing_sells, ["a"])
        assert status.error is not None
        assert "the result of workflow standing_bills" in status.error.message


@pytest.mark.parametrize(
    ("children", "error", "says"),
    [
        ({"standing_bill": bills}, ValueError, "did you mean 'standing_bills'"),
        ({"nobody": bills}, ValueError, "there are standing_bills, standing_prints, standing_sells, standing_ticks"),
        ({"standing_bills": lambda: 1}, TypeError, "takes a function of the payload: too many positional arguments"),
        ({"standing_ticks": bills}, TypeError, "takes a function of nothing: missing a required argument"),
        ({"standing_ticks": 3}, TypeError, "takes a function of nothing, not 3"),
        ({"standing_bills": standing_ticks}, TypeError, "takes a function of the payload, not <workflow"),
    ],
)
def test_a_stand_in_that_fits_nothing_is_refused(children: Any, error: type[Exception], says: str) -> None:
    """P2: with the names that there are, or with the right shape."""
    with pytest.raises(error, match=says):
        Environment([standing_sells], children=children)


async def test_without_a_stand_in_a_child_has_to_be_registered() -> None:
    """P2: as before."""
    with pytest.raises(ValueError, match=r"standing_ticks.* isn't in the list"):
        Environment([standing_sells], children={"standing_bills": bills})
