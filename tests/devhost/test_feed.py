"""The feed trigger: order, checkpoints, retries, lost batches."""

from __future__ import annotations

import asyncio

import azure.functions as func
import pytest

from devhost.retry import RetryPolicy
from tests.devhost.feed_site import FOREVER, Drive, Failing, Site
from tests.devhost.support import (
    feed_function,
    settle,
)


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
