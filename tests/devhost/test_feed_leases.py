"""The feed trigger: hosts that share the ranges, and lose or miss them."""

from __future__ import annotations

import asyncio

import pytest

from tests.devhost.feed_site import FOREVER, Drive, Failing, Site
from tests.devhost.support import (
    feed_function,
    settle,
)


async def test_a_dead_host_is_followed_by_another_when_its_lease_expires(site: Site) -> None:
    site.bench.put(0, "a")
    feed = site.bench.open()
    dead = [await feed.renew(lease, "dead", site.clock.now + 15, lease.continuation) for lease in await feed.leases()]
    assert len(dead) == 4
    drive = Drive()
    listener, _ = site.start(feed_function(drive.drive))
    # Alone it may steal its share, one range each turn, but no more than that.
    await site.clock.advance(14)
    assert len(listener.ranges) == 2
    await site.clock.advance(6)
    assert listener.ranges == ["0", "1", "2", "3"]
    assert drive.ids == ["a"]


async def test_a_batch_that_its_host_did_not_finish_comes_again_elsewhere(site: Site) -> None:
    site.bench.put(0, "a")
    first, second = Drive(), Drive()
    first.then = asyncio.Event().wait
    listener, task = site.start(feed_function(first.drive))
    await settle()
    assert first.ids == ["a"]
    # The process dies: nothing of it runs on, and nothing is released.
    site.bench.down = True
    task.cancel()
    await settle()
    assert task.done()
    site.bench.down = False
    assert (await site.lease()).owner is not None

    site.start(feed_function(second.drive))
    await site.clock.advance(20)
    assert second.ids == ["a"]
    assert listener.ranges == []


async def test_two_hosts_share_the_ranges_and_lose_nothing(site: Site) -> None:
    one, two = Drive(), Drive()
    first, _ = site.start(feed_function(one.drive))
    await site.clock.advance(10)
    assert len(first.ranges) == 4
    second, task = site.start(feed_function(two.drive))
    await site.clock.advance(30)
    assert (len(first.ranges), len(second.ranges)) == (2, 2)
    assert sorted(first.ranges + second.ranges) == ["0", "1", "2", "3"]

    for n in range(12):
        site.bench.put(n % 4, f"d{n}")
    await site.clock.advance(5)
    assert sorted(one.ids + two.ids) == sorted(f"d{n}" for n in range(12))
    assert one.ids
    assert two.ids

    second.stop()
    await settle()
    assert task.done()
    await site.clock.advance(5)
    assert len(first.ranges) == 4


async def test_two_hosts_that_start_at_once_end_in_a_fair_share(site: Site) -> None:
    hosts = [site.start(feed_function(Drive().drive))[0] for _ in range(2)]
    await site.clock.advance(30)
    assert [len(host.ranges) for host in hosts] == [2, 2]


async def test_a_host_whose_lease_was_taken_stops_reading_and_writes_nothing(site: Site) -> None:
    site.bench.put(0, "a")
    site.bench.put(0, "b")
    drive, gate = Drive(), asyncio.Event()
    drive.then = gate.wait
    listener, _ = site.start(feed_function(drive.drive, most=1))
    await settle()
    feed = site.bench.open()
    await feed.renew(await site.lease(), "thief", site.clock.now + 1000, None)
    gate.set()
    await settle()
    assert drive.ids == ["a"]
    lease = await site.lease()
    assert (lease.owner, lease.continuation) == ("thief", None)
    assert listener.ranges == ["1", "2", "3"]


async def test_a_lost_lease_ends_the_retries(site: Site) -> None:
    site.bench.put(0, "a")
    drive = Drive()
    drive.then = Failing(1000)
    listener, _ = site.start(feed_function(drive.drive, FOREVER))
    await site.clock.advance(2)
    assert len(drive.batches) == 3
    await site.bench.open().renew(await site.lease(), "thief", site.clock.now + 1000, None)
    await site.clock.advance(5)
    attempts = len(drive.batches)
    await site.clock.advance(30)
    assert len(drive.batches) == attempts
    assert "0" not in listener.ranges
    assert (await site.lease()).continuation is None


async def test_a_range_is_never_read_twice_in_one_host(site: Site) -> None:
    site.bench.put(0, "a")
    drive, gate = Drive(), asyncio.Event()
    drive.then = gate.wait
    listener, _ = site.start(feed_function(drive.drive))
    await settle()
    # Someone takes the lease and gives it back, while the batch is still running here.
    feed = site.bench.open()
    taken = await feed.renew(await site.lease(), "thief", site.clock.now + 1000, None)
    await feed.renew(taken, None, 0, None)
    await site.clock.advance(60)
    assert drive.batches == [["a"]]
    gate.set()
    await site.clock.advance(10)
    assert drive.batches == [["a"], ["a"]]
    assert listener.ranges == ["0", "1", "2", "3"]
    assert (await site.lease()).continuation == "1"


async def test_a_store_that_is_away_is_waited_for(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.bench.put(0, "a")
    site.bench.down = True
    drive = Drive()
    _, task = site.start(feed_function(drive.drive))
    await site.clock.advance(100)
    assert not task.done()
    site.bench.down = False
    await site.clock.advance(31)
    assert drive.ids == ["a"]

    site.bench.down = True
    await site.clock.advance(100)
    site.bench.down = False
    site.bench.put(0, "b")
    await site.clock.advance(31)
    assert drive.ids == ["a", "b"]
    assert not task.done()
    assert "the store is away" in caplog.text


async def test_a_lease_that_cannot_be_renewed_is_given_up_when_it_expires(site: Site) -> None:
    site.bench.put(0, "a")
    drive = Drive()
    drive.then = Failing(1000)
    site.start(feed_function(drive.drive, FOREVER))
    await settle()
    site.bench.down = True
    await site.clock.advance(15)
    attempts = len(drive.batches)
    await site.clock.advance(100)
    assert len(drive.batches) == attempts


async def test_a_checkpoint_that_fails_is_made_up_for(site: Site) -> None:
    site.bench.put(0, "a")
    drive = Drive()

    async def cut_off() -> None:
        site.bench.down = True

    drive.then = cut_off
    site.start(feed_function(drive.drive))
    await settle()
    site.bench.down = False
    drive.then = None
    await site.clock.advance(5)
    assert (await site.lease()).continuation == "1"
    assert drive.ids == ["a"]
