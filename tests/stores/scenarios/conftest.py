"""The engine's scenarios, features and faults once more, on CosmosStore: an Environment that is given no store gets one
over the double; or, where COSMOS_TEST_ENDPOINT names an account or emulator, over that (`pytest -m cosmos`).

Each environment has a container of its own in one account, as it has a file of its own otherwise.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos.aio import ContainerProxy

from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.init import create_containers
from engine.store.cosmos.items import Items
from engine.store.cosmos.store import CosmosStore
from engine.testing import Environment
from tests.cosmos_double import CosmosDouble
from tests.stores.cosmos.support import Time, account, set_up
from tests.stores.every_store import ENDPOINT, account_of_environment

NOT_HERE = (
    # What says nothing about a store.
    "test_the_order_is_one_in_every_process",
    "misuse",
    "refused",
    # What counts on a store that answers before anything else runs.
    "test_resume_racing_a_driver_changes_nothing_of_its_run",
    # What takes long where each call is a request, and whose like is here: test_primitives crashes at every call.
    # tests/stores/cosmos/test_engine.py loses each answer as well, on the wire.
    "swallows_everything",
    "every_crash",
    "lost_at_any_call",
    "away_for_a_while",
    "500_times",
    "in_a_loop_ends_it_within_a_turn",
    "fifty_parallel_starts",
    "forty_executions",
    "many_executions",
    "two_hundred",
    "many_large_values",
    "any_number_of",
    "a_channels_values_come_in_order_each_once",
    "receivers_at_once",
    "told_at_least_once[True]",
    "during_compensation",
    "during_a_finalizer",
    "shield_keeps",
    "not_in_memory",
    "a_token_from_inside",
    "a_deferred_races_a_timer[False]",
    "as_often_as_that",
    "runs_that_step_alone",
    "is_no_end[True",
    *(f"within_one_sweep[{where}-{lag}-" for where in ("from outside", "in process") for lag in (0, 1)),
    "within_one_sweep[from outside-5",
)
DOUBLE_ONLY = ("test_primitives_on_cosmos", "test_random_on_cosmos")
"""Modules with hundreds of environments: an account takes about a second for a container."""

MakeStore = Callable[[str], CosmosStore]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    if os.environ.get(ENDPOINT):
        for item in items:
            if item.path.parent == here and item.path.stem not in DOUBLE_ONLY:
                item.add_marker(pytest.mark.cosmos)
    dropped = [i for i in items if i.path.parent == here and any(name in i.name for name in NOT_HERE)]
    items[:] = [item for item in items if item not in dropped]
    config.hook.pytest_deselected(items=dropped)


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


@pytest.fixture(autouse=True)
async def on_cosmos(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    stores: list[CosmosStore] = []
    on_account = request.node.get_closest_marker("cosmos") is not None
    async with _in_account() if on_account else _in_double() as make_store:

        def make(path: str) -> CosmosStore:
            stores.append(make_store(f"executions-{len(stores)}"))
            return stores[-1]

        monkeypatch.setattr("engine.testing.environment.SqliteStore", make)
        # What looks past the store has to look into this one: in each module that has imported it.
        for name, module in list(sys.modules.items()):
            if name.startswith("tests.rules."):
                monkeypatch.setattr(module, "store_of", store_of, raising=False)
                monkeypatch.setattr(module, "image", image, raising=False)
        yield
        for store in stores:
            await store.close()


@asynccontextmanager
async def _in_double() -> AsyncIterator[MakeStore]:
    async with CosmosDouble(ranges=2, log_limit=1_000) as double:

        def make(name: str) -> CosmosStore:
            set_up(double, name)
            return CosmosStore(replace(account(double), container=name), Time().retry())

        yield make


@asynccontextmanager
async def _in_account() -> AsyncIterator[MakeStore]:
    async with account_of_environment() as account:
        yield lambda name: OwnContainer(replace(account, container=name))


def store_of(env: Environment) -> CosmosStore:
    """The store under an environment's hooks."""
    inner = env.store.inner
    assert isinstance(inner, CosmosStore)
    return inner


async def image(env: Environment, id: str) -> list[Any]:
    """Everything in an execution's partition."""
    documents = await store_of(env)._items.query("image", id, "SELECT * FROM c")
    return sorted(json.dumps(document, sort_keys=True) for document in documents)
