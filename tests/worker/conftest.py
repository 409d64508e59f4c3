from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.worker.host import WorkerHost

LEAST = (3, 13)
collect_ignore = [] if sys.version_info >= LEAST else ["test_worker.py", "test_failures.py"]


@pytest.fixture
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WorkerHost]:
    """A worker of its own with the app indexed, over an empty store."""
    from azure_functions_runtime import functions, handle_event

    from tests.worker.host import WorkerHost

    for name in ("COSMOS", "COSMOS_KEY", "COSMOS__accountEndpoint", "COSMOS__clientId"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ENGINE_SQLITE_FILE", str(tmp_path / "data.sqlite"))
    monkeypatch.setenv("LEDGER_FILE", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setenv("ENGINE_SIGNING_KEY", "k" * 32)
    monkeypatch.setattr(handle_event, "_functions", functions.Registry())
    before: Any = sys.modules.pop("function_app", None)
    host = WorkerHost(tmp_path / "data.sqlite")
    await host.start()
    yield host
    await sys.modules.pop("function_app").runtime.close()
    await host.close()
    if before is not None:
        sys.modules["function_app"] = before
