"""Account, databases, containers, their definitions."""

import pytest

from tests.cosmos_double import CosmosDouble

from .support import Raw

KEY = {"paths": ["/pk"], "kind": "Hash", "version": 2}


async def test_the_account_names_this_endpoint_and_its_consistency(raw: Raw, double: CosmosDouble) -> None:
    """The SDK goes on with the endpoints that this document names."""
    account = (await raw.send("GET", "/")).json
    for locations in ("writableLocations", "readableLocations"):
        assert [location["databaseAccountEndpoint"] for location in account[locations]] == [double.endpoint]
    assert account["userConsistencyPolicy"]["defaultConsistencyLevel"] == "Session"
    assert account["enableMultipleWriteLocations"] is False


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"partitionKey": KEY}, "id"),
        ({"id": "a/b", "partitionKey": KEY}, "id"),
        ({"id": "x"}, "partition key definition is missing"),
        ({"id": "x", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}}, "version 1"),
        ({"id": "x", "partitionKey": {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2}}, "hierarchical"),
        ({"id": "x", "partitionKey": {**KEY, "paths": ["pk"]}}, "start with"),
        ({"id": "x", "partitionKey": KEY, "defaultTtl": 0}, "defaultTtl"),
        ({"id": "x", "partitionKey": KEY, "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/a"]}]}}, "uniqueKeyPolicy"),
        ({"id": "x", "partitionKey": KEY, "indexingPolicy": {"includedPaths": [{"path": "/a/?"}]}}, "mandatory"),
        (
            {"id": "x", "partitionKey": KEY, "indexingPolicy": {"includedPaths": [{"path": "/*"}, {"path": "/a"}]}},
            "end with",
        ),
        ({"id": "x", "partitionKey": KEY, "indexingPolicy": {"compositeIndexes": []}}, "compositeIndexes"),
    ],
)
async def test_a_definition_that_is_wrong_or_not_modelled_is_refused(raw: Raw, definition: dict, reason: str) -> None:
    """The root path rule: https://learn.microsoft.com/azure/cosmos-db/index-policy#include-exclude-paths"""
    reply = await raw.send("POST", "/dbs/app/colls", definition)
    assert reply.status == 400
    assert reason in reply.message


async def test_paths_and_methods_that_do_not_exist_are_refused(raw: Raw) -> None:
    assert (await raw.send("GET", "/apps/x")).status == 400
    assert (await raw.send("GET", "/dbs/app/colls/work/sprocs")).status == 400
    assert (await raw.send("PUT", "/dbs/app/colls/work/docs", {"id": "a"}, pk="p")).status == 405


async def test_errors_have_the_shape_of_the_service(raw: Raw) -> None:
    reply = await raw.send("GET", "/dbs/app/colls/work/docs/none", pk="p", x_ms_activity_id="activity-1")
    assert set(reply.json) == {"code", "message"}
    assert reply.message.startswith('Message: {"Errors":["Entity with the specified id does not exist')
    assert reply.message.endswith("\r\nActivityId: activity-1")
    assert reply.headers["x-ms-activity-id"] == "activity-1"
