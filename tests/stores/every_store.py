"""Stores for the fixture `every_store`: in Cosmos DB's double, and in the account that the environment names."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from azure.cosmos.aio import ContainerProxy

from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.client import Connection
from engine.store.cosmos.init import create_containers
from engine.store.cosmos.items import Items
from engine.store.cosmos.store import CosmosStore
from engine.store.cosmos.usage import Usage
from tests.cosmos_double import CosmosDouble
from tests.stores.cosmos.support import Time, account, set_up

ENDPOINT, KEY = "COSMOS_TEST_ENDPOINT", "COSMOS_TEST_KEY"

MakeStore = Callable[[str], CosmosStore]
"""From the name of a container to a store in it."""


@asynccontextmanager
async def account_of_environment() -> AsyncIterator[CosmosAccount]:
    """A database of its own in the account that the environment names, deleted afterwards."""
    endpoint = os.environ.get(ENDPOINT)
    if not endpoint:
        pytest.skip(f"{ENDPOINT} (and {KEY}) name no account or emulator")
    account = CosmosAccount(endpoint, os.environ.get(KEY), database=f"test-{uuid.uuid4().hex[:12]}")
    await create_containers(account)
    try:
        yield account
    finally:
        connection = Connection(account, Usage())
        await (await connection.client()).delete_database(account.database)
        await connection.close()


class OwnContainer(CosmosStore):
    """A store in an account that makes its container when it is first used, and deletes it in the end."""

    def __init__(self, account: CosmosAccount) -> None:
        super().__init__(account)
        self._items = Items(self._open, self._items.retry)
        self._making = asyncio.Lock()
        self._is_made = False

    async def _open(self) -> ContainerProxy:
        async with self._making:
            if not self._is_made:
                await create_containers(self.account)
                self._is_made = True
        return await self._connection.executions()

    async def close(self) -> None:
        if self._is_made:
            self._is_made = False
            database = (await self._connection.client()).get_database_client(self.account.database)
            await database.delete_container(self.account.container)
        await super().close()


@asynccontextmanager
async def in_double() -> AsyncIterator[MakeStore]:
    async with CosmosDouble(ranges=2, log_limit=1_000) as double:

        def make(name: str) -> CosmosStore:
            set_up(double, name)
            return CosmosStore(replace(account(double), container=name), Time().retry())

        yield make


@asynccontextmanager
async def in_account() -> AsyncIterator[MakeStore]:
    async with account_of_environment() as account:
        yield lambda name: OwnContainer(replace(account, container=name))
