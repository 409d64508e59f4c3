"""The engine's scenarios once more, on CosmosStore: an Environment that is given no store gets one over the double.

Each environment has a container of its own in one account, as it has a file of its own otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.store.cosmos import CosmosStore
from tests.cosmos_double import CosmosDouble
from tests.store.cosmos_support import Time, account, set_up

NOT_HERE = ("test_the_order_is_one_in_every_process", "swallows_everything")
"""What says nothing about a store, and what takes long where each call is a request."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    dropped = [i for i in items if i.path.parent == here and any(name in i.name for name in NOT_HERE)]
    items[:] = [item for item in items if item not in dropped]
    config.hook.pytest_deselected(items=dropped)


@pytest.fixture(autouse=True)
async def on_cosmos(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CosmosDouble]:
    stores: list[CosmosStore] = []
    async with CosmosDouble(ranges=2, log_limit=1_000) as double:

        def make(path: str) -> CosmosStore:
            name = f"executions-{len(stores)}"
            set_up(double, name)
            stores.append(CosmosStore(replace(account(double), container=name), Time().retry()))
            return stores[-1]

        monkeypatch.setattr("engine.testing.environment.SqliteStore", make)
        yield double
        for store in stores:
            await store.close()
