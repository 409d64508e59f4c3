"""The change feed pulled through the SDK: ranges, leases, pages, splits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine.ground.errors import Unavailable
from engine.store.cosmos.store import CosmosStore
from engine.store.feed import ChangeFeed, FeedLeaseLost
from tests.cosmos_double import Answer, CosmosDouble, Drop, Split, StaleRead
from tests.cosmos_double.state import Container
from tests.stores.cosmos.support import NOW, chunk, claimed, execution, item


@pytest.fixture
def ranges() -> int:
    return 3


@pytest.fixture
def feed(store: CosmosStore) -> ChangeFeed:
    return store.change_feed()


async def drain(feed: ChangeFeed, range: str, start: str | None = None, limit: int = 100) -> tuple[list[Any], str]:
    """Everything of a range from a continuation on, page by page."""
    found: list[Any] = []
    while True:
        documents, behind = await feed.read(range, start or None, limit)
        if not documents:
            return found, behind
        found += documents
        start = behind


async def everything(feed: ChangeFeed, starts: dict[str, str] | None = None) -> tuple[list[Any], dict[str, str]]:
    found, behind = list[Any](), dict[str, str]()
    for lease in await feed.leases():
        documents, behind[lease.range] = await drain(feed, lease.range, (starts or {}).get(lease.range))
        found += documents
    return found, behind


def ids(documents: list[Any]) -> list[str]:
    return sorted(d["executionId"] for d in documents)


async def test_each_physical_partition_is_a_range_that_nobody_reads(feed: ChangeFeed) -> None:
    leases = await feed.leases()
    assert [lease.range for lease in leases] == ["0", "1", "2"]
    assert {(lease.owner, lease.expires_at, lease.continuation) for lease in leases} == {(None, 0, None)}


async def test_hosts_share_the_leases(feed: ChangeFeed, new_store: Callable[..., CosmosStore]) -> None:
    other = new_store().change_feed()
    both = await asyncio.gather(feed.leases(), other.leases())
    assert both[0] == both[1]
    taken = await feed.renew(both[0][1], "me", 12.5, "here")
    assert (taken.owner, taken.expires_at, taken.continuation) == ("me", 12.5, "here")
    assert (await other.leases())[1] == taken
    with pytest.raises(FeedLeaseLost):
        await other.renew(both[1][1], "other", 12.5, None)
    free = await feed.renew(taken, None, 0, "there")
    assert (await other.leases())[1] == free
    assert free.owner is None


@pytest.mark.parametrize("after_effect", [False, True])
async def test_a_lease_survives_a_lost_answer(feed: ChangeFeed, double: CosmosDouble, after_effect: bool) -> None:
    lease = (await feed.leases())[0]
    double.faults.add(Drop(after_effect=after_effect), kind="item", operation="replace", times=2)
    taken = await feed.renew(lease, "me", 1.0, None)
    assert (await feed.leases())[0] == taken


async def test_every_document_comes_in_its_latest_version(store: CosmosStore, feed: ChangeFeed) -> None:
    for n in range(20):
        await store.create(execution(n))
    await store.append(chunk(of=3))
    await store.replace(claimed(await store.read(execution(3).execution_id)))
    documents, behind = await everything(feed)
    assert ids(documents) == sorted([execution(n).execution_id for n in range(20)] + [execution(3).execution_id])
    (exec3,) = (d for d in documents if d["executionId"] == execution(3).execution_id and d["id"] == "exec")
    assert exec3["worker"] == "me"
    assert {"_etag", "_lsn"} <= exec3.keys()
    again, behind = await everything(feed, behind)
    assert again == []
    await store.signal(item(of=5), NOW)
    news, _ = await everything(feed, behind)
    assert sorted(d["id"] for d in news) == ["deferred::approval", "exec"]


async def test_a_page_that_was_not_checkpointed_comes_again(store: CosmosStore, feed: ChangeFeed) -> None:
    for n in range(20):
        await store.create(execution(n))
    first, behind = await feed.read("0", None, 2)
    again, same = await feed.read("0", None, 2)
    assert (again, same) == (first, behind)
    assert len(first) == 2
    rest, _ = await drain(feed, "0", behind)
    assert not set(ids(first)) & set(ids(rest))


async def test_nothing_yet(feed: ChangeFeed) -> None:
    await feed.leases()
    documents, behind = await feed.read("0", None, 10)
    assert documents == []
    assert await feed.read("0", behind or None, 10) == ([], behind)


async def test_ranges_are_read_at_the_same_time(store: CosmosStore, feed: ChangeFeed) -> None:
    """A continuation is of the range that it was asked for, whatever else the client was answered meanwhile."""
    for n in range(60):
        await store.create(execution(n))
    await feed.leases()
    drained = await asyncio.gather(*(drain(feed, r, limit=3) for r in "012"), feed.leases(), feed.leases())
    found = [document for documents, _ in drained[:3] for document in documents]  # type: ignore[union-attr]
    assert ids(found) == sorted(execution(n).execution_id for n in range(60))
    for (documents, behind), r in zip(drained[:3], "012", strict=True):
        assert documents
        assert await feed.read(r, behind, 10) == ([], behind)  # type: ignore[arg-type]


@pytest.mark.parametrize("started", [False, True])
async def test_a_split_loses_nothing(
    store: CosmosStore, feed: ChangeFeed, container: Container, started: bool, new_store: Callable[..., CosmosStore]
) -> None:
    for n in range(30):
        await store.create(execution(n))
    await feed.leases()
    before, behind = await everything(feed) if started else ([], {})
    container.split("0")
    container.split("1")
    for n in range(30, 60):
        await store.create(execution(n))
    after, behind = await everything(feed, behind)
    assert ids(before + after) == sorted(execution(n).execution_id for n in range(60))
    assert len(await feed.leases()) == 3
    for n in range(60, 90):
        await store.create(execution(n))
    other = new_store().change_feed()
    more, behind = await everything(other, behind)
    assert ids(more) == sorted(execution(n).execution_id for n in range(60, 90))
    container.split()
    assert (await everything(other, behind))[0] == []


async def test_a_split_at_the_first_page_loses_nothing(
    store: CosmosStore, feed: ChangeFeed, double: CosmosDouble, caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK's own continuation is then one that it can't read."""
    for n in range(30):
        await store.create(execution(n))
    await feed.leases()
    double.faults.add(Split(), kind="feed")
    found, behind = await drain(feed, "0", limit=2)
    for number in "12":
        found += (await drain(feed, number))[0]
    assert set(ids(found)) == {execution(n).execution_id for n in range(30)}
    assert (await feed.read("0", behind, 2))[0] == []
    assert "from its beginning again" in caplog.text


