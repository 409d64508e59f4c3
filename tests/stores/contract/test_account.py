"""CosmosStore keeps the promises of `engine.store.base` on the account or emulator that the environment names."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from azure.cosmos.exceptions import CosmosResourceNotFoundError

from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.client import Connection
from engine.store.cosmos.store import CosmosStore
from engine.store.cosmos.usage import Usage
from engine.store.documents import Document
from tests.stores.contract.executions import StoreContract
from tests.stores.contract.pages import PagesContract
from tests.stores.contract.signals import SignalsContract
from tests.stores.every_store import account_of_environment


class RawAccount:
    """The container, through a client of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, execution_id: str, id: str) -> Document | None:
        container = await self._connection.executions()
        try:
            return dict(await container.read_item(id, execution_id))
        except CosmosResourceNotFoundError:
            return None

    async def put(self, document: Document) -> None:
        await (await self._connection.executions()).upsert_item(document)

    async def ids(self, execution_id: str) -> list[str]:
        container = await self._connection.executions()
        found = container.query_items("SELECT VALUE c.id FROM c", partition_key=execution_id)
        return sorted([str(id) async for id in found])


@pytest.mark.cosmos
class TestOnTheAccount(StoreContract, SignalsContract, PagesContract):
    @pytest.fixture
    async def account(self) -> AsyncIterator[CosmosAccount]:
        async with account_of_environment() as account:
            yield account

    @pytest.fixture
    async def raw(self, account: CosmosAccount) -> AsyncIterator[RawAccount]:
        connection = Connection(account, Usage())
        yield RawAccount(connection)
        await connection.close()

    @pytest.fixture
    async def store(self, account: CosmosAccount) -> AsyncIterator[CosmosStore]:
        store = CosmosStore(account)
        yield store
        await store.close()

    @pytest.fixture
    async def other(self, account: CosmosAccount) -> AsyncIterator[CosmosStore]:
        other = CosmosStore(account)
        yield other
        await other.close()
