"""What the tests of CosmosStore share: a container in the double, time that passes by itself, documents."""

from __future__ import annotations

import types
from datetime import UTC, datetime, timedelta

import pytest

from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.resend import Resend
from engine.store.cosmos.schema import CONTAINER, DATABASE, container_definition, leases_definition
from engine.store.documents import Chunk, Execution, InboxItem
from engine.values.events import Takeover
from tests.cosmos_double import CosmosDouble
from tests.cosmos_double.state import Container
from tests.support import documents

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=30)
SKEW = timedelta(seconds=5)


class Time:
    """Passes only by being slept through. `slept` has every pause, in seconds."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def clock(self) -> float:
        return sum(self.slept)

    def retry(self, random: float = 0.0) -> Resend:
        """The store's policy in this time. `random` is the number that it draws, from 0 to 1."""
        return Resend(sleep=self.sleep, clock=self.clock, random=lambda: random)


def set_up(double: CosmosDouble, name: str = CONTAINER) -> Container:
    """Make the containers as the infrastructure does, with no request."""
    definition, leases = container_definition(name), leases_definition()
    container = double.add_container(
        DATABASE,
        name,
        definition["partitionKey"]["paths"][0],
        indexing_policy=definition["indexingPolicy"],
        default_ttl=definition["defaultTtl"],
    )
    if leases["id"] not in double.account.database(DATABASE).containers:
        double.add_container(DATABASE, leases["id"], leases["partitionKey"]["paths"][0], default_ttl=-1)
    return container


def account(double: CosmosDouble, read_timeout: float = 10.0) -> CosmosAccount:
    return CosmosAccount(double.endpoint, double.key, read_timeout=read_timeout)


def execution(number: int = 1, **fields: object) -> Execution:
    """A new execution."""
    values: dict[str, object] = {
        "execution_id": f"{number:032x}",
        "workflow": "w",
        "version": "1",
        "payload": "null",
        "due_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Execution.model_validate(values | fields)


def claimed(execution: Execution, worker: str = "me") -> Execution:
    return documents.claimed(execution, NOW, worker)


def completed(execution: Execution) -> Execution:
    return documents.completed(execution, NOW)


def chunk(number: int = 0, of: int = 1) -> Chunk:
    return Chunk.of(f"{of:032x}", number, [Takeover(NOW, "me")])


def item(name: str = "approval", value: str = "1", of: int = 1) -> InboxItem:
    return InboxItem.of("deferred", f"{of:032x}", name, NOW, value)


def sdk_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK repeats a 503 by itself, after half a second: here at once."""

    async def at_once(seconds: float) -> None:
        return None

    monkeypatch.setattr("azure.cosmos.aio._retry_utility_async.asyncio", types.SimpleNamespace(sleep=at_once))
