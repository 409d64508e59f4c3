"""An inbox of thousands of values: the work grows with their number, others run meanwhile, and the lease is kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from engine import Channel, workflow
from engine.driving import lease
from engine.driving.inbox import Inbox
from engine.store.documents import InboxItem
from engine.testing import Environment, ManualClock

numbers = Channel("large.numbers", int)
NOW = ManualClock().now()


@workflow
async def adds_up(count: int) -> int:
    return sum([await numbers.receive() for _ in range(count)])


def item(number: int) -> InboxItem:
    return InboxItem.of("channel", "0" * 32, "c", NOW, str(number), one_of_many=str(number), position=number)


class Taken(set[str]):
    """Counts how often it is asked."""

    asked = 0

    def __contains__(self, id: object) -> bool:
        Taken.asked += 1
        return super().__contains__(id)


@pytest.mark.parametrize("count", [100, 3_000])
def test_the_next_value_is_found_without_a_walk(count: int) -> None:
    """N1: two questions for each value, however many there are."""
    inbox, taken, found = Inbox(), Taken(), []  # type: ignore[var-annotated]
    for number in reversed(range(count)):
        inbox.add(item(number))
        inbox.add(item(number))
    Taken.asked = 0
    while (value := inbox.next_value("c", taken)) is not None:
        assert len(found) < count
        taken.add(value.id)
        found.append(value.value)
    assert found == [str(number) for number in range(count)]
    assert Taken.asked <= 2 * count


async def test_others_run_and_heartbeats_go_out_while_an_inbox_is_delivered() -> None:
    """N1: the loop comes round between a few events; the clock moves meanwhile, and the lease is extended."""
    count = 5 * lease.EVENTS_AT_A_TIME
    async with Environment([adds_up]) as env:
        env.settings = replace(env.settings, lease=timedelta(seconds=30))
        id = await env.start(adds_up, count)
        for number in range(count):
            await env.client.send(id, numbers, number)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1
                env.clock.advance(timedelta(seconds=4))

        beside = asyncio.create_task(others())
        before = env.store.count("replace")
        status = await env.drive(id)
        beside.cancel()
        assert status.value() == sum(range(count))
        assert turns > 5
        # A heartbeat for each slice. Without them there are two: the claim, and one before the delivery.
        assert env.store.count("replace") - before >= count / lease.EVENTS_AT_A_TIME
