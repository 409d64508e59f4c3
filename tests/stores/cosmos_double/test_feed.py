"""The change feed in latest-version mode: https://learn.microsoft.com/azure/cosmos-db/change-feed-modes"""

from typing import Any

import pytest
from azure.cosmos.aio import ContainerProxy

from tests.cosmos_double import CosmosDouble

from .support import DOCS, Raw, collect

FEED = {"A_IM": "Incremental feed", "x_ms_documentdb_partitionkeyrangeid": "0"}


@pytest.fixture(params=[1, 3])
def ranges(request: pytest.FixtureRequest) -> int:
    return int(request.param)


async def put(work: ContainerProxy, *names: str, pk: str = "p") -> None:
    for name in names:
        await work.create_item({"id": name, "pk": pk})


async def names(feed: Any) -> list[str]:
    return [item["id"] async for item in feed]


async def test_from_the_beginning_in_the_order_of_change(work: ContainerProxy) -> None:
    await put(work, "a", "b", "c")
    await work.replace_item("a", {"id": "a", "pk": "p"})
    await work.delete_item("b", "p")
    found = await collect(work.query_items_change_feed(partition_key="p", start_time="Beginning"))
    assert [item["id"] for item in found] == ["c", "a"]
    assert found[0]["_lsn"] < found[1]["_lsn"]


async def test_a_reader_goes_on_where_it_stopped(work: ContainerProxy) -> None:
    await put(work, "a", "b")
    feed_ranges = await collect(work.read_feed_ranges())
    read = [await first_page(work, feed_range) for feed_range in feed_ranges]
    await put(work, "c")
    found = [name for page, _ in read for name in page]
    for (page, token), feed_range in zip(read, feed_ranges, strict=True):
        options = {"continuation": token} if page else {"feed_range": feed_range, "start_time": "Beginning"}
        found += await names(work.query_items_change_feed(**options))
    assert sorted(found) == ["a", "b", "c"]


async def first_page(work: ContainerProxy, feed_range: dict[str, Any]) -> tuple[list[str], str | None]:
    pager = work.query_items_change_feed(feed_range=feed_range, start_time="Beginning", max_item_count=1).by_page()
    page = [item["id"] async for items in take_one(pager) async for item in items]
    return page, pager.continuation_token  # type: ignore[attr-defined]


async def take_one(pager: Any) -> Any:
    async for page in pager:
        yield page
        return


async def test_the_sdk_can_not_resume_before_every_range_was_read(work: ContainerProxy, ranges: int) -> None:
    """Pins azure-cosmos 4.17: read each feed range by itself, or a token taken early is a ValueError later."""
    for number in range(9):
        await put(work, f"i{number}", pk=f"p{number}")
    pager = work.query_items_change_feed(start_time="Beginning", max_item_count=1).by_page()
    await collect(await anext(pager))
    token = pager.continuation_token  # type: ignore[attr-defined]
    if ranges == 1:
        assert len(await names(work.query_items_change_feed(continuation=token))) == 8
        return
    with pytest.raises(ValueError, match="Missing token"):
        await names(work.query_items_change_feed(continuation=token))


async def test_now_is_now(work: ContainerProxy, raw: Raw, double: CosmosDouble, ranges: int) -> None:
    await put(work, "a")
    part = double.container("app", "work").live_ranges()[0]
    now = await raw.send("GET", DOCS, If_None_Match="*", **FEED)
    assert (now.status, now.json, now.headers["etag"]) == (304, None, f'"{part.lsn}"')
    for number in range(9):
        await put(work, f"i{number}", pk=f"p{number}")
    later = await raw.send("GET", DOCS, If_None_Match=now.headers["etag"], **FEED)
    assert later.status == 200
    assert "a" not in {item["id"] for item in later.json["Documents"]}
    drained = await raw.send("GET", DOCS, If_None_Match=later.headers["etag"], **FEED)
    assert (drained.status, drained.headers["etag"]) == (304, later.headers["etag"])


async def test_items_of_a_transaction_are_not_parted(work: ContainerProxy, raw: Raw) -> None:
    """https://learn.microsoft.com/azure/cosmos-db/nosql/read-change-feed: one page can then exceed the asked size."""
    await work.execute_item_batch([("create", ({"id": name, "pk": "p"},)) for name in "abc"], "p")
    await put(work, "d")
    options = {"A_IM": "Incremental feed", "x_ms_max_item_count": "1"}
    first = await raw.send("GET", DOCS, pk="p", **options)
    assert sorted(item["id"] for item in first.json["Documents"]) == ["a", "b", "c"]
    assert len({item["_lsn"] for item in first.json["Documents"]}) == 1
    second = await raw.send("GET", DOCS, pk="p", If_None_Match=first.headers["etag"], **options)
    assert [item["id"] for item in second.json["Documents"]] == ["d"]


async def test_what_is_no_feed_request_is_refused(raw: Raw) -> None:
    wrong: list[dict[str, str]] = [
        {"A_IM": "Incremental feed"},
        {**FEED, "A_IM": "Full-Fidelity Feed"},
        {**FEED, "If_None_Match": "abc"},
    ]
    for headers in wrong:
        assert (await raw.send("GET", DOCS, **headers)).status == 400
