"""Transactional batches: https://learn.microsoft.com/azure/cosmos-db/transactional-batch

The expectations of a failed batch are those of the SDK's own tests (test_transactional_batch.py in
Azure/azure-sdk-for-python) and of the recorded exchanges in docs/COSMOS.md of the public repository xo/dbimp.
"""

from typing import Any

import pytest
from azure.cosmos.aio import ContainerProxy
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

from tests.cosmos_double import CosmosDouble

from .support import BATCH, DOCS, Raw


def item(item_id: str, **properties: Any) -> dict[str, Any]:
    return {"id": item_id, "pk": "p", **properties}


async def test_every_operation_in_one_transaction(work: ContainerProxy, double: CosmosDouble) -> None:
    await work.create_item(item("old"))
    kept = await work.create_item(item("kept", n=1))
    results = await work.execute_item_batch(
        [
            ("create", (item("new", n=1),)),
            ("read", ("new",)),
            ("replace", ("kept", item("kept", n=3)), {"if_match_etag": kept["_etag"]}),
            ("patch", ("kept", [{"op": "incr", "path": "/n", "value": 1}]), {"filter_predicate": "FROM c WHERE c.n=3"}),
            ("delete", ("old",)),
        ],
        "p",
    )
    assert [result["statusCode"] for result in results] == [201, 200, 200, 200, 204]
    assert results[1]["resourceBody"] == results[0]["resourceBody"]
    assert results[3]["resourceBody"]["n"] == 4
    assert results[3]["eTag"] == results[3]["resourceBody"]["_etag"]
    assert all(result["requestCharge"] > 0 for result in results)
    stored = double.container("app", "work").documents("p")
    assert {document["id"]: document.get("n") for document in stored} == {"new": 1, "kept": 4}


@pytest.mark.parametrize(
    ("operation", "status"),
    [
        (("create", (item("there"),)), 409),
        (("create", ({"id": "x", "pk": "q"},)), 400),
        (("create", ({"id": "x"},)), 400),
        (("create", ({"pk": "p"},)), 400),
        (("read", ("none",)), 404),
        (("delete", ("none",)), 404),
        (("replace", ("none", item("none"))), 404),
        (("replace", ("there", item("there")), {"if_match_etag": "x"}), 412),
        (("delete", ("there",), {"if_match_etag": "x"}), 412),
        (("patch", ("there", [{"op": "set", "path": "/n", "value": 2}]), {"if_match_etag": "x"}), 412),
        (
            ("patch", ("there", [{"op": "set", "path": "/n", "value": 2}]), {"filter_predicate": "FROM c WHERE c.n=9"}),
            412,
        ),
        (("patch", ("there", [{"op": "incr", "path": "/n", "value": "x"}])), 400),
        (("patch", ("none", [{"op": "set", "path": "/n", "value": 2}])), 404),
    ],
)
async def test_one_failure_fails_all(work: ContainerProxy, double: CosmosDouble, operation: tuple, status: int) -> None:
    await work.create_item(item("there", n=1))
    before = double.container("app", "work").documents()
    lsn = double.container("app", "work").live_range("0").lsn
    with pytest.raises(CosmosBatchOperationError) as caught:
        await work.execute_item_batch([("create", (item("a"),)), operation, ("create", (item("b"),))], "p")
    error = caught.value
    assert (error.status_code, error.error_index) == (status, 1)
    assert [result["statusCode"] for result in error.operation_responses] == [424, status, 424]
    assert double.container("app", "work").documents() == before
    assert double.container("app", "work").live_range("0").lsn == lsn
    assert double.log.count(kind="batch", status=207) == 1


async def test_a_hundred_operations_at_most(work: ContainerProxy) -> None:
    operations = [("create", (item(f"i{number}"),)) for number in range(101)]
    assert len(await work.execute_item_batch(operations[:100], "p")) == 100
    for wrong, text in ((operations, "more operations than what is supported"), ([], "no operations")):
        with pytest.raises(CosmosHttpResponseError, match=text) as caught:
            await work.execute_item_batch(wrong, "p")
        assert caught.value.status_code == 400


@pytest.mark.parametrize(
    "operations",
    [
        {"operationType": "Create"},
        [{"operationType": "Create"}],
        [{"operationType": "Count", "id": "a"}],
        [{"operationType": "Read"}],
        [{"operationType": "Read", "id": "a", "colour": "red"}],
        ["Create"],
    ],
)
async def test_what_is_no_batch_is_refused_as_a_whole(raw: Raw, operations: Any) -> None:
    assert (await raw.send("POST", DOCS, operations, pk="p", **BATCH)).status == 400


async def test_bulk_is_not_a_transaction_and_not_modelled(raw: Raw) -> None:
    operations = [{"operationType": "Create", "resourceBody": item("a")}]
    bulk = {**BATCH, "x_ms_cosmos_batch_atomic": "False"}
    assert (await raw.send("POST", DOCS, operations, pk="p", **bulk)).status == 400
    assert (await raw.send("POST", DOCS, operations, **BATCH)).substatus == 1001


async def test_a_foreign_partition_key_gives_its_sub_status(raw: Raw) -> None:
    operations = [{"operationType": "Create", "resourceBody": {"id": "a", "pk": "q"}}]
    reply = await raw.send("POST", DOCS, operations, pk="p", **BATCH)
    assert (reply.status, reply.substatus, reply.json[0]["statusCode"]) == (207, 1001, 400)


async def test_return_minimal_keeps_what_was_read(raw: Raw) -> None:
    operations = [{"operationType": "Create", "resourceBody": item("a")}, {"operationType": "Read", "id": "a"}]
    reply = await raw.send("POST", DOCS, operations, pk="p", Prefer="return=minimal", **BATCH)
    assert ["resourceBody" in result for result in reply.json] == [False, True]
    assert reply.json[0]["eTag"] == reply.json[1]["eTag"]
