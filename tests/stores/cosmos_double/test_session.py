"""Session tokens and stale reads: https://learn.microsoft.com/azure/cosmos-db/consistency-levels#session-consistency"""

import pytest
from azure.cosmos.aio import ContainerProxy, CosmosClient
from azure.cosmos.exceptions import CosmosResourceNotFoundError

from tests.cosmos_double import CosmosDouble, StaleRead

from .support import DOCS, Raw


async def write(raw: Raw, n: int, pk: str = "p") -> str:
    """Write version n of an item; the session token of that write."""
    body = {"id": "a", "pk": pk, "n": n}
    reply = await raw.send("PUT", f"{DOCS}/a", body, pk=pk)
    if reply.status == 404:
        reply = await raw.send("POST", DOCS, body, pk=pk)
    return reply.headers["x-ms-session-token"]


async def test_tokens_rise_with_writes_and_come_with_errors(raw: Raw) -> None:
    first, second = await write(raw, 1), await write(raw, 2)
    assert int(second.split("#")[1]) == int(first.split("#")[1]) + 1
    for reply in (await raw.send("GET", f"{DOCS}/none", pk="p"), await raw.send("GET", f"{DOCS}/a", pk="p")):
        assert reply.headers["x-ms-session-token"] == second


async def test_a_stale_replica_answers_what_it_has(raw: Raw, double: CosmosDouble) -> None:
    tokens = [await write(raw, n) for n in range(5)]
    double.faults.add(StaleRead(behind=3), kind="item", times=None)
    stale = await raw.send("GET", f"{DOCS}/a", pk="p")
    assert (stale.json["n"], stale.headers["x-ms-session-token"]) == (1, tokens[1])


async def test_a_stale_replica_is_never_behind_the_token(raw: Raw, double: CosmosDouble) -> None:
    tokens = [await write(raw, n) for n in range(5)]
    double.faults.add(StaleRead(behind=3), times=None)
    for n, token in enumerate(tokens):
        found = (await raw.send("GET", f"{DOCS}/a", pk="p", x_ms_session_token=token)).json["n"]
        assert found == max(n, 1)
        page = await raw.query("SELECT VALUE c.n FROM c", pk="p", x_ms_session_token=token)
        assert page.json["Documents"] == [max(n, 1)]


async def test_an_older_view_shows_deleted_items_and_misses_new_ones(raw: Raw, double: CosmosDouble) -> None:
    await write(raw, 1)
    await raw.send("DELETE", f"{DOCS}/a", pk="p")
    await raw.send("POST", DOCS, {"id": "b", "pk": "p"}, pk="p")
    double.faults.add(StaleRead(behind=2), kind="query")
    stale = await raw.query("SELECT VALUE c.id FROM c", pk="p")
    fresh = await raw.query("SELECT VALUE c.id FROM c", pk="p")
    assert (stale.json["Documents"], fresh.json["Documents"]) == (["a"], ["b"])


async def test_a_stale_feed_ends_earlier_and_loses_nothing(raw: Raw, double: CosmosDouble) -> None:
    for n in range(3):
        await write(raw, n, pk=f"p{n}")
    options = {"A_IM": "Incremental Feed", "x_ms_documentdb_partitionkeyrangeid": "0"}
    double.faults.add(StaleRead(behind=1), kind="feed")
    first = await raw.send("GET", DOCS, **options)
    second = await raw.send("GET", DOCS, If_None_Match=first.headers["etag"], **options)
    assert [[item["n"] for item in reply.json["Documents"]] for reply in (first, second)] == [[0, 1], [2]]


async def test_a_token_from_the_future_is_not_available_yet(raw: Raw) -> None:
    token = await write(raw, 1)
    ahead = f"0:-1#{int(token.split('#')[1]) + 1}"
    reply = await raw.send("GET", f"{DOCS}/a", pk="p", x_ms_session_token=ahead)
    assert (reply.status, reply.substatus) == (404, 1002)
    assert (await raw.send("GET", f"{DOCS}/a", pk="p", x_ms_session_token="nonsense")).status == 400


async def test_the_sdk_forgets_the_token_of_a_batch(work: ContainerProxy, double: CosmosDouble) -> None:
    """Pins azure-cosmos 4.17: a batch does not move the client's session, so its token has to be handed on."""
    await work.create_item({"id": "first", "pk": "p"})
    results = await work.execute_item_batch([("create", ({"id": "a", "pk": "p"},))], "p")
    double.faults.add(StaleRead(behind=1), times=None)
    with pytest.raises(CosmosResourceNotFoundError):
        await work.read_item("a", "p")
    token = results.get_response_headers()["x-ms-session-token"]
    assert (await work.read_item("a", "p", session_token=token))["id"] == "a"


async def test_staleness_has_the_length_of_the_undo_log(raw: Raw) -> None:
    async with CosmosDouble(history=2) as double, CosmosClient(double.endpoint, double.key) as client:
        double.add_container("app", "work")
        work = client.get_database_client("app").get_container_client("work")
        await work.create_item({"id": "a", "pk": "p", "n": 0})
        for n in range(1, 6):
            await work.replace_item("a", {"id": "a", "pk": "p", "n": n})
        double.faults.add(StaleRead(behind=100), times=None)
        async with CosmosClient(double.endpoint, double.key) as other:
            stranger = other.get_database_client("app").get_container_client("work")
            assert (await stranger.read_item("a", "p"))["n"] == 3
