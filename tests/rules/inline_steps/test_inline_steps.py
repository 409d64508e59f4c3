"""`step("name", function, *args)` runs any function as a durable step: an activity without a declaration."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from engine import ActivityError, Failure, Retry, Workflow, activity, compensate, step, workflow
from engine.guard import check
from engine.testing import Environment, export, replay, survives
from tests.rules.inline_steps import prices
from tests.rules.inline_steps.prices import Shop, price_of

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")
Body = Callable[[], Awaitable[Any]]


class Receipt(BaseModel):
    total: Decimal


class SoldOut(Failure):
    sku: str


def receipt(total: Decimal) -> Receipt:
    return Receipt(total=total)


@activity
async def charge(cents: int) -> int:
    return cents


def _workflow(body: Body) -> Workflow[[], Any]:
    return workflow(name="inline_steps")(body)


async def ran(body: Body) -> Any:
    async with Environment([_workflow(body)], evict=True) as env:
        return (await env.run(_workflow(body))).value()


async def cause(body: Body) -> str:
    async with Environment([_workflow(body)], declares=[charge]) as env:
        status = await env.run(_workflow(body))
        assert status.cause is not None
        return f"{status.cause.type}: {status.cause.message}"


async def every_shape() -> list[Any]:
    captured = "lamp"
    return [
        await step("price", price_of, "lamp", times=2),
        await step("price", price_of, "lamp"),
        *[await step("lambda", lambda number: f"{captured} {number}", number) for number in range(3)],
        await step("method", Shop(5).total, 1),
        await step("method", Shop(7).total, 1),
        await step("partial", functools.partial(price_of, times=3), "bed"),
        await step("builtin", len, [1, 2]),
        await step("async lambda", lambda: price_of("desk")),
        str((await step("typed", receipt, Decimal("1.10"))).total),
    ]


EXPECTED = [8, 4, "lamp 0", "lamp 1", "lamp 2", 6, 8, 9, 2, 4, "1.10"]


async def test_every_function_is_a_step_and_its_result_keeps_its_type() -> None:
    """Each step in a process of its own, so each result is replayed."""
    assert await ran(every_shape) == EXPECTED


@SLOW
async def test_wherever_the_process_dies_the_result_is_the_same() -> None:
    async def play(env: Environment) -> Any:
        return (await env.run(_workflow(every_shape))).value()

    assert await survives([_workflow(every_shape)], play) == EXPECTED


async def test_a_recorded_step_is_replayed_by_its_name_and_arguments() -> None:
    async def first() -> Any:
        return await step("price", lambda sku: 5, "lamp")

    async def other_function() -> Any:
        return await step("price", lambda sku: 6, "lamp")

    async with Environment([_workflow(first)]) as env:
        execution = (await env.start(_workflow(first))).execution_id
        await env.finish(execution)
        recording = await export(env.store, execution)
    outcome = replay(recording, [_workflow(other_function)]).outcome
    assert outcome is not None
    assert outcome.value == "5"


async def test_a_step_has_three_attempts_and_options_of_its_own() -> None:
    async def tried() -> Any:
        await step("by default", price_of, "lamp")
        try:
            await step.with_options(retry=None)("once", price_of, "lamp")
        except ActivityError as error:
            return error.type_name

    async with Environment([_workflow(tried)]) as env:
        env.fail("by default", ConnectionError(), times=2)
        env.fail("once", ConnectionError())
        assert (await env.run(_workflow(tried))).value() == "ConnectionError"
        assert env.ran() == ["by default"] * 3 + ["once"]


async def test_options_add_up_and_say_which_errors_come_back_as_themselves() -> None:
    def refuses() -> None:
        raise LookupError("lamp")

    def is_out() -> None:
        raise SoldOut(sku="lamp")

    async def body() -> Any:
        careful = step.with_options(retry=Retry(max_attempts=2, jitter=False)).with_options(raises=[LookupError])
        try:
            await careful("refuses", refuses)
        except LookupError as error:
            found = str(error)
        try:
            await step("is out", is_out)
        except SoldOut as failure:
            return [found, failure.sku]

    async with Environment([_workflow(body)]) as env:
        assert (await env.run(_workflow(body))).value() == ["lamp", "lamp"]
        assert env.ran() == ["refuses", "refuses", "is out"]


async def test_a_timeout_holds_for_a_step() -> None:
    async def hangs() -> None:
        import asyncio

        await asyncio.Event().wait()

    async def body() -> Any:
        try:
            await step.with_options(timeout=timedelta(seconds=5), retry=None)("hangs", hangs)
        except ActivityError as error:
            return error.type_name

    async with Environment([_workflow(body)], patience=timedelta(milliseconds=50)) as env:
        assert (await env.run(_workflow(body))).value() == "TimeoutError"


async def test_a_step_may_undo_another() -> None:
    async def body() -> None:
        compensate(step, "undo", price_of, "lamp")
        await step("fails", Shop(1).total, 1)

    async with Environment([_workflow(body)]) as env:
        env.fail("fails", ConnectionError(), times=None)
        assert (await env.run(_workflow(body))).outcome == "failed"
        assert env.ran()[-1] == "undo"


# -- the test kit, the history and the guard know it by its name --


async def test_a_stand_in_runs_in_its_place_and_an_unknown_name_is_refused() -> None:
    made = _workflow(every_shape)
    async with Environment([made], activities={"price": lambda sku, times=1: 40.0 + times}) as env:
        assert (await env.run(made)).value()[:2] == [42, 41]
        with pytest.raises(ValueError, match=r"no activity is named 'prise'.* there is price"):
            env.fail("prise", ConnectionError())
    with pytest.raises(ValueError, match="no activity is named 'prise'"):
        Environment([made], activities={"prise": price_of})


async def test_it_shows_in_history_and_pending_as_an_activity_does() -> None:
    async def body() -> Any:
        return await step("price", price_of, "lamp")

    made = _workflow(body)
    async with Environment([made]) as env:
        env.fail("price", ConnectionError("closed"))
        execution = await env.start(made)
        await env.settle()
        assert "activity price" in await env.why(execution)
        assert "test_inline_steps.py" in await env.why(execution)
        await env.finish(execution)
        assert "activity price ended" in await env.timeline(execution)


def test_the_guard_passes_by_what_a_step_runs() -> None:
    """Names, modules' members, options, lambdas, methods and functions of the workflow's own; and nothing else."""

    async def careful() -> None:
        def local() -> float:
            return time.time()

        await step("name", price_of, "lamp")
        await step("member", prices.price_of, "lamp")
        await step.with_options(retry=None)("options", price_of, "lamp")
        await step("lambda", lambda: time.time())
        await step("local", local)
        await step("clock", time.time)

    async def careless() -> None:
        await step("argument", lambda now: now, time.time())
        await price_of("lamp")

    assert check([_workflow(careful)]) == []
    assert [finding.what for finding in check([_workflow(careless)])] == ["time.time", "time.time"]


# -- misuse --


async def test_two_functions_or_an_activity_under_one_name_suspend_with_both_places() -> None:
    async def twice() -> None:
        await step("price", price_of, "lamp")
        await step("price", Shop(1).total, 1)

    async def after_an_activity() -> None:
        await charge(5)
        await step("charge", Shop(1).total, 1)

    async def as_an_activity() -> None:
        await step("charge", Shop(1).total, 1)

    said = await cause(twice)
    assert said.startswith("NotDurable: <step price> (")
    assert said.count("test_inline_steps.py:") == 2
    assert (await cause(after_an_activity)).startswith("NotDurable: <activity charge> (")
    assert "<step charge> " in await cause(as_an_activity)
    assert "has the name of an activity (" in await cause(as_an_activity)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((price_of, "lamp"), 'step() takes a name first, as in step("fetch", fetch, url), not <function price_of'),
        (("a#2", price_of, "lamp"), "the name of a step may not contain '#'"),
        (("", price_of, "lamp"), "the name of a step is 1 to 200 printable characters"),
        (("price", charge, 5), "<activity charge> is a step by itself: await charge(…), without step()"),
        (("price", 5), "step('price', …) takes a function, not 5"),
        (("price", Receipt), "step() takes a function or an async function, not "),
        (("price", Shop.total, 5), "step() can't take Shop.total from its class"),
        (("price", price_of), "step price: missing a required argument: 'sku'"),
        (("price", price_of, 5), "a value of type int can't be stored as str"),
        (("price", max, [5]), "wrap it in a function of your own"),
    ],
)
async def test_a_wrong_call_says_what_to_write(arguments: Any, message: str) -> None:
    async def body() -> str:
        wrong: Any = step
        try:
            return str(await wrong(*arguments))
        except (TypeError, ValueError) as error:
            return str(error)

    assert message in await ran(body)


async def test_the_coroutine_of_a_call_is_refused() -> None:
    async def body() -> str:
        wrong: Any = step
        try:
            return str(await wrong("price", price_of("lamp")))
        except TypeError as error:
            return str(error)

    assert await ran(body) == "step('price', …) is given the coroutine of a call: give the function, then its arguments"


async def test_outside_of_a_workflow_it_says_so_at_the_call() -> None:
    with pytest.raises(RuntimeError, match=r"step\('price', …\) is for the code of a workflow. Elsewhere, call"):
        await step("price", price_of, "lamp")

    async def within_a_step() -> Any:
        return await step("inner", price_of, "lamp")

    async def body() -> Any:
        try:
            await step.with_options(retry=None)("outer", within_a_step)
        except ActivityError as error:
            return error.message

    assert (await ran(body)).startswith("step('inner', …) is for the code of a workflow.")
