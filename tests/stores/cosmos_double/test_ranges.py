"""Physical partitions, routing, splits:
https://learn.microsoft.com/azure/cosmos-db/partitioning-overview#physical-partitions
"""

import pytest

from tests.cosmos_double import CosmosDouble
from tests.cosmos_double.epk import boundaries

from .support import DOCS, Raw

PKRANGES = "/dbs/app/colls/work/pkranges"


@pytest.fixture
def ranges() -> int:
    return 2


def test_boundaries_cover_everything_once() -> None:
    for count in (1, 2, 3, 7):
        cuts = boundaries(count)
        assert (cuts[0][0], cuts[-1][1]) == ("", "FF")
        assert all(low < high for low, high in cuts)
        assert [high for _, high in cuts[:-1]] == [low for low, _ in cuts[1:]]


async def test_the_list_of_ranges_is_a_feed(raw: Raw, double: CosmosDouble) -> None:
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


async def test_a_gone_range_is_410_with_its_sub_status(raw: Raw, double: CosmosDouble) -> None:
    double.container("app", "work").split("0")
    options = {"x_ms_documentdb_partitionkeyrangeid": "0"}
    for reply in (
        await raw.query("SELECT * FROM c", **options),
        await raw.send("GET", DOCS, A_IM="Incremental Feed", **options),
    ):
        assert (reply.status, reply.substatus) == (410, 1002)
