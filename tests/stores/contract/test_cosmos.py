"""CosmosStore keeps the promises of `engine.store.base`, on the real SDK over the double of the REST protocol."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator

import pytest

from engine.store.cosmos.store import CosmosStore
from engine.store.documents import Document
from tests.cosmos_double import CosmosDouble
from tests.cosmos_double.rules import PartitionKey
from tests.cosmos_double.state import Container
from tests.stores.contract.executions import StoreContract
from tests.stores.contract.limits import LimitsContract
from tests.stores.contract.pages import PagesContract
from tests.stores.contract.signals import SignalsContract
from tests.stores.cosmos.support import Time, account, set_up


class RawCosmos:
    """The double's container, past any request."""

    def __init__(self, container: Container) -> None:
        self._container = container

    async def get(self, execution_id: str, id: str) -> Document | None:
        return next((d for d in self._container.documents(execution_id) if d["id"] == id), None)

    async def put(self, document: Document) -> None:
        key = PartitionKey(document["executionId"])
        made = self._container.make(key, copy.deepcopy(document), None)
        self._container.range_for(key.epk).commit({made.key: made}, 1_000)

    async def ids(self, execution_id: str) -> list[str]:
        return sorted(document["id"] for document in self._container.documents(execution_id))


class TestOverTheDouble(StoreContract, SignalsContract, PagesContract, LimitsContract):
    """Two physical partitions; each process has a client of its own."""

    @pytest.fixture
    async def double(self) -> AsyncIterator[CosmosDouble]:
        async with CosmosDouble(ranges=2) as double:
            yield double

    @pytest.fixture
    def raw(self, double: CosmosDouble) -> RawCosmos:
        return RawCosmos(set_up(double))

    @pytest.fixture
    async def store(self, double: CosmosDouble, raw: RawCosmos) -> AsyncIterator[CosmosStore]:
        store = CosmosStore(account(double), Time().retry())
        yield store
        await store.close()

    @pytest.fixture
    async def other(self, double: CosmosDouble, raw: RawCosmos) -> AsyncIterator[CosmosStore]:
        other = CosmosStore(account(double), Time().retry())
        yield other
        await other.close()
