"""The simulated container keeps the promises of `engine.store.base`, so what the simulation finds is the engine's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from engine.store.cosmos.resend import Resend
from engine.store.documents import Document
from tests.stores.contract.executions import StoreContract
from tests.stores.contract.pages import PagesContract
from tests.stores.contract.signals import SignalsContract
from tests.verification.simulation.container import Container
from tests.verification.simulation.store import SimStore

T = TypeVar("T")


class Wire:
    """A network without faults. `cuts_of` says where the pages of a query end."""

    def __init__(self, cuts_of: Callable[[Sequence[str]], list[str]] = lambda ids: []) -> None:
        self.retry = Resend()
        self.cuts = cuts_of

    async def send(self, operation: str, key: str, effect: Callable[[], T]) -> T:
        return effect()

    def lag(self) -> float:
        return 0.0

    def forgets(self) -> bool:
        return False


class RawContainer:
    """The container, past any store."""

    def __init__(self, container: Container) -> None:
        self._container = container

    async def get(self, execution_id: str, id: str) -> Document | None:
        return self._container.documents(execution_id).get(id)

    async def put(self, document: Document) -> None:
        self._container.put(document)

    async def ids(self, execution_id: str) -> list[str]:
        return sorted(self._container.documents(execution_id))


class TestSimStore(StoreContract, SignalsContract, PagesContract):
    """Two store objects on one container; every document has a page of its own in one of them."""

    @pytest.fixture
    def container(self) -> Container:
        return Container(lambda: 0.0)

    @pytest.fixture
    def raw(self, container: Container) -> RawContainer:
        return RawContainer(container)

    @pytest.fixture
    def store(self, container: Container) -> SimStore:
        return SimStore(container, Wire(list))

    @pytest.fixture
    def other(self, container: Container) -> SimStore:
        return SimStore(container, Wire())
