"""A fixture `store` that is each store in turn: SQLite, Cosmos DB's double, and the account that the environment names.

from tests.stores.every_store import store  # noqa: F401
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from engine.store.base import Store
from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.client import Connection
from engine.store.cosmos.init import create_containers
from engine.store.cosmos.store import CosmosStore
from engine.store.cosmos.usage import Usage
from engine.store.sqlite.store import SqliteStore
from tests.cosmos_double import CosmosDouble
from tests.stores.cosmos.support import Time, account, set_up

ENDPOINT, KEY = "COSMOS_TEST_ENDPOINT", "COSMOS_TEST_KEY"


@pytest.fixture(params=["sqlite", "double", pytest.param("account", marks=pytest.mark.cosmos)])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    makers = {"sqlite": _sqlite, "double": _double, "account": _account}
    async with makers[request.param]() as store:
        yield store


@asynccontextmanager
async def _sqlite() -> AsyncIterator[Store]:
    store = SqliteStore(":memory:")
    yield store
    with suppress(RuntimeError):  # an environment closed it
        await store.close()


@asynccontextmanager
async def _double() -> AsyncIterator[Store]:
    async with CosmosDouble(ranges=2) as double:
        set_up(double)
        store = CosmosStore(account(double), Time().retry())
        yield store
        await store.close()


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


@asynccontextmanager
async def _account() -> AsyncIterator[Store]:
    async with account_of_environment() as account:
        store = CosmosStore(account)
        yield store
        await store.close()
