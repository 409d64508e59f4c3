"""Time to live: https://learn.microsoft.com/azure/cosmos-db/nosql/time-to-live"""

import pytest
from azure.cosmos.aio import ContainerProxy, CosmosClient
from azure.cosmos.exceptions import CosmosResourceNotFoundError

from tests.cosmos_double import CosmosDouble

from .support import DOCS, Raw, collect, ids


def container(double: CosmosDouble, client: CosmosClient, default_ttl: int | None) -> ContainerProxy:
    double.add_container("app", "ttl", default_ttl=default_ttl)
    return client.get_database_client("app").get_container_client("ttl")


@pytest.mark.parametrize(
    ("default_ttl", "alive"),
    [
        (None, ["forever", "plain", "short"]),
        (-1, ["forever", "plain"]),
        (5, ["forever"]),
        (60, ["forever", "plain"]),
    ],
)
async def test_the_table_of_the_page(double: CosmosDouble, client: CosmosClient, default_ttl: int | None, alive: list):
    """Without a default of the container, a ttl of an item means nothing."""
    things = container(double, client, default_ttl)
    await things.create_item({"id": "plain", "pk": "p"})
    await things.create_item({"id": "short", "pk": "p", "ttl": 10})
    await things.create_item({"id": "forever", "pk": "p", "ttl": -1})
    double.clock.advance(20)
    assert ids(await collect(things.query_items("SELECT * FROM c", partition_key="p"))) == alive


async def test_it_counts_from_the_last_write_and_ends_sharply(double: CosmosDouble, work: ContainerProxy):
    double.clock.freeze(1_800_000_000.9)
    created = await work.create_item({"id": "a", "pk": "p", "ttl": 10})
    assert created["_ts"] == 1_800_000_000
    double.clock.advance(9)
    await work.patch_item("a", "p", [{"op": "set", "path": "/n", "value": 1}])
    double.clock.advance(9)
    assert (await work.read_item("a", "p"))["n"] == 1
    double.clock.advance(1)
    with pytest.raises(CosmosResourceNotFoundError):
        await work.read_item("a", "p")
    await work.create_item({"id": "a", "pk": "p"})


@pytest.mark.parametrize("ttl", [0, -2, 1.5, "10", True, None, 2**31])
async def test_bad_values_are_refused(raw: Raw, ttl: object):
    reply = await raw.send("POST", DOCS, {"id": "a", "pk": "p", "ttl": ttl}, pk="p")
    assert reply.status == 400
    assert "ttl" in reply.message
