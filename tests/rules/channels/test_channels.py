"""Channels: many values from outside under one name, in their order, each received once."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from engine import AlreadyEnded, Channel, Deferred, InvalidInput, UnknownDeferred, Workflow, workflow
from engine.ground.names import MAX_KEY
from engine.testing import Environment
from tests.support.mortal import do, everywhere, inputs, rest

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

numbers = Channel("channels.numbers", int)
words = Channel("channels.words", str)
other = Deferred("channels.other", int)
LAST = 99


@workflow
async def takes_numbers() -> list[int]:
    taken = []
    async for number in numbers:
        if number == LAST:
            break
        taken.append(number)
        await do(str(number))
    return taken


@workflow
async def takes_of_two() -> list[Any]:
    return [await words.receive(), await numbers.receive(), await words.receive(), await numbers.receive()]


@workflow
async def takes_or_gives_up() -> list[Any]:
    taken: list[Any] = []
    for _ in range(3):
        try:
            taken.append(await asyncio.wait_for(numbers.receive(), 60))
        except TimeoutError:
            taken.append(None)
    return taken


@workflow
async def shares_among_three() -> list[list[int]]:
    return list(await asyncio.gather(*(takes_two() for _ in range(3))))


async def takes_two() -> list[int]:
    return [await numbers.receive(), await numbers.receive()]


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]


@SLOW
async def test_a_channels_values_come_in_order_each_once() -> None:
    """async for, with a suspension between them; two of one value are two; at every crash."""

    async def scenario(env: Environment) -> None:
        id = (await env.start(takes_numbers, key="k")).execution_id
        for value in (3, 1):
            await env.client.send(id, numbers, value)
        await rest(env)
        for value in (1, 2, LAST):
            await env.client.send(id, numbers, value)
            await rest(env)
        assert (await env.finish(id)).value() == [3, 1, 1, 2]
        assert await inputs(env, id) == ["3", "1", "1", "2", "99"]

    await everywhere(ALL, scenario, limit=60)


@SLOW
async def test_two_hundred_values() -> None:
    """Sent before, and while it is driven, under a clock that stands; in the order of their sending."""
    async with Environment(ALL) as env:
        id = await env.start(takes_numbers)
        values = [number % 50 for number in range(200)]
        for value in values[:100]:
            await env.client.send(id, numbers, value)
        driving = asyncio.create_task(env.settle())
        for value in [*values[100:], LAST]:
            await env.client.send(id, numbers, value)
        await driving
        assert (await env.finish(id)).value() == values


async def test_two_channels_are_apart() -> None:
    """Each has its own order."""
    async with Environment(ALL) as env:
        id = await env.start(takes_of_two)
        for channel, value in ((numbers, 1), (numbers, 2), (words, "a"), (words, "b")):
            await env.client.send(id, channel, value)  # type: ignore[misc]
        assert (await env.finish(id)).value() == ["a", 1, "b", 2]


@SLOW
async def test_receivers_at_once_share_the_values() -> None:
    """Six calls, six values: none is lost and none is given twice; at every crash."""

    async def scenario(env: Environment) -> None:
        id = await env.start(shares_among_three, key="k")
        for value in range(6):
            await env.client.send(id, numbers, value)
        assert sorted(itertools.chain(*(await env.finish(id)).value())) == list(range(6))

    await everywhere(ALL, scenario)


async def test_a_receiver_that_gave_up_takes_no_value() -> None:
    """The value that comes after its timeout goes to the next call."""
    async with Environment(ALL) as env:
        id = (await env.start(takes_or_gives_up)).execution_id
        await env.settle()
        await env.client.send(id, numbers, 1)
        assert (await env.finish(id)).value() == [1, None, None]
        id = (await env.start(takes_or_gives_up)).execution_id
        await env.settle()
        execution = await env.store.inner.read(id)
        assert execution.due_at is not None
        env.clock.jump(execution.due_at)
        await env.settle()
        await env.client.send(id, numbers, 2)
        assert (await env.finish(id)).value() == [None, 2, None]


@pytest.mark.parametrize("key", ["k", "a/b?c#d", "x" * MAX_KEY, "y" * 5_000, "🙂" * 40, "\ud800"])
async def test_a_value_with_a_key_is_sent_once(key: str) -> None:
    """A5: again is a success that changes nothing, also after the end; without a key it is another value."""
    async with Environment(ALL) as env:
        id = (await env.start(takes_numbers)).execution_id
        for _ in range(3):
            await env.client.send(id, numbers, 7, key=key)
        await env.settle()
        await env.client.send(id, numbers, 7, key=key)
        await env.client.send(id, numbers, 7, key=f"{key}2")
        await env.client.send(id, numbers, LAST)
        assert (await env.finish(id)).value() == [7, 7]
        assert (await env.client.send(id, numbers, 7, key=key)).is_complete
        with pytest.raises(AlreadyEnded):
            await env.client.send(id, numbers, 7, key=f"{key}3")
        assert all(len(item.id.encode()) <= 1_023 for item in (await env.store.inner.load(id)).inbox)


@pytest.mark.sqlite_only("nothing of it depends on the store")
async def test_wrong_values_and_names_are_refused() -> None:
    """Nothing is stored of them."""
    async with Environment(ALL) as env:
        id = (await env.start(takes_numbers)).execution_id
        with pytest.raises(InvalidInput):
            await env.client.send_json(id, "channels.numbers", '"x"')
        with pytest.raises(UnknownDeferred):
            await env.client.send_json(id, "channels.other", "1")
        assert (await env.store.inner.load(id)).inbox == []
