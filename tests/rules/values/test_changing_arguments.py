"""N9: what the code passes to a step is compared with what is recorded, as today's type reads both. Only what really
differs is NonDeterminism, and the message says where."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import AliasChoices, Field, create_model

from engine import Retry, activity, workflow
from engine.ground.errors import NonDeterminism
from engine.testing import Environment, export, replay
from engine.values.inputs import MAX_INPUT


def passed(model: Any, value: dict[str, Any], child: bool = False) -> list[Any]:
    """Workflows that pass a model on, under the same names each time: to an activity, or to a child."""

    async def takes(passed: Any) -> None:
        pass

    takes.__annotations__ = {"passed": model, "return": None}
    step: Any = workflow(takes) if child else activity(takes)

    async def passes() -> None:
        await step(model(**value))

    return [workflow(passes), step] if child else [workflow(passes)]


async def recorded(workflows: list[Any]) -> str:
    async with Environment(workflows) as env:
        status = await env.run(workflows[0])
        return await export(env.store, status.execution_id)


def model(**fields: Any) -> Any:
    return create_model("Passed", **fields)


SAME = {
    "a type becomes wider": (
        model(age=(int, ...), tags=(list[str], ...), name=(str, ...)),
        model(age=(float, ...), tags=(set[str], ...), name=(str | None, ...)),
        {"age": 7, "tags": ["a", "b"], "name": "Ann"},
        {"age": 7, "tags": ["a", "b"], "name": "Ann"},
    ),
    "a field is renamed": (
        model(name=(str, ...)),
        model(full_name=(str, Field(validation_alias=AliasChoices("full_name", "name")))),
        {"name": "Ann"},
        {"full_name": "Ann"},
    ),
    "a field with a default is added": (model(a=(int, ...)), model(a=(int, ...), b=(int, 5)), {"a": 1}, {"a": 1}),
    "a number is written in another way": (model(a=(int, ...)), model(a=(Decimal, ...)), {"a": 1}, {"a": "1"}),
}


@pytest.mark.parametrize("child", [False, True], ids=["activity", "child"])
@pytest.mark.parametrize("change", SAME)
async def test_what_the_code_passes_may_change_its_form(change: str, child: bool) -> None:
    """N9: the stored values are unchanged, and so is what the code asks for."""
    before, after, old, new = SAME[change]
    text = await recorded(passed(before, old, child))  # type: ignore[arg-type]
    assert replay(text, passed(after, new, child)).outcome is not None  # type: ignore[arg-type]


OTHER = {
    "another value": (
        model(age=(int, ...), of=(dict[str, list[int]], ...)),
        {"age": 7, "of": {"a": [1, 2]}},
        {"age": 7, "of": {"a": [1, 3]}},
        "passed.of.a.1: recorded 2, now 3",
    ),
    "a value more": (model(a=(list[int], ...)), {"a": [1]}, {"a": [1, 2]}, "passed.a: recorded [1], now [1, 2]"),
    "another default": (
        model(a=(int | None, None), b=(int, 0)),
        {"b": 1},
        {"a": 5, "b": 1},
        "passed.a: recorded nothing, now 5",
    ),
}


@pytest.mark.parametrize("child", [False, True], ids=["activity", "child"])
@pytest.mark.parametrize("change", OTHER)
async def test_what_really_differs_is_named(change: str, child: bool) -> None:
    """N9: the message says where, what is recorded, and what the code asks for now."""
    kind, old, new, message = OTHER[change]
    text = await recorded(passed(kind, old, child))  # type: ignore[arg-type]
    with pytest.raises(NonDeterminism) as caught:
        replay(text, passed(kind, new, child))  # type: ignore[arg-type]
    assert (message.replace("passed", "payload") if child else message) in str(caught.value)


def calling(takes: Any, *args: Any) -> list[Any]:
    takes.__name__ = "takes"
    step: Any = activity(takes)

    async def calls() -> None:
        await step(*args)

    return [workflow(calls)]


async def test_an_argument_that_was_not_passed_has_its_default() -> None:
    """N9: the code passes one more argument, with its default, or with another value; or an argument is gone."""

    async def one(a: int, b: int = 5) -> None:
        pass

    async def renamed(a: int, c: int = 5) -> None:
        pass

    text = await recorded(calling(one, 1))
    assert replay(text, calling(one, 1, 5)).outcome is not None
    with pytest.raises(NonDeterminism, match="b: recorded 5, now 6"):
        replay(text, calling(one, 1, 6))
    with pytest.raises(NonDeterminism, match="b: recorded 6, now nothing; c: recorded 5, now 6"):
        replay(await recorded(calling(one, 1, 6)), calling(renamed, 1, 6))


async def test_the_length_of_a_timer_is_named() -> None:
    def sleeps(seconds: float) -> Any:
        async def sleeping() -> None:
            await asyncio.sleep(seconds)

        return workflow(sleeping)

    text = await recorded([sleeps(30)])
    with pytest.raises(NonDeterminism, match=r"timer.seconds: recorded '30.0', now '60.0'"):
        replay(text, [sleeps(60)])


async def test_a_large_input_is_known_by_its_digest() -> None:
    """N9: the history doesn't double. Such an argument may still not change, nor its form."""
    before, after = model(name=(str, ...), age=(int, ...)), model(name=(str, ...), age=(float, ...))
    value = {"name": "a" * MAX_INPUT, "age": 1}
    text = await recorded(passed(before, value))
    assert len(text) < 2 * MAX_INPUT
    assert replay(text, passed(before, value)).outcome is not None
    with pytest.raises(NonDeterminism, match="digest"):
        replay(text, passed(after, value))


async def test_a_step_keeps_its_first_digest_over_a_deployment() -> None:
    """N9: its type becomes wider between two attempts. Its input is recorded once, with the first attempt; later events
    name the same digest, so every later version reads the history alike."""
    narrow, wide = model(age=(int, ...)), model(age=(float, ...))

    def trying(kind: Any) -> Any:
        async def takes(passed: Any) -> None:
            if activity.info().attempt < 3:
                raise OSError("not yet")

        takes.__annotations__ = {"passed": kind, "return": None}
        step: Any = activity(retry=Retry(first_delay=timedelta(minutes=2), jitter=False))(takes)

        async def passes() -> None:
            await step(kind(age=7))

        return workflow(passes)

    before = trying(narrow)
    async with Environment([before]) as env:
        id = (await env.start(before)).execution_id
        await env.settle()
        env.deploy([trying(wide)])
        assert (await env.finish(id)).outcome == "completed"
        text = await export(env.store, id)
    events = [event for chunk in json.loads(text)["history"] for event in chunk["events"]]
    assert [event["kind"] for event in events] == ["attempt", "attempt", "activity"]
    assert [event.get("input") for event in events] == [{"passed": '{"age":7}'}, None, None]
    assert len({event["digest"] for event in events}) == 1
    for kind in (narrow, wide):
        assert replay(text, [trying(kind)]).outcome is not None
