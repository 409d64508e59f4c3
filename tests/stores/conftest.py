"""What holds wherever the SDK of Cosmos DB is at work."""

from __future__ import annotations

import types

import pytest


@pytest.fixture(autouse=True)
def _sdk_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK repeats a 503 by itself, after half a second."""

    async def at_once(seconds: float) -> None:
        return None

    monkeypatch.setattr("azure.cosmos.aio._retry_utility_async.asyncio", types.SimpleNamespace(sleep=at_once))
