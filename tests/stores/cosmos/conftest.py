"""A double with the store's containers, and stores over it in a time that passes by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from engine.store.cosmos.store import CosmosStore
from tests.cosmos_double import CosmosDouble
from tests.cosmos_double.state import Container
from tests.stores.cosmos.support import Time, account, set_up


@pytest.fixture
def ranges() -> int:
    """Physical partitions of the container."""
    return 1


@pytest.fixture
def consistency() -> str:
    """Of the account."""
    return "Session"


@pytest.fixture
async def double(ranges: int, consistency: str) -> AsyncIterator[CosmosDouble]:
    async with CosmosDouble(ranges=ranges, consistency=consistency) as double:
        yield double


@pytest.fixture
def container(double: CosmosDouble) -> Container:
    """The state of the container: a look at it is no request."""
    return set_up(double)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def new_store(
    double: CosmosDouble, container: Container, time: Time
) -> AsyncIterator[Callable[..., CosmosStore]]:
    """Makes stores, each with a client of its own, as every process has one."""
    stores: list[CosmosStore] = []

    def make(*, read_timeout: float = 10.0, random: float = 0.0) -> CosmosStore:
        stores.append(CosmosStore(account(double, read_timeout), time.retry(random)))
        return stores[-1]

    yield make
    for store in stores:
        await store.close()


@pytest.fixture
def store(new_store: Callable[..., CosmosStore]) -> CosmosStore:
    return new_store()
