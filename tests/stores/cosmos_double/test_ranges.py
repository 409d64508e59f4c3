"""Physical partitions, routing, splits:
https://learn.microsoft.com/azure/cosmos-db/partitioning-overview#physical-partitions
"""

import pytest
from azure.cosmos.aio import ContainerProxy

from tests.cosmos_double import CosmosDouble, Split
from tests.cosmos_double.epk import boundaries

from .support import DOCS, Raw, collect, ids

PKRANGES = "/dbs/app/colls/work/pkranges"


@pytest.fixture
def ranges() -> int:
    return 2


def test_boundaries_cover_everything_once():
    for count in (1, 2, 3, 7):
        cuts = boundaries(count)
        assert (cuts[0][0], cuts[-1][1]) == ("", "FF")
        assert all(low < high for low, high in cuts)
        assert [high for _, high in cuts[:-1]] == [low for low, _ in cuts[1:]]


async def test_the_list_of_ranges_is_a_feed(raw: Raw, double: CosmosDouble):
    """The SDK reads it with A-IM until it gets 304, and later only what is new."""
    whole = await raw.send("GET", PKRANGES, A_IM="Incremental Feed")
    assert [(part["id"], part["parents"]) for part in whole.json["PartitionKeyRanges"]] == [("0", []), ("1", [])]
    etag = whole.headers["etag"]
    assert (await raw.send("GET", PKRANGES, A_IM="Incremental Feed", If_None_Match=etag)).status == 304
    double.container("app", "work").split("1")
    news = await raw.send("GET", PKRANGES, A_IM="Incremental Feed", If_None_Match=etag)
    assert [(part["id"], part["parents"]) for part in news.json["PartitionKeyRanges"]] == [("2", ["1"]), ("3", ["1"])]
    full = await raw.send("GET", PKRANGES)
    assert [part["id"] for part in full.json["PartitionKeyRanges"]] == ["0", "2", "3"]


async def test_a_gone_range_is_410_with_its_sub_status(raw: Raw, double: CosmosDouble):
    double.container("app", "work").split("0")
    options = {"x_ms_documentdb_partitionkeyrangeid": "0"}
    for reply in (
        await raw.query("SELECT * FROM c", **options),
        await raw.send("GET", DOCS, A_IM="Incremental Feed", **options),
    ):
        assert (reply.status, reply.substatus) == (410, 1002)


async def test_point_operations_do_not_notice_a_split(work: ContainerProxy, double: CosmosDouble):
    for number in range(8):
        await work.create_item({"id": "a", "pk": f"p{number}"})
    for part in ("0", "1", "2"):
        double.container("app", "work").split(part)
    for number in range(8):
        await work.replace_item("a", {"id": "a", "pk": f"p{number}", "n": number})
        assert (await work.read_item("a", f"p{number}"))["n"] == number
    parts = double.container("app", "work").live_ranges()
    assert len(parts) == 5
    assert sum(len(part.documents) for part in parts) == 8


async def test_a_query_survives_a_split_in_its_middle(work: ContainerProxy, double: CosmosDouble):
    for number in range(12):
        await work.create_item({"id": f"i{number:02}", "pk": f"p{number}"})
    found = []
    async for item in work.query_items("SELECT * FROM c", max_item_count=2):
        found.append(item)
        if len(found) == 3:
            double.container("app", "work").split("0")
    assert ids(found) == [f"i{number:02}" for number in range(12)]


async def test_a_change_feed_survives_a_split_in_its_middle(work: ContainerProxy, double: CosmosDouble):
    """The children go on from the parent's LSN, so the parent's position holds on both."""
    for number in range(12):
        await work.create_item({"id": f"i{number:02}", "pk": f"p{number}"})
    double.faults.add(Split(), kind="feed", nth=2)
    found = await collect(work.query_items_change_feed(start_time="Beginning", max_item_count=2))
    assert ids(found) == [f"i{number:02}" for number in range(12)]
    assert double.log.count(kind="feed", status=410) == 1


async def test_a_split_can_happen_under_a_request(work: ContainerProxy, double: CosmosDouble):
    await work.create_item({"id": "a", "pk": "p"})
    double.faults.add(Split(), kind="item", operation="read")
    assert (await work.read_item("a", "p"))["id"] == "a"
    assert len(double.container("app", "work").live_ranges()) == 3
