"""The part that the double shares with another implementation of the same protocol, @vercel/cosmosdb-server (npm).

One suite of plain CRUD, etags and queries of one partition runs on both. What the other server can't do is left out:
it wants the partition key in the filter too, and doesn't know the batches of this SDK. It
runs only when node is there and COSMOSDB_SERVER_DIR names a folder whose node_modules has the package; nothing is
installed here:

    npm install --prefix "$FOLDER" @vercel/cosmosdb-server
    COSMOSDB_SERVER_DIR="$FOLDER" python -m pytest tests/stores/cosmos_double/test_shared_suite.py
"""

import os
import re
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import PartitionKey
from azure.cosmos.aio import ContainerProxy, CosmosClient
from azure.cosmos.exceptions import (
    CosmosAccessConditionFailedError,
    CosmosHttpResponseError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)

from tests.cosmos_double import WELL_KNOWN_KEY, CosmosDouble

from .support import bare, collect

SERVER = "node_modules/@vercel/cosmosdb-server/lib/cli.js"
ITEMS: list[dict[str, Any]] = [
    {"id": f"i{n}", "pk": "p", "n": n, "name": f"name-{n % 2}", "tags": ["a", f"b{n}"], "flag": n % 2 == 0}
    for n in range(6)
]


class SharedSuite:
    """Subclasses give the `endpoint` fixture."""

    @pytest.fixture
    async def things(self, endpoint: str) -> AsyncIterator[ContainerProxy]:
        async with CosmosClient(endpoint, WELL_KNOWN_KEY) as client:
            database = await client.create_database(f"shared-{uuid.uuid4().hex}")
            yield await database.create_container("things", PartitionKey("/pk"))

    @pytest.fixture
    async def items(self, things: ContainerProxy) -> None:
        for item in ITEMS:
            await things.create_item(item)
        await things.create_item({"id": "i0", "pk": "other", "n": 0})

    async def test_create_read_replace_delete(self, things: ContainerProxy) -> None:
        created = await things.create_item(ITEMS[0])
        assert await things.read_item("i0", "p") == created
        replaced = await things.replace_item("i0", {"id": "i0", "pk": "p", "x": {"y": [1, None]}})
        assert bare(replaced) == {"id": "i0", "pk": "p", "x": {"y": [1, None]}}
        assert replaced["_etag"] != created["_etag"]
        assert (replaced["_rid"], replaced["_self"]) == (created["_rid"], created["_self"])
        await things.delete_item("i0", "p")
        with pytest.raises(CosmosResourceNotFoundError):
            await things.delete_item("i0", "p")

    async def test_conflict_and_not_found(self, things: ContainerProxy) -> None:
        await things.create_item(ITEMS[0])
        with pytest.raises(CosmosResourceExistsError):
            await things.create_item(ITEMS[0])
        for missing in (things.delete_item("none", "p"), things.replace_item("none", {"id": "none", "pk": "p"})):
            with pytest.raises(CosmosResourceNotFoundError):
                await missing

    async def test_etags_guard_replace(self, things: ContainerProxy) -> None:
        created = await things.create_item(ITEMS[0])
        guard = {"etag": created["_etag"], "match_condition": MatchConditions.IfNotModified}
        await things.replace_item("i0", {**ITEMS[0], "n": 1}, **guard)
        with pytest.raises(CosmosAccessConditionFailedError):
            await things.replace_item("i0", {**ITEMS[0], "n": 2}, **guard)

    async def test_patch(self, things: ContainerProxy) -> None:
        await things.create_item(ITEMS[1])
        operations = [
            {"op": "set", "path": "/name", "value": "new"},
            {"op": "incr", "path": "/n", "value": 2},
        ]
        patched = await things.patch_item("i1", "p", operations)  # type: ignore[arg-type]
        assert bare(patched) == {**ITEMS[1], "n": 3, "name": "new"}

    async def test_a_patch_has_ten_operations_at_most(self, things: ContainerProxy) -> None:
        await things.create_item(ITEMS[1])
        one = {"op": "incr", "path": "/n", "value": 1}
        assert (await things.patch_item("i1", "p", [one] * 10))["n"] == 11
        with pytest.raises(CosmosHttpResponseError) as caught:
            await things.patch_item("i1", "p", [one] * 11)
        assert caught.value.status_code == 400

    async def test_etags_guard_other_writes(self, things: ContainerProxy) -> None:
        created = await things.create_item(ITEMS[0])
        guard: Any = {"etag": '"another"', "match_condition": MatchConditions.IfNotModified}
        with pytest.raises(CosmosAccessConditionFailedError):
            await things.delete_item("i0", "p", **guard)
        assert await things.read_item("i0", "p") == created

    @pytest.mark.parametrize("item", [{"pk": "p"}, {"id": "", "pk": "p"}])
    async def test_an_id_is_wanted(self, things: ContainerProxy, item: dict[str, Any]) -> None:
        with pytest.raises(CosmosHttpResponseError) as caught:
            await things.create_item(item)
        assert caught.value.status_code == 400

    @pytest.mark.parametrize("text", ["SELEC 1", "SELECT * FROM c WHERE", "SELECT * FROM c WHERE c.pk = 'p' AND"])
    async def test_what_is_no_query_is_refused(self, things: ContainerProxy, items: None, text: str) -> None:
        with pytest.raises(CosmosHttpResponseError) as caught:
            await collect(things.query_items(text, partition_key="p"))
        assert caught.value.status_code == 400

    @pytest.mark.parametrize(
        ("where", "found"),
        [
            ("c.n = 3", [3]),
            ("c.n != 3", [0, 1, 2, 4, 5]),
            ("c.n >= 2 AND c.n < 4", [2, 3]),
            ("c.n = 0 OR c.n = 5", [0, 5]),
            ("c.name = 'name-1'", [1, 3, 5]),
            ("c.flag = true", [0, 2, 4]),
            ("c.none = 1", []),
            ("IS_DEFINED(c.none)", []),
            ("STARTSWITH(c.name, 'name')", [0, 1, 2, 3, 4, 5]),
            ("ARRAY_CONTAINS(c.tags, 'b3')", [3]),
            ("c.n = '3'", []),
        ],
    )
    async def test_filters(self, things: ContainerProxy, items: None, where: str, found: list[int]) -> None:
        query = f"SELECT * FROM c WHERE c.pk = 'p' AND ({where})"
        assert sorted(item["n"] for item in await collect(things.query_items(query, partition_key="p"))) == found

    @pytest.mark.parametrize(
        ("query", "answer"),
        [
            ("SELECT c.n, c.none FROM c WHERE c.pk = 'p' AND c.n = 1", [{"n": 1}]),
            ("SELECT VALUE c.n FROM c WHERE c.pk = 'p' AND c.n > 3 ORDER BY c.n DESC", [5, 4]),
        ],
    )
    async def test_selections(self, things: ContainerProxy, items: None, query: str, answer: list) -> None:
        assert await collect(things.query_items(query, partition_key="p")) == answer

    async def test_parameters_and_pages(self, things: ContainerProxy, items: None) -> None:
        found = things.query_items(
            "SELECT * FROM c WHERE c.pk = 'p' AND c.n >= @low",
            parameters=[{"name": "@low", "value": 1}],
            partition_key="p",
            max_item_count=2,
        )
        assert sorted(item["n"] for item in await collect(found)) == [1, 2, 3, 4, 5]


class TestDouble(SharedSuite):
    @pytest.fixture
    async def endpoint(self) -> AsyncIterator[str]:
        async with CosmosDouble() as double:
            yield double.endpoint


@pytest.fixture(scope="module")
def other_server() -> Iterator[str]:
    folder = os.environ.get("COSMOSDB_SERVER_DIR")
    node = shutil.which("node")
    if not folder or not node:
        pytest.skip("set COSMOSDB_SERVER_DIR to a folder with @vercel/cosmosdb-server, and have node")
    if not (Path(folder) / SERVER).exists():
        pytest.fail(f"COSMOSDB_SERVER_DIR has no {SERVER}")
    # With TLS: its account document names https endpoints whatever it listens to.
    command = [node, str(Path(folder) / SERVER), "-p", "0", "--host", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            ready = re.search(rb":(\d+)\s*$", process.stdout.readline())
            assert ready is not None
            yield f"https://127.0.0.1:{int(ready.group(1))}/"
        finally:
            process.kill()


class TestOtherServer(SharedSuite):
    @pytest.fixture
    def endpoint(self, other_server: str) -> str:
        return other_server
