"""Fixtures: a started double with the container `app/work` (partition key `/pk`, time to live on), clients of it."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from azure.cosmos.aio import ContainerProxy, CosmosClient

from tests.cosmos_double import CosmosDouble

from .support import Raw


@pytest.fixture
def ranges() -> int:
    """Physical partitions; a test module that wants several overrides this."""
    return 1


@pytest.fixture
async def double(ranges: int) -> AsyncIterator[CosmosDouble]:
    async with CosmosDouble(ranges=ranges) as double:
        double.add_container("app", "work", default_ttl=-1)
        yield double


@pytest.fixture
async def client(double: CosmosDouble) -> AsyncIterator[CosmosClient]:
    async with CosmosClient(double.endpoint, double.key) as client:
        yield client


@pytest.fixture
def work(client: CosmosClient) -> ContainerProxy:
    return client.get_database_client("app").get_container_client("work")


@pytest.fixture
async def raw(double: CosmosDouble) -> AsyncIterator[Raw]:
    async with aiohttp.ClientSession() as session:
        yield Raw(double, session)
