"""P10: a value of the wrong type is refused in words of the author's own types, wherever it is given."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from engine import Channel, Deferred, EncodingError, InvalidInput, activity, workflow
from engine.testing import Environment
from engine.values.codec import Codec

NOISE = ("Pydantic", "pydantic", "serializ", "input_value", "input_type", "survive", "(value)", "hunter2")


class Item(BaseModel):
    sku: str
    count: int = Field(default=1, ge=1)


class Order(BaseModel):
    id: str
    items: list[Item] = []


@dataclass
class Point:
    x: int


wrong_deferred = Deferred("wrong.deferred", Order)
wrong_channel = Channel("wrong.channel", Order)


@activity
async def wrong_takes(order: Order) -> None: ...


@activity
async def wrong_gives(value: Any) -> Order:
    return value


@workflow
async def wrong_needs(order: Order) -> None:
    await wrong_deferred
    await wrong_channel.receive()


@workflow
async def wrong_calls(value: Any) -> list[str]:
    found = []
    for call in (wrong_takes, wrong_gives, wrong_needs):
        try:
            await call(value)
        except Exception as error:
            found.append(str(error))
    return found


WRONG: list[tuple[Any, Any, str]] = [
    (Order, None, "a value of type NoneType can't be stored as Order: Input should be an instance of Order"),
    (Order, {"id": "7"}, "a value of type dict can't be stored as Order: expected Order, not dict"),
    (Order, {"id": 7}, "a value of type dict can't be stored as Order"),
    (Order, "hunter2", "a value of type str can't be stored as Order: expected Order, not str"),
    (Order, Item(sku="a"), "a value of type Item can't be stored as Order: Input should be an instance of Order"),
    (Order, Order, "a value of type ModelMetaclass can't be stored as Order: Input should be an instance of Order"),
    (Order, [Order(id="7")], "expected Order, not list"),
    (Order, Order.model_construct(id=7), "id: expected str, not int"),
    (Order, Order.model_construct(id="7", items=[{"sku": "hunter2"}]), "items: expected Item, not dict"),
    (list[Item], [Item(sku="a"), {"sku": 3}], "1.sku: Input should be a valid string"),
    (list[Item], Item(sku="a"), "Input should be a valid list"),
    (list[int], iter([1]), "Input should be a valid list"),
    (dict[str, int], {"a": "hunter2"}, "a: Input should be a valid integer"),
    (Point, {"x": 1}, "expected Point, not dict"),
    (Point, Point("hunter2"), "x: expected int, not str"),  # type: ignore[arg-type]
    (int, "hunter2", "expected int, not str"),
    (int, None, "Input should be a valid integer"),
    (Item | int, "hunter2", "Item: Input should be an instance of Item; int: Input should be a valid integer"),
    (Literal["a", "b"], "hunter2", "Input should be 'a' or 'b'"),
]


@pytest.mark.parametrize(("kind", "value", "says"), WRONG)
def test_a_wrong_value_is_named_in_the_author_s_words(kind: Any, value: Any, says: str) -> None:
    """P10: the place, both types, and where it doesn't fit; no innards of a library, and nothing of the value."""
    with pytest.raises(EncodingError) as refused:
        Codec(kind, "the payload of workflow sell").round_trip(value)
    message = str(refused.value)
    assert message.startswith("the payload of workflow sell: ")
    assert says in message
    assert [word for word in NOISE if word in message] == []


async def test_it_is_as_clear_through_the_client_and_the_test_kit() -> None:
    """P10: a payload that is missing or wrong, and the same for deferreds, channels, arguments, results, children."""
    async with Environment([wrong_needs, wrong_calls]) as env:
        starts: list[Callable[..., Awaitable[Any]]] = [env.client.start, env.client.execute, env.start, env.run]
        for start in starts:
            with pytest.raises(InvalidInput, match=r"^workflow wrong_needs needs a payload$"):
                await start(wrong_needs)
            with pytest.raises(EncodingError, match=r"expected Order, not dict$"):
                await start(wrong_needs, {"id": "7"})
        handle = await env.start(wrong_needs, Order(id="7"))
        wrong: list[tuple[Any, str]] = [(None, "an instance of Order$"), ({"id": "7"}, "expected Order, not dict$")]
        for value, says in wrong:
            with pytest.raises(EncodingError, match=says):
                await env.client.resolve(handle, wrong_deferred, value)
            with pytest.raises(EncodingError, match=says):
                await env.client.send(handle, wrong_channel, value)
        calls = await env.start(wrong_calls, {"id": "7"})
        await env.finish(calls)
        messages = await calls.result()
        places = ("argument 'order' of activity wrong_takes", "the result of activity wrong_gives", "wrong_needs")
        assert [place in message for place, message in zip(places, messages, strict=True)] == [True, True, True]
        assert all(message.endswith("expected Order, not dict") for message in messages)


@pytest.mark.parametrize("kind", [Iterable[int], Generator[int, None, None], list[Iterable[int]]])
def test_what_is_read_once_is_refused_where_it_is_declared(kind: Any) -> None:
    """P10: an Iterable, at any depth: no list given for it could come back as what it was."""
    with pytest.raises(TypeError, match=r"read once: declare a list, as in list\[int\]"):
        Codec(kind, "argument 'items' of activity pack")


@pytest.mark.parametrize("kind", [AsyncIterable[int], Iterator[int], list[Iterator[int]], OSError])
def test_what_has_no_stored_form_is_refused_where_it_is_declared(kind: Any) -> None:
    """P10: in words of the author's own, not of how a library finds out."""
    with pytest.raises(TypeError, match=r"^argument 'items' of activity pack: .*it has no form in JSON") as refused:
        Codec(kind, "argument 'items' of activity pack")
    assert "pydantic-core" not in str(refused.value)
