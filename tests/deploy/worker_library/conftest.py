from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from engine.store.base import Store
    from tests.deploy.worker_library.host import WorkerHost

LEAST = (3, 13)
collect_ignore = [] if sys.version_info >= LEAST else ["test_worker.py", "test_failures.py", "test_stopping.py"]


@pytest.fixture
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WorkerHost]:
    """A worker of its own with the app indexed, over an empty SQLite file."""
    from engine.store.sqlite.store import SqliteStore

    data = tmp_path / "data.sqlite"
    async with _running(SqliteStore(data), tmp_path, monkeypatch, ENGINE_SQLITE_FILE=str(data)) as host:
        yield host


@pytest.fixture
async def cosmos_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WorkerHost]:
    """The same over Cosmos DB's protocol: the app with the real SDK, and documents as the change feed has them."""
    from engine.store.cosmos.account import CosmosAccount
    from engine.store.cosmos.store import CosmosStore
    from tests.cosmos_double import CosmosDouble
    from tests.stores.cosmos.support import set_up

    async with CosmosDouble() as double:
        set_up(double)
        store = CosmosStore(CosmosAccount(double.endpoint, double.key))
        settings = {"COSMOS__accountEndpoint": double.endpoint, "COSMOS_KEY": double.key}
        async with _running(store, tmp_path, monkeypatch, **settings) as host:
            yield host


@contextlib.asynccontextmanager
async def _running(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: str
) -> AsyncIterator[WorkerHost]:
    from azure_functions_runtime import functions, handle_event

    from tests.deploy.worker_library.host import WorkerHost

    for name in [name for name in os.environ if name.startswith(("COSMOS", "ENGINE_"))]:
        monkeypatch.delenv(name)
    settings |= {"LEDGER_FILE": str(folder / "ledger.sqlite"), "ENGINE_SIGNING_KEY": "k" * 32}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(handle_event, "_functions", functions.Registry())
    before: Any = sys.modules.pop("function_app", None)
    host = WorkerHost(store)
    await host.start()
    yield host
    await sys.modules.pop("function_app").runtime.close()
    await host.close()
    if before is not None:
        sys.modules["function_app"] = before
