"""What holds wherever the SDK of Cosmos DB is at work."""

from __future__ import annotations

import pytest

from tests.stores.cosmos.support import sdk_waits_for_nothing


@pytest.fixture(autouse=True)
def _sdk_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sdk_waits_for_nothing(monkeypatch)
