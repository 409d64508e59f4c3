"""Settings to account, `init`, and which store an app gets."""

from __future__ import annotations

import pytest

from engine import Runtime
from engine.ground.errors import Unavailable
from engine.store.cosmos import init as cosmos_init
from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.init import check_containers, create_containers, differences
from engine.store.cosmos.schema import INDEXING_POLICY, container_definition, leases_definition
from engine.store.cosmos.store import CosmosStore
from engine.store.sqlite.store import SqliteStore
from tests.cosmos_double import WELL_KNOWN_KEY, CosmosDouble
from tests.stores.cosmos.support import Time, account

URL = "https://name.documents.azure.com:443/"
KEY = "a2V5"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"COSMOS__accountEndpoint": "  ", "COSMOS_DATABASE": "d", "ENGINE_SQLITE_FILE": "x"}, None),
        ({"COSMOS__accountEndpoint": URL}, CosmosAccount(URL)),
        ({"COSMOS__accountEndpoint": URL, "COSMOS__clientId": "c"}, CosmosAccount(URL, client_id="c")),
        ({"COSMOS__accountEndpoint": URL, "COSMOS_KEY": KEY}, CosmosAccount(URL, KEY)),
        ({"COSMOS": f"AccountEndpoint={URL};AccountKey={KEY};"}, CosmosAccount(URL, KEY)),
        ({"COSMOS": f"accountkey={WELL_KNOWN_KEY}; accountendpoint={URL}"}, CosmosAccount(URL, WELL_KNOWN_KEY)),
        (
            {"COSMOS": f"AccountEndpoint={URL};AccountKey={KEY}", "COSMOS__accountEndpoint": "http://other"},
            CosmosAccount(URL, KEY),
        ),
        (
            {"COSMOS__accountEndpoint": "http://h", "COSMOS_KEY": KEY, "COSMOS_DATABASE": "d", "COSMOS_CONTAINER": "c"},
            CosmosAccount("http://h", KEY, database="d", container="c"),
        ),
    ],
)
def test_settings(settings: dict[str, str], expected: CosmosAccount | None) -> None:
    assert CosmosAccount.from_environment(settings) == expected


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"COSMOS": "x"}, ["COSMOS", "AccountEndpoint"]),
        ({"COSMOS": f"AccountEndpoint={URL}"}, ["COSMOS", "AccountKey", "COSMOS__accountEndpoint"]),
        ({"COSMOS": f"AccountEndpoint={URL};AccountKey=!"}, ["COSMOS", "base64"]),
        ({"COSMOS_KEY": KEY}, ["COSMOS_KEY", "COSMOS__accountEndpoint"]),
        ({"COSMOS__clientId": "c"}, ["COSMOS__clientId", "COSMOS__accountEndpoint"]),
        ({"COSMOS__accountEndpoint": "name"}, ["COSMOS__accountEndpoint", "name"]),
        ({"COSMOS__accountEndpoint": f"AccountEndpoint={URL};AccountKey={KEY}"}, ["connection string", "COSMOS"]),
        ({"COSMOS__accountEndpoint": "http://h"}, ["COSMOS__accountEndpoint", "COSMOS_KEY", "TLS", "https"]),
        ({"COSMOS__accountEndpoint": "http://h:x"}, ["COSMOS__accountEndpoint", "URL"]),
        ({"COSMOS__accountEndpoint": "http://[h"}, ["COSMOS__accountEndpoint", "URL"]),
        ({"COSMOS__accountEndpoint": URL, "COSMOS_KEY": "!"}, ["COSMOS_KEY", "base64"]),
        ({"COSMOS__accountEndpoint": URL, "COSMOS_DATABASE": "a/b"}, ["COSMOS_DATABASE", "a/b"]),
        ({"COSMOS__accountEndpoint": URL, "COSMOS_CONTAINER": "c" * 256}, ["COSMOS_CONTAINER"]),
    ],
)
def test_a_bad_setting_is_named(settings: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        Runtime.from_environment([], settings)
    for word in words:
        assert word in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_key_is_not_shown() -> None:
    assert KEY not in repr(CosmosAccount(URL, KEY))


async def test_the_settings_choose_the_store(tmp_path: object) -> None:
    file = f"{tmp_path}/x.sqlite"
    runtime = Runtime.from_environment([], {"ENGINE_SQLITE_FILE": file, "COSMOS__accountEndpoint": URL})
    assert isinstance(runtime.store, CosmosStore)
    assert runtime.store.account.endpoint == URL
    await runtime.close()
    runtime = Runtime.from_environment([], {"ENGINE_SQLITE_FILE": file})
    assert isinstance(runtime.store, SqliteStore)
    await runtime.close()


# init


async def test_init_makes_what_the_store_needs(double: CosmosDouble) -> None:
    assert await create_containers(account(double), Time().retry()) == []
    database = double.account.database("workflows")
    for wanted in (container_definition(), leases_definition()):
        made = database.container(wanted["id"]).rules.definition
        assert made | wanted == made | {"indexingPolicy": made["indexingPolicy"]} | wanted
        assert made["partitionKey"] == wanted["partitionKey"]
        assert made["defaultTtl"] == -1
    indexing = database.container("executions").rules.indexing
    names = (
        "dueAt",
        "createdAt",
        "status",
        "workflow",
        "outcome",
        "id",
        "payload",
        "events",
        "wake",
        "writeId",
        "cause",
    )
    assert [indexing.is_indexed((name,)) for name in names] == [True] * 6 + [False] * 5
    assert await create_containers(account(double), Time().retry()) == []  # again: nothing to do


async def test_init_says_what_is_different(double: CosmosDouble) -> None:
    double.add_container("workflows", "executions", "/executionId")
    found = await create_containers(account(double), Time().retry())
    assert len(found) == 2
    assert "defaultTtl is None, not -1" in found[0]
    assert "container executions indexes ['/*']" in found[1]


async def test_a_check_says_what_is_missing_or_different_and_changes_nothing(double: CosmosDouble) -> None:
    double.add_container("workflows", "executions", "/executionId", default_ttl=-1)
    for _ in range(2):
        found = await check_containers(account(double), Time().retry())
        assert len(found) == 2
        assert "container executions indexes ['/*']" in found[0]
        assert found[1] == "database workflows has no container leases"


def test_another_partition_key_is_different() -> None:
    wanted = container_definition()
    other = wanted | {"partitionKey": {"paths": ["/id"]}}
    assert differences(wanted, other) == ["container executions is partitioned by ['/id']: make it anew"]
    assert differences(wanted, wanted) == []


def test_what_is_indexed_is_what_is_queried() -> None:
    """A list, so that a change of it is a decision: each path costs request units with each write."""
    assert [one["path"] for one in INDEXING_POLICY["includedPaths"]] == [
        "/dueAt/?",
        "/createdAt/?",
        "/status/?",
        "/workflow/?",
        "/outcome/?",
    ]


def test_init_on_the_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("COSMOS", "COSMOS__accountEndpoint", "COSMOS_KEY", "COSMOS__clientId"):
        monkeypatch.delenv(name, raising=False)
    assert cosmos_init.main(["init"]) == 1
    assert "COSMOS__accountEndpoint" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cosmos_init.main([])


@pytest.mark.parametrize(
    ("endpoint", "key", "words"),
    [
        (None, "d3Jvbmc=", ["making database workflows in http://127.0.0.1", "key is wrong", "401"]),
        ("http://127.0.0.1:9/", "d3Jvbmc=", ["http://127.0.0.1:9/", "Cannot connect to host"]),
    ],
    ids=["a wrong key", "nobody there"],
)
async def test_init_says_why_it_can_not(double: CosmosDouble, endpoint: str | None, key: str, words: list[str]) -> None:
    with pytest.raises(Unavailable) as caught:
        await create_containers(CosmosAccount(endpoint or double.endpoint, key), Time().retry())
    for word in words:
        assert word in str(caught.value)
