"""The client: what is said when the account can't be used, when it is opened and closed, what it logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest
from azure.core.credentials import AccessToken

from engine.ground.errors import Unavailable
from engine.store.base import Filter
from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.store import CosmosStore
from engine.store.documents import inbox_id
from tests.cosmos_double import CosmosDouble
from tests.cosmos_double.state import Container
from tests.stores.cosmos.support import NOW, Time, account, chunk, claimed, completed, execution, item, set_up

ID = execution().execution_id


async def fails(account: CosmosAccount) -> str:
    store = CosmosStore(account, Time().retry())
    try:
        with pytest.raises(Unavailable) as caught:
            await store.read(ID)
        return str(caught.value)
    finally:
        await store.close()


async def test_a_container_that_is_not_there(double: CosmosDouble) -> None:
    message = await fails(account(double))
    assert "no database 'workflows' with a container 'executions'" in message
    assert "python -m engine.store.cosmos init" in message


async def test_a_container_that_is_another(double: CosmosDouble) -> None:
    double.add_container("workflows", "executions", "/id")
    assert "partitioned by /id, not by /executionId" in await fails(account(double))


async def test_a_key_that_is_wrong(double: CosmosDouble, container: Container) -> None:
    message = await fails(CosmosAccount(double.endpoint, "d3Jvbmc="))
    assert "Built-in Data Contributor" in message


async def test_an_account_that_is_away() -> None:
    assert "away" not in await fails(CosmosAccount("http://127.0.0.1:9/", "d3Jvbmc="))


async def test_a_container_that_comes_later(double: CosmosDouble) -> None:
    """The app may start before its infrastructure is there: the next call finds it."""
    store = CosmosStore(account(double), Time().retry())
    try:
        with pytest.raises(Unavailable):
            await store.create(execution())
        set_up(double)
        await store.create(execution())
    finally:
        await store.close()


async def test_processes_start_with_one_look_at_the_container(store: CosmosStore, double: CosmosDouble) -> None:
    await asyncio.gather(*(store.create(execution(n)) for n in range(10)))
    assert double.log.count(kind="container") == 1


async def test_requests_are_not_logged_unless_asked_for(store: CosmosStore, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await store.create(execution())
    await store.due(NOW, 1)
    assert caplog.messages == []
    caplog.set_level("INFO", "engine.store.cosmos.store.http")
    await store.read(ID)
    assert any("Request URL" in line for line in caplog.messages)


async def test_a_closed_store_opens_again(store: CosmosStore) -> None:
    await store.create(execution())
    await store.close()
    await store.close()
    assert (await store.read(ID)).execution_id == ID


async def test_an_identity_instead_of_a_key(double: CosmosDouble, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """The SDK gives no token to an address without TLS, so this gets as far as that; nothing is left open."""

    class Credential:
        client_ids: ClassVar[list[str | None]] = []
        closed = 0

        def __init__(self, managed_identity_client_id: str | None) -> None:
            self.client_ids.append(managed_identity_client_id)

        async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
            return AccessToken("token", 4_000_000_000)

        async def close(self) -> None:
            Credential.closed += 1

        async def __aenter__(self) -> Credential:
            return self

        async def __aexit__(self, *_: object) -> None:
            await self.close()

    monkeypatch.setattr("engine.store.cosmos.client.DefaultAzureCredential", Credential)
    assert "Bearer token" in await fails(CosmosAccount(double.endpoint, client_id="me"))
    assert set(Credential.client_ids) == {"me"}
    assert Credential.closed == len(Credential.client_ids)


# A container that goes while the app runs


Call = Callable[[CosmosStore], Awaitable[Any]]
CALLS: dict[str, Call] = {
    "create": lambda store: store.create(execution(2)),
    "read": lambda store: store.read(ID),
    "load": lambda store: store.load(ID),
    "replace": lambda store: store.replace(claimed(execution(etag='"any"'))),
    "append": lambda store: store.append(chunk(7)),
    "commit": lambda store: store.commit(completed(execution(etag='"any"')), chunk(7)),
    "signal": lambda store: store.signal(item("other"), NOW),
    "read_inbox": lambda store: store.read_inbox(ID, inbox_id("deferred", "approval")),
    "interrupt": lambda store: store.interrupt(ID, NOW),
    "due": lambda store: store.due(NOW, 10),
    "list": lambda store: store.list(Filter(), 10),
    "purge": lambda store: store.purge(completed(execution(etag='"any"'))),
}


@pytest.mark.parametrize("what", ["database", "container"])
async def test_a_container_that_is_gone_is_no_missing_execution(
    store: CosmosStore, double: CosmosDouble, what: str
) -> None:
    """404 as well, but of the owner: nobody may be told that there is no such execution."""
    await store.create(execution())
    await store.due(NOW, 1)
    if what == "database":
        del double.account.databases["workflows"]
    else:
        del double.account.database("workflows").containers["executions"]
    for name, call in CALLS.items():
        with pytest.raises(Unavailable, match="the database or container doesn't exist any more"):
            await call(store)
        assert store.usage.of("read back").requests == 0, name


async def test_a_container_that_was_made_anew_is_used(store: CosmosStore, double: CosmosDouble) -> None:
    await store.create(execution())
    await store.due(NOW, 1)
    del double.account.database("workflows").containers["executions"]
    with pytest.raises(Unavailable):
        await store.read(ID)
    set_up(double)
    now = await store.create(execution())
    await store.append(chunk())
    await store.signal(item(), NOW)
    now = await store.read(ID)
    assert (now.wake, len((await store.load(ID)).chunks)) == (1, 1)
    assert [one.execution_id for one in (await store.due(NOW, 10)).executions] == [ID]
    await store.purge(await store.commit(completed(now), chunk(1)))
