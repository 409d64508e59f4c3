"""A deferred and a channel take their type in either spelling: in the call, or in brackets before it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from engine import Channel, Deferred, EncodingError, workflow
from engine.boundary.schemas import schema_of
from engine.testing import Environment


class Paid(BaseModel):
    amount: int


class Shipped(BaseModel):
    parcel: str


spelled_events = Channel[Paid | Shipped]("spelled.events")
spelled_answer = Deferred[Paid]("spelled.answer")


@workflow
async def spelled() -> list[Paid | Shipped]:
    return [await spelled_answer, await spelled_events.receive(), await spelled_events.receive()]


async def test_types_in_brackets_are_kept() -> None:
    """P7: values come back as objects of the type, and others are refused."""
    async with Environment([spelled]) as env:
        handle = await env.start(spelled)
        for wrong in ({"amount": 1}, "paid", None):
            with pytest.raises(EncodingError, match=r"channel spelled.events"):
                await handle.send("spelled.events", wrong)
            with pytest.raises(EncodingError, match=r"deferred spelled.answer"):
                await handle.resolve("spelled.answer", wrong)
        await handle.resolve(spelled_answer, Paid(amount=1))
        await handle.send(spelled_events, Shipped(parcel="a"))
        await handle.send(spelled_events, Paid(amount=2))
        await env.finish(handle)
        assert await handle.result() == [Paid(amount=1), Shipped(parcel="a"), Paid(amount=2)]


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        (Channel[int]("a"), int),
        (Channel("a", int), int),
        (Channel[int]("a", int), int),
        (Channel[int | None]("a"), int | None),
        (Channel[list[Paid]]("a"), list[Paid]),
        (Channel[Any]("a"), Any),
        (Channel("a"), Any),
        (Deferred[None]("a"), None),
        (Deferred[int]("a")["one"], int),
    ],
)
def test_both_spellings_mean_the_same(declared: Channel[Any] | Deferred[Any], kind: Any) -> None:
    """P7: with its schema, and for one of many deferreds of a kind as well."""
    assert declared.type == kind or (kind is None and declared.type is type(None))
    assert schema_of(declared.codec) == schema_of(Channel("a", kind).codec)


async def test_a_type_that_can_t_be_stored_is_refused_where_the_app_is_composed() -> None:
    """P7: in both spellings, at the latest then."""

    class Odd:
        pass

    with pytest.raises(TypeError, match=r"channel spelled.odd: Odd can't be stored"):
        Channel("spelled.odd", Odd)
    odd = Channel[Odd]("spelled.odd")

    @workflow
    async def waits() -> None:
        await odd.receive()

    with pytest.raises(TypeError, match=r"channel spelled.odd: Odd can't be stored"):
        Environment([waits])
