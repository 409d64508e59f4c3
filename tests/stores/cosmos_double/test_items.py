"""Create, read, replace, delete, and the conditions on them."""

import pytest
from azure.cosmos.aio import ContainerProxy
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue

from .support import DOCS, Raw, bare


async def test_an_item_comes_back_as_it_went_with_system_properties(work: ContainerProxy) -> None:
    body = {"id": "a", "pk": "p", "nested": {"list": [1, "two", None, True, {"x": []}]}, "text": "é😀\u0000"}
    created = await work.create_item(body)
    assert {name for name in created if name.startswith("_")} == {"_rid", "_self", "_etag", "_attachments", "_ts"}
    assert created["_attachments"] == "attachments/"
    assert created["_etag"].startswith('"')
    assert created["_self"].endswith(f"/docs/{created['_rid']}/")
    read = await work.read_item("a", "p")
    assert read == created
    assert bare(read) == body


async def test_system_properties_of_the_client_are_ignored(work: ContainerProxy) -> None:
    created = await work.create_item({"id": "a", "pk": "p", "_etag": "mine", "_ts": 1, "_rid": "x"})
    assert created["_etag"] != "mine"
    assert created["_ts"] > 1


async def test_a_replace_can_not_change_the_id(raw: Raw) -> None:
    await raw.send("POST", DOCS, {"id": "a", "pk": "p"}, pk="p")
    assert (await raw.send("PUT", f"{DOCS}/a", {"id": "b", "pk": "p"}, pk="p")).status == 400


async def test_partition_keys_of_every_type_are_told_apart(work: ContainerProxy) -> None:
    """https://learn.microsoft.com/azure/cosmos-db/partitioning-overview; none, null, true, 1 and "1" all differ."""
    values = {"text": "1", "number": 1, "true": True, "null": None}
    for name, value in values.items():
        await work.create_item({"id": "a", "pk": value, "name": name})
    await work.create_item({"id": "a", "name": "none"})
    for name, value in values.items():
        key = NullPartitionKeyValue if value is None else value
        assert (await work.read_item("a", key))["name"] == name  # type: ignore[arg-type]
    assert (await work.read_item("a", NonePartitionKeyValue))["name"] == "none"
    await work.create_item({"id": "b", "pk": 1.0})
    assert (await work.read_item("b", 1))["id"] == "b"


@pytest.mark.parametrize("pk", [["p"], {"x": 1}])
async def test_a_partition_key_is_a_scalar(raw: Raw, pk: object) -> None:
    assert (await raw.send("POST", DOCS, {"id": "a", "pk": pk}, pk="p")).status == 400


async def test_the_partition_key_header_is_needed_and_checked(raw: Raw) -> None:
    """Recorded on a hosted account (xo/dbimp, docs/COSMOS.md): 400 with sub-status 1001 for both."""
    missing = await raw.send("POST", DOCS, {"id": "a", "pk": "p"})
    other = await raw.send("POST", DOCS, {"id": "a", "pk": "p"}, pk="q")
    many = await raw.send("POST", DOCS, {"id": "a", "pk": "p"}, x_ms_documentdb_partitionkey='["p","q"]')
    nowhere = await raw.send("GET", f"{DOCS}/a")
    for reply in (missing, other, many, nowhere):
        assert (reply.status, reply.substatus) == (400, 1001)
    assert (await raw.send("GET", f"{DOCS}/a", x_ms_documentdb_partitionkey="p")).status == 400


async def test_a_missing_item_is_404_before_it_is_412(raw: Raw) -> None:
    reply = await raw.send("PUT", f"{DOCS}/a", {"id": "a", "pk": "p"}, pk="p", If_Match='"x"')
    assert reply.status == 404
