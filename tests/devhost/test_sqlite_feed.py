"""SqliteFeed over a file with the store's table of documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.store.feed import FeedLease, FeedLeaseLost
from engine.store.sqlite.feed import SqliteFeed
from tests.devhost.support import SqliteBench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[SqliteBench]:
    bench = SqliteBench(tmp_path / "feed.sqlite", 2)
    yield bench
    bench.db.close()


async def test_every_range_has_a_lease_from_the_start(bench: SqliteBench) -> None:
    assert await bench.open().leases() == [FeedLease("0", None, 0, None, "0"), FeedLease("1", None, 0, None, "0")]


async def test_a_renewed_lease_is_what_everyone_sees(bench: SqliteBench) -> None:
    feed = bench.open()
    lease = (await feed.leases())[1]
    taken = await feed.renew(lease, "me", 123.5, "7")
    assert taken == FeedLease("1", "me", 123.5, "7", "1")
    assert (await bench.open().leases())[1] == taken
    released = await feed.renew(taken, None, 0, "8")
    assert (await feed.leases())[1] == released == FeedLease("1", None, 0, "8", "2")


async def test_an_old_version_changes_nothing(bench: SqliteBench) -> None:
    feed = bench.open()
    lease = (await feed.leases())[0]
    taken = await feed.renew(lease, "me", 10, None)
    with pytest.raises(FeedLeaseLost):
        await feed.renew(lease, "late", 20, "9")
    assert (await feed.leases())[0] == taken


async def test_a_feed_object_may_be_the_first_to_renew(bench: SqliteBench) -> None:
    lease = FeedLease("0", None, 0, None, "0")
    assert (await bench.open().renew(lease, "me", 10, None)).owner == "me"


async def test_documents_come_in_order_with_their_sequence_number(bench: SqliteBench) -> None:
    for id in ("a", "b", "c"):
        bench.put(0, id)
    bench.put(1, "other")
    feed = bench.open()
    documents, behind = await feed.read("0", None, 2)
    assert documents == [
        {"id": "a", "executionId": "x", "_etag": "e1", "_lsn": 1},
        {"id": "b", "executionId": "x", "_etag": "e2", "_lsn": 2},
    ]
    assert behind == "2"
    documents, behind = await feed.read("0", behind, 2)
    assert ([document["id"] for document in documents], behind) == (["c"], "3")
    assert await feed.read("0", behind, 2) == ([], "3")
    assert await bench.open().read("0", None, 0) == ([], "0")


async def test_only_the_latest_version_is_handed_over(bench: SqliteBench) -> None:
    bench.put(0, "a")
    bench.put(0, "b")
    bench.put(0, "a")
    documents, _ = await bench.open().read("0", None, 10)
    assert [(document["id"], document["_lsn"]) for document in documents] == [("b", 2), ("a", 3)]


async def test_a_store_that_fails_while_the_table_is_made_leaves_it_to_the_next_call(bench: SqliteBench) -> None:
    feed = bench.open()
    bench.down = True
    with pytest.raises(OSError, match="away"):
        await feed.leases()
    bench.down = False
    assert len(await feed.leases()) == 2


async def test_more_ranges_than_before_get_leases_and_fewer_hide_theirs(bench: SqliteBench) -> None:
    await bench.open().leases()
    assert [lease.range for lease in await SqliteFeed(bench.run, 3).leases()] == ["0", "1", "2"]
    assert [lease.range for lease in await SqliteFeed(bench.run, 1).leases()] == ["0"]
