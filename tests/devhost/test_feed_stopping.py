"""The feed trigger: what a host that stops does with the batch in hand and with its ranges."""

from __future__ import annotations

import asyncio
from typing import Any

from devhost.feed import FeedListener
from devhost.invoke import Invoker
from engine.store.feed import ChangeFeed
from tests.devhost.feed_site import FOREVER, Drive, Failing, Site
from tests.devhost.support import (
    FakeClock,
    MemoryBench,
    feed_function,
    settle,
)


async def test_stopping_waits_for_the_batch_in_hand_and_releases_the_leases(site: Site) -> None:
    for id in ("a", "b"):
        site.bench.put(0, id)
    drive, gate = Drive(), asyncio.Event()
    drive.then = gate.wait
    listener, task = site.start(feed_function(drive.drive, most=1))
    await settle()
    listener.stop()
    await site.clock.advance(60)
    assert not task.done()
    assert (await site.lease()).expires_at > site.clock.now
    gate.set()
    await settle()
    assert task.done()
    assert drive.ids == ["a"]
    leases = await site.bench.open().leases()
    assert [lease.owner for lease in leases] == [None] * 4
    assert leases[0].continuation == "1"


async def test_a_batch_that_fails_while_the_host_stops_is_not_lost(site: Site) -> None:
    site.bench.put(0, "a")
    drive, gate = Drive(), asyncio.Event()

    async def fail_late() -> None:
        await gate.wait()
        raise ValueError("on the way out")

    drive.then = fail_late
    listener, task = site.start(feed_function(drive.drive))
    await settle()
    listener.stop()
    gate.set()
    await settle()
    assert task.done()
    lease = await site.lease()
    assert (lease.owner, lease.continuation) == (None, None)


async def test_stopping_ends_retries_and_leaves_their_batch(site: Site) -> None:
    site.bench.put(0, "a")
    drive = Drive()
    drive.then = Failing(1000)
    listener, task = site.start(feed_function(drive.drive, FOREVER))
    await site.clock.advance(3)
    listener.stop()
    await settle()
    assert task.done()
    lease = await site.lease()
    assert (lease.owner, lease.continuation) == (None, None)


async def test_cancelling_cancels_the_batch_and_releases_the_leases(site: Site) -> None:
    site.bench.put(0, "a")
    drive = Drive()
    drive.then = asyncio.Event().wait
    listener, task = site.start(feed_function(drive.drive))
    await settle()
    listener.stop()
    await settle()
    task.cancel()
    await settle()
    assert task.cancelled()
    leases = await site.bench.open().leases()
    assert [(lease.owner, lease.continuation) for lease in leases] == [(None, None)] * 4


async def test_what_was_read_when_the_host_stops_is_left(clock: FakeClock) -> None:
    bench, gate = MemoryBench(1), asyncio.Event()
    bench.put(0, "a")

    class SlowFeed(MemoryBench):
        async def read(self, range: str, continuation: str | None, limit: int) -> Any:
            await gate.wait()
            return await bench.read(range, continuation, limit)

    async def open_feed() -> ChangeFeed:
        return SlowFeed(1)

    drive, invoker = Drive(), Invoker(clock, None)
    listener = FeedListener(open_feed, feed_function(drive.drive), invoker, clock)
    running = asyncio.ensure_future(listener.run())
    await settle()
    listener.stop()
    gate.set()
    await running
    assert drive.ids == []
    invoker.close()


async def test_a_range_that_another_host_takes_first_does_not_keep_from_the_others(clock: FakeClock) -> None:
    class ContestedFeed(MemoryBench):
        async def leases(self) -> Any:
            seen = await super().leases()
            if seen[0].owner is None:
                await self.renew(seen[0], "faster", clock.now + 1000, None)
            return seen

    async def open_feed() -> ChangeFeed:
        return ContestedFeed(2)

    invoker = Invoker(clock, None)
    listener = FeedListener(open_feed, feed_function(Drive().drive), invoker, clock)
    running = asyncio.ensure_future(listener.run())
    await settle()
    assert listener.ranges == ["1"]
    listener.stop()
    await running
    invoker.close()


async def test_a_host_goes_on_where_the_one_before_stopped(site: Site) -> None:
    site.bench.put(0, "a")
    first, second = Drive(), Drive()
    listener, task = site.start(feed_function(first.drive))
    await settle()
    listener.stop()
    await settle()
    assert task.done()
    site.bench.put(0, "b")
    site.start(feed_function(second.drive))
    await settle()
    assert (first.ids, second.ids) == (["a"], ["b"])
