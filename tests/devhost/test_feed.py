"""The feed trigger: order, checkpoints, retries, lost batches, and sharing ranges between hosts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest

from devhost.feed import FeedListener
from devhost.functions import Function
from devhost.invoke import Invoker
from devhost.retry import RetryPolicy
from engine.store.feed import ChangeFeed
from tests.devhost.support import (
    Bench,
    FakeClock,
    MemoryBench,
    SqliteBench,
    feed_function,
    settle,
)

FOREVER = RetryPolicy(None, 1, 1)


@pytest.fixture(params=["memory", "sqlite"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "memory":
        yield MemoryBench(4)
    else:
        bench = SqliteBench(tmp_path / "feed.sqlite", 4)
        yield bench
        bench.db.close()


class Drive:
    """The feed function of one host: notes the ids it is given, and does what `then` says."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.then: Callable[[], Any] | None = None

    async def drive(self, documents: func.DocumentList) -> None:
        self.batches.append([document["id"] for document in documents])
        if self.then is not None:
            await self.then()

    @property
    def ids(self) -> list[str]:
        return [id for batch in self.batches for id in batch]


class Site:
    """Starts hosts on one feed."""

    def __init__(self, bench: Bench, clock: FakeClock) -> None:
        self.bench, self.clock = bench, clock
        self.invoker = Invoker(clock, None)
        self.hosts: list[tuple[FeedListener, asyncio.Task[None]]] = []

    def start(self, function: Function) -> tuple[FeedListener, asyncio.Task[None]]:
        async def open_feed() -> ChangeFeed:
            if self.bench.down:
                raise OSError("the store is away")
            return self.bench.open()

        listener = FeedListener(open_feed, function, self.invoker, self.clock)
        task = asyncio.create_task(listener.run())
        self.hosts.append((listener, task))
        return listener, task

    async def lease(self, range: int = 0) -> Any:
        return (await self.bench.open().leases())[range]

    async def checkpoints(self) -> list[str | None]:
        return [lease.continuation for lease in await self.bench.open().leases()]


@pytest.fixture
async def site(bench: Bench, clock: FakeClock) -> AsyncIterator[Site]:
    site = Site(bench, clock)
    yield site
    bench.down = False
    for listener, task in site.hosts:
        listener.stop()
        task.cancel()
    await settle()
    assert all(task.done() for _, task in site.hosts)
    site.invoker.close()


class Failing:
    """Fails that many times."""

    def __init__(self, times: float) -> None:
        self.left = times

    async def __call__(self) -> None:
        if self.left > 0:
            self.left -= 1
            raise ValueError("bad batch")


async def test_a_range_is_read_in_order_in_batches_of_the_right_size(site: Site) -> None:
    for n in range(7):
        site.bench.put(0, f"d{n}")
    drive = Drive()
    site.start(feed_function(drive.drive, most=3))
    await settle()
    assert drive.batches == [["d0", "d1", "d2"], ["d3", "d4", "d5"], ["d6"]]
    assert (await site.lease()).continuation == "7"


async def test_every_range_is_read(site: Site) -> None:
    for n in range(4):
        site.bench.put(n, f"d{n}")
    drive = Drive()
    listener, _ = site.start(feed_function(drive.drive))
    await settle()
    assert sorted(drive.ids) == ["d0", "d1", "d2", "d3"]
    assert listener.ranges == ["0", "1", "2", "3"]


async def test_one_batch_of_a_range_at_a_time_but_ranges_beside_each_other(site: Site) -> None:
    drive, gate = Drive(), asyncio.Event()
    drive.then = gate.wait
    for id, at in (("a1", 0), ("a2", 0), ("b1", 1)):
        site.bench.put(at, id)
    site.start(feed_function(drive.drive, most=1))
    await site.clock.advance(60)
    assert sorted(drive.ids) == ["a1", "b1"]
    gate.set()
    await settle()
    assert sorted(drive.ids) == ["a1", "a2", "b1"]


async def test_news_are_looked_for_after_the_poll_delay(site: Site) -> None:
    drive = Drive()
    site.start(feed_function(drive.drive, poll=2))
    await settle()
    site.bench.put(0, "late")
    await site.clock.advance(1.9)
    assert drive.ids == []
    await site.clock.advance(0.1)
    assert drive.ids == ["late"]


async def test_a_batch_is_checkpointed_only_after_the_function_returned(site: Site) -> None:
    site.bench.put(0, "a")
    drive, gate = Drive(), asyncio.Event()
    drive.then = gate.wait
    site.start(feed_function(drive.drive))
    # Renewals of the lease in the meantime don't write a checkpoint either.
    await site.clock.advance(60)
    assert drive.ids == ["a"]
    assert (await site.lease()).continuation is None
    gate.set()
    await settle()
    assert (await site.lease()).continuation == "1"


async def test_a_failed_batch_without_a_policy_is_lost(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.bench.put(0, "a")
    site.bench.put(0, "b")
    drive = Drive()
    drive.then = Failing(1)
    site.start(feed_function(drive.drive, most=1))
    await site.clock.advance(60)
    assert drive.batches == [["a"], ["b"]]
    assert (await site.lease()).continuation == "2"
    assert "1 documents of range 0 are lost, as on the platform" in caplog.text
    assert "ValueError: bad batch" in caplog.text


async def test_a_policy_runs_the_same_batch_again_while_the_lease_is_kept(site: Site) -> None:
    for id in ("a", "b"):
        site.bench.put(0, id)
    drive = Drive()
    drive.then = Failing(40)
    site.start(feed_function(drive.drive, FOREVER, most=1))
    await site.clock.advance(39)
    assert drive.batches == [["a"]] * 40
    lease = await site.lease()
    assert lease.continuation is None
    assert lease.expires_at > site.clock.now
    await site.clock.advance(1)
    assert drive.batches == [["a"]] * 41 + [["b"]]
    assert (await site.lease()).continuation == "2"


async def test_an_exhausted_policy_loses_the_batch(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    for id in ("a", "b"):
        site.bench.put(0, id)
    drive = Drive()
    drive.then = Failing(3)
    site.start(feed_function(drive.drive, RetryPolicy(2, 1, 1), most=1))
    await site.clock.advance(60)
    assert drive.batches == [["a"], ["a"], ["a"], ["b"]]
    assert "are lost" in caplog.text


async def test_each_attempt_gets_the_documents_as_they_were(site: Site) -> None:
    site.bench.put(0, "a")
    seen = []

    async def drive(documents: func.DocumentList) -> None:
        seen.append(documents[0].to_dict())
        documents[0]["id"] = "spoiled"
        if len(seen) == 1:
            raise ValueError("again")

    site.start(feed_function(drive, FOREVER))
    await site.clock.advance(1)
    assert seen[0] == seen[1]
    assert seen[0]["id"] == "a"
    assert seen[0]["_lsn"] == 1


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
