"""Queries through the SDK and by raw HTTP: one partition, many partitions, pages, indexes.

The gateway's part is described in
https://learn.microsoft.com/rest/api/cosmos-db/querying-cosmosdb-resources-using-the-rest-api; what is said of a
hosted account was recorded by the public repository xo/dbimp (docs/COSMOS.md).
"""

import json
from typing import Any

import pytest
from azure.cosmos.aio import ContainerProxy
from azure.cosmos.exceptions import CosmosHttpResponseError

from tests.cosmos_double import CosmosDouble, ShortPage

from .support import DOCS, Raw, bare, collect, ids

POLICY = {
    "includedPaths": [{"path": "/n/?"}, {"path": "/deep/*"}],
    "excludedPaths": [{"path": "/*"}, {"path": "/deep/no/?"}],
}


@pytest.fixture(params=[1, 4])
def ranges(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
async def items(work: ContainerProxy) -> list[dict[str, Any]]:
    return [await work.create_item({"id": f"i{n:02}", "pk": f"p{n % 5}", "n": n, "m": n % 3}) for n in range(20)]


async def run(work: ContainerProxy, text: str, **options: Any) -> list[Any]:
    return await collect(work.query_items(text, **options))


async def test_one_partition(work: ContainerProxy, items: list) -> None:
    assert ids(await run(work, "SELECT * FROM c", partition_key="p1")) == ["i01", "i06", "i11", "i16"]
    ordered = "SELECT VALUE c.n FROM c WHERE c.n < @high ORDER BY c.n DESC"
    parameters = [{"name": "@high", "value": 12}]
    assert await run(work, ordered, partition_key="p1", max_item_count=2, parameters=parameters) == [11, 6, 1]
    assert await run(work, "SELECT * FROM c", partition_key="none") == []


@pytest.mark.parametrize(
    "parameters",
    [[{"name": "low", "value": 1}], [{"name": "@a", "value": 1}, {"name": "@a", "value": 2}], [{"value": 1}]],
)
async def test_bad_parameters_are_refused(raw: Raw, parameters: Any) -> None:
    reply = await raw.query("SELECT * FROM c", parameters=parameters, pk="p")
    assert reply.status == 400
    assert "arameter name" in reply.message


async def test_across_partitions(work: ContainerProxy, items: list) -> None:
    everything = [item["id"] for item in items]
    assert ids(await run(work, "SELECT * FROM c", max_item_count=3)) == everything
    by_age = "SELECT VALUE c.n FROM c WHERE c.n >= 2 ORDER BY c.n"
    assert await run(work, by_age, max_item_count=2) == list(range(2, 20))
    assert await run(work, f"{by_age} DESC", max_item_count=2) == list(range(19, 1, -1))
    assert await run(work, "SELECT c.n, c.none, c.pk FROM c WHERE c.n = 4") == [{"n": 4, "pk": "p4"}]
    assert await run(work, "SELECT c.id FROM c WHERE c.n < 2 ORDER BY c.n") == [{"id": "i00"}, {"id": "i01"}]


async def test_the_sdk_asks_in_vain_then_plans_then_asks_each_range(
    work: ContainerProxy, items: list, double: CosmosDouble, ranges: int
) -> None:
    """What needs a merge is 400 with sub-status 1004, even with one range, as on a hosted account."""
    double.log.clear()
    await run(work, "SELECT * FROM c ORDER BY c.n")
    kinds = [(entry.kind, entry.status, entry.substatus) for entry in double.log if entry.kind != "pkranges"]
    assert kinds[:2] == [("query", 400, 1004), ("plan", 200, 0)]
    assert [entry.range_id for entry in double.log.select(kind="query", status=200)] == [str(n) for n in range(ranges)]


async def test_the_refusal_holds_the_plan(raw: Raw, items: list) -> None:
    text = "SELECT * FROM c ORDER BY c.n DESC"
    refused = await raw.query(text, x_ms_documentdb_query_enablecrosspartition="True")
    assert (refused.status, refused.substatus) == (400, 1004)
    assert text in refused.message
    planned = await raw.query(
        text, x_ms_cosmos_is_query_plan_request="True", x_ms_cosmos_supported_query_features="OrderBy"
    )
    assert json.loads(refused.json["additionalErrorInfo"]) == planned.json
    info = planned.json["queryInfo"]
    assert (info["orderBy"], info["orderByExpressions"]) == (["Descending"], ["c.n"])
    assert "{documentdb-formattableorderbyquery-filter}" in info["rewrittenQuery"]
    assert planned.json["queryRanges"] == [{"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}]


async def test_a_client_that_can_not_merge_gets_no_plan(raw: Raw) -> None:
    reply = await raw.query("SELECT * FROM c ORDER BY c.n", x_ms_cosmos_is_query_plan_request="True")
    assert reply.status == 400
    assert "Query contained OrderBy" in reply.message


async def test_a_query_across_partitions_must_say_so(raw: Raw) -> None:
    reply = await raw.query("SELECT * FROM c")
    assert reply.status == 400
    assert "Cross partition query is required but disabled" in reply.message


async def test_feed_ranges_need_no_plan_and_can_be_resumed(
    work: ContainerProxy, items: list, double: CosmosDouble, ranges: int
) -> None:
    found: list[list[int]] = []
    double.log.clear()
    async for feed_range in work.read_feed_ranges():
        token = None
        while True:
            options = {"feed_range": feed_range, "max_item_count": 2}
            pager = work.query_items("SELECT * FROM c ORDER BY c.n", **options).by_page(token)  # type: ignore[call-overload]
            async for page in pager:
                found.append([item["n"] async for item in page])
                break
            token = pager.continuation_token
            if token is None:
                break
    assert sorted(n for page in found for n in page) == list(range(20))
    assert all(page == sorted(page) for page in found)
    assert double.log.count(kind="plan") == 0
    assert double.log.count(kind="query", status=400) == 0


async def test_a_page_is_as_large_as_asked_for(raw: Raw, work: ContainerProxy, items: list) -> None:
    sizes = {}
    for asked in ("2", "-1", "0"):
        reply = await raw.query("SELECT * FROM c", pk="p0", x_ms_max_item_count=asked)
        sizes[asked] = len(reply.json["Documents"])
        assert reply.json["_count"] == sizes[asked] == int(reply.headers["x-ms-item-count"])
        assert ("x-ms-continuation" in reply.headers) is (asked == "2")
    assert sizes == {"2": 2, "-1": 4, "0": 4}
    for wrong in ("abc", "-2"):
        assert (await raw.query("SELECT * FROM c", pk="p0", x_ms_max_item_count=wrong)).status == 400


async def test_a_page_has_four_megabytes_at_most(raw: Raw) -> None:
    for number in range(5):
        await raw.send("POST", DOCS, {"id": str(number), "pk": "p", "x": "x" * 1_000_000}, pk="p")
    first = await raw.query("SELECT * FROM c", pk="p")
    assert len(first.json["Documents"]) == 4
    rest = await raw.query("SELECT * FROM c", pk="p", x_ms_continuation=first.headers["x-ms-continuation"])
    assert len(rest.json["Documents"]) == 1


async def test_continuation_tokens_belong_to_their_query(raw: Raw, items: list) -> None:
    first = await raw.query("SELECT * FROM c", pk="p0", x_ms_max_item_count="1")
    token = first.headers["x-ms-continuation"]
    for text, other in (
        ("SELECT * FROM c WHERE c.n > 1", token),
        ("SELECT * FROM c", "bm9uZQ=="),
        ("SELECT * FROM c", "x"),
    ):
        reply = await raw.query(text, pk="p0", x_ms_continuation=other)
        assert reply.status == 400
        assert "Invalid Continuation Token" in reply.message


async def test_pages_go_on_by_position_while_items_change(work: ContainerProxy, items: list) -> None:
    """A page is not a snapshot: what is inserted behind the position is missed, what comes after it is seen."""
    pager = work.query_items("SELECT VALUE c.n FROM c ORDER BY c.n", partition_key="p0", max_item_count=2).by_page()
    assert [n async for n in await anext(pager)] == [0, 5]  # type: ignore[comparison-overlap]
    await work.create_item({"id": "early", "pk": "p0", "n": 1})
    await work.create_item({"id": "late", "pk": "p0", "n": 11})
    await work.delete_item("i05", "p0")
    assert [n async for page in pager async for n in page] == [10, 11, 15]  # type: ignore[comparison-overlap]


async def test_an_empty_page_need_not_be_the_last(work: ContainerProxy, items: list, double: CosmosDouble) -> None:
    double.faults.add(ShortPage(0), kind="query", nth=2)
    pager = work.query_items("SELECT VALUE c.n FROM c ORDER BY c.n", partition_key="p0", max_item_count=3)
    assert await collect(pager) == [0, 5, 10, 15]
    assert [entry.items for entry in double.log.select(kind="query")] == [3, 0, 1]


async def test_order_without_order_by_is_not_the_order_of_insertion(work: ContainerProxy, items: list) -> None:
    found = [item["n"] for item in await run(work, "SELECT * FROM c", partition_key="p0")]
    assert sorted(found) == [0, 5, 10, 15]
    assert found != sorted(found)


async def test_values_sort_by_type_with_undefined_first(work: ContainerProxy) -> None:
    """https://learn.microsoft.com/azure/cosmos-db/nosql/query/order-by: items without the property are returned."""
    values = ["b", "a", 2, 1.5, True, False, None, [1], {"x": 1}]
    for number, value in enumerate(values):
        await work.create_item({"id": str(number), "pk": "p", "n": value})
    await work.create_item({"id": "none", "pk": "p"})
    found = await run(work, "SELECT * FROM c ORDER BY c.n", partition_key="p")
    assert [item.get("n", "missing") for item in found] == [
        *("missing", None, False, True, 1.5, 2, "a", "b", [1], {"x": 1})
    ]


@pytest.mark.parametrize(
    ("order", "served"),
    [
        ("c.n", True),
        ("c.n DESC", True),
        ("c.id", True),
        ("c._ts", True),
        ("c.deep.x", True),
        ("c.m", False),
        ("c.pk", False),
        ("c.deep", False),
        ("c.deep.no", False),
    ],
)
async def test_order_by_needs_an_index(raw: Raw, double: CosmosDouble, order: str, served: bool) -> None:
    """https://learn.microsoft.com/azure/cosmos-db/index-policy: the partition key is not indexed by itself."""
    double.add_container("app", "picky", indexing_policy=POLICY)
    path = "/dbs/app/colls/picky/docs"
    await raw.send("POST", path, {"id": "a", "pk": "p", "n": 1, "m": 1}, pk="p")
    reply = await raw.query(f"SELECT * FROM c ORDER BY {order}", path=path, pk="p")
    assert reply.status == (200 if served else 400)
    if not served:
        assert "excluded" in reply.message


async def test_an_error_of_a_query_shows_the_query(work: ContainerProxy) -> None:
    with pytest.raises(CosmosHttpResponseError) as caught:
        await run(work, "SELECT * FROM c WHERE c.x LIKE 'a%'", partition_key="p")
    assert "SELECT * FROM c WHERE c.x LIKE 'a%'" in str(caught.value)
    assert "SC1001" in str(caught.value)


async def test_a_query_is_a_query_by_its_content_type(raw: Raw, items: list) -> None:
    """Recorded on a hosted account: with application/json the gateway takes the body for an item."""
    body = {"query": "SELECT * FROM c"}
    reply = await raw.send("POST", DOCS, body, pk="p0", Content_Type="application/query+json")
    assert len(reply.json["Documents"]) == 4
    assert bare(reply.json["Documents"][0])["pk"] == "p0"
    reply = await raw.send("POST", DOCS, body, pk="p0", x_ms_documentdb_isquery="True")
    assert reply.status == 400
    assert "'id; '" in reply.message