async def test_a_host_that_comes_after_a_split_reads_the_ranges_of_the_first(
    store: CosmosStore, feed: ChangeFeed, container: Container, new_store: Callable[..., CosmosStore]
) -> None:
    await feed.leases()
    container.split()
    for n in range(30):
        await store.create(execution(n))
    other = new_store().change_feed()
    assert len(await other.leases()) == 3
    assert ids((await everything(other))[0]) == sorted(execution(n).execution_id for n in range(30))


async def test_a_container_made_anew_begins_at_its_beginning(
    store: CosmosStore, feed: ChangeFeed, double: CosmosDouble, new_store: Callable[..., CosmosStore]
) -> None:
    from tests.stores.cosmos.support import set_up

    await store.create(execution())
    for lease in await feed.leases():
        _, behind = await drain(feed, lease.range)
        await feed.renew(lease, None, 0, behind)
    database = double.account.database("workflows")
    del database.containers["executions"]
    set_up(double)
    other = new_store()
    await other.create(execution(2))
    assert {lease.continuation for lease in await other.change_feed().leases()} == {None}
    assert ids((await everything(other.change_feed()))[0]) == [execution(2).execution_id]


async def test_faults_of_the_feed(store: CosmosStore, feed: ChangeFeed, double: CosmosDouble) -> None:
    await store.create(execution())
    await feed.leases()
    for action in (Answer(429, retry_after_ms=1), Answer(503), Answer(500), Drop(), StaleRead(behind=1)):
        double.faults.add(action, kind="feed")
        assert ids((await everything(feed))[0]) == [execution().execution_id]
    double.faults.add(Answer(429), kind="feed", times=None)
    with pytest.raises(Unavailable, match="change feed"):
        await feed.read("0", None, 10)


async def test_leases_without_their_container(store: CosmosStore, double: CosmosDouble) -> None:
    await store.create(execution())
    del double.account.database("workflows").containers["leases"]
    with pytest.raises(Unavailable, match="container 'leases'"):
        await store.change_feed().leases()
