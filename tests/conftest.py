"""The fixture that runs a test on every store: `pytestmark = pytest.mark.usefixtures("every_store")`.

An Environment that is given no store gets one of the kind whose turn it is: SQLite, or CosmosStore over the tests'
double, or CosmosStore in the account or emulator that COSMOS_TEST_ENDPOINT names (`pytest -m cosmos`). Each environment
has a container of its own in one account, as it has a file of its own otherwise.

Two marks leave something out, each with its reason, at a module, a function or a `pytest.param`:
`sqlite_only(reason)` and `not_on_account(reason)`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from engine.store.cosmos.store import CosmosStore
from tests.stores.cosmos.support import sdk_waits_for_nothing
from tests.stores.every_store import ENDPOINT, in_account, in_double
from tests.support.crashes import ledger
from tests.support.mortal import journal

KINDS = ["sqlite", "double"]
ACCOUNT = pytest.param("account", marks=pytest.mark.cosmos)


@pytest.fixture(autouse=True)
def _nothing_has_run() -> None:
    """Each test begins with an empty ledger and an empty journal."""
    ledger.ran.clear()
    journal.clear()


@pytest.fixture(params=[*KINDS, ACCOUNT] if os.environ.get(ENDPOINT) else KINDS)
async def every_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    if request.param == "sqlite":
        yield
        return
    sdk_waits_for_nothing(monkeypatch)
    stores: list[CosmosStore] = []
    async with in_account() if request.param == "account" else in_double() as make_store:

        def make(path: str) -> CosmosStore:
            stores.append(make_store(f"executions-{len(stores)}"))
            return stores[-1]

        monkeypatch.setattr("engine.testing.environment.SqliteStore", make)
        yield
        for store in stores:
            await store.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if _is_left_out(item)]
    items[:] = [item for item in items if not _is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)


def _is_left_out(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    kind = call.params.get("every_store", "sqlite") if call else "sqlite"
    if item.get_closest_marker("sqlite_only"):
        return kind != "sqlite"
    return kind == "account" and item.get_closest_marker("not_on_account") is not None
