"""CosmosStore on a simulated container: the store's own code, with its requests going to a network of ours.

What is real: how each call becomes requests, how often they are sent, how the store recognises its own first try, how a
purge goes about it. What is simulated: the service, and the way there and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from engine.ground.errors import Missing, StoreError
from engine.store.base import Filter, Page, page_of
from engine.store.cosmos.items import NO_ETAG, Items, Operation, _check_sizes
from engine.store.cosmos.query import ALL_IDS, HISTORY, Selection
from engine.store.cosmos.resend import Resend
from engine.store.cosmos.store import CosmosStore
from engine.store.documents import EXEC, Document
from engine.store.feed import ChangeFeed
from tests.verification.simulation.container import Container, Documents, executions

T = TypeVar("T")

Effect = Callable[[], T]
"""What a request does when it arrives."""


class Network(Protocol):
    """The way between a store and its container."""

    retry: Resend

    async def send(self, operation: str, key: str, effect: Effect[T]) -> T:
        """Let the effect happen, once or not at all, and bring back what it gives. Raises OSError if the answer is
        lost, or a refusal that is to be sent again."""
        ...

    def lag(self) -> float:
        """How many seconds the replica that answers now is behind."""
        ...

    def forgets(self) -> bool:
        """Whether this page of a load is read without its session."""
        ...

    def cuts(self, ids: Sequence[str]) -> list[str]:
        """Where the pages of a query end: some of these ids, in order."""
        ...


class SimItems(Items):
    """Requests to the simulated container, with the session that CosmosStore keeps."""

    def __init__(self, container: Container, network: Network) -> None:
        self.retry = network.retry
        self._key_name = "executionId"
        self._container = container
        self._network = network
        self._floors: dict[str, int] = {}

    async def read(self, operation: str, key: str, id: str) -> Document:
        def effect() -> tuple[Document | StoreError, int]:
            documents, number = self._view(key, self._floors.get(key, 0))
            return documents.get(id) or Missing(f"404: there is no {id}"), number

        return await self._request(operation, key, effect)

    async def create(self, operation: str, document: Document) -> str:
        done = await self.batch(operation, document["executionId"], [Operation.create(document)])
        return str(done[0]["eTag"])

    async def replace(self, operation: str, document: Document, etag: str) -> str:
        replace = Operation.replace(document, etag or NO_ETAG)
        return str((await self.batch(operation, document["executionId"], [replace]))[0]["eTag"])

    async def patch(
        self, operation: str, key: str, id: str, changes: list[Document], *, predicate: str, etag: str = ""
    ) -> Document:
        patch = Operation.patch(id, changes, predicate=predicate, etag=etag)
        done = await self.batch(operation, key, [patch])
        return dict(done[0]["resourceBody"])

    async def batch(self, operation: str, key: str, operations: Sequence[Operation]) -> list[Document]:
        _check_sizes([argument for one in operations for argument in one.arguments if isinstance(argument, dict)])

        def effect() -> tuple[list[Document] | StoreError, int]:
            done: list[Document] | StoreError
            try:
                done = self._container.transact(key, operations)
            except StoreError as refusal:
                done = refusal
            return done, self._container.latest(key)

        return await self._request(operation, key, effect)

    async def query(self, operation: str, key: str, text: str, **parameters: Any) -> list[Any]:
        assert text in (HISTORY, ALL_IDS), text
        first = parameters.get("first", "")
        cuts = self._network.cuts(sorted(self._container.documents(key)))
        rows: list[Any] = []
        for low, high in zip(["", *cuts], [*cuts, "\uffff"], strict=True):

            def effect(low: str = low, high: str = high) -> tuple[list[Any], int]:
                forgetful = text == HISTORY and self._network.forgets()
                documents, number = self._view(
                    key, self._container.beginning(key) if forgetful else self._floors.get(key, 0)
                )
                page = [documents[id] for id in sorted(documents) if low <= id < high]
                if text == ALL_IDS:
                    return [document["id"] for document in page], number
                return [document for document in page if _is_history(document, first)], number

            rows += await self._request(operation, key, effect)
        return rows

    async def rows(self, operation: str) -> list[Document]:
        """The exec documents of all partitions. No session covers them."""
        return await self._request(operation, "", lambda: (executions(self._container, self._network.lag), 0))

    def _view(self, key: str, floor: int) -> tuple[Documents, int]:
        return self._container.view(key, floor, self._network.lag())

    async def _request(self, operation: str, key: str, effect: Effect[tuple[Any, int]]) -> Any:
        async def once() -> tuple[Any, int]:
            return await self._network.send(operation, key, effect)

        answer, number = await self.retry(f"{operation} {key}", once)
        self._floors[key] = max(self._floors.get(key, 0), number)  # a refusal tells the session as well
        if isinstance(answer, StoreError):
            raise answer
        return answer


class SimStore(CosmosStore):
    """One process's store object."""

    def __init__(self, container: Container, network: Network) -> None:
        self._items = self._requests = SimItems(container, network)

    async def due(self, now: datetime, limit: int, continuation: str | None = None) -> Page:
        selection = Selection.due(now)
        moment = selection.parameters["@now"]
        return await self._page_of(selection, lambda d: d.get("dueAt", "~") <= moment, "due", limit, continuation)

    async def list(self, filter: Filter, limit: int, continuation: str | None = None) -> Page:
        return await self._page_of(
            Selection.listed(filter), lambda d: _is_wanted(d, filter), "list", limit, continuation
        )

    async def total(self, filter: Filter) -> int:
        return sum(_is_wanted(document, filter) for document in await self._requests.rows("total"))

    def change_feed(self) -> ChangeFeed:
        raise NotImplementedError("the world delivers changes itself")

    async def close(self) -> None:
        """There is nothing to let go of."""

    async def _page_of(
        self,
        selection: Selection,
        is_wanted: Callable[[Document], bool],
        operation: str,
        limit: int,
        continuation: str | None,
    ) -> Page:
        after, seen = selection._read(continuation)
        sign = -1 if selection.descending else 1
        rows = [d for d in await self._requests.rows(operation) if is_wanted(d)]
        rows.sort(key=lambda d: str(d[selection.by]), reverse=selection.descending)
        if after is not None:
            rows = [d for d in rows if _compare(d[selection.by], after) * sign >= 0]
            rows = [d for d in rows if d[selection.by] != after or d["executionId"] not in seen]
        found = rows[:limit]
        return page_of(found, selection._write(found, after, seen) if len(found) == limit else None)


def _compare(left: str, right: str) -> int:
    return (left > right) - (left < right)


def _is_wanted(document: Document, filter: Filter) -> bool:
    wanted = {name: getattr(filter, name) for name in ("workflow", "status", "outcome")}
    return (
        all(value in (None, document.get(name)) for name, value in wanted.items())
        and (not filter.suspended_with_cause or (document["status"] == "running" and "cause" in document))
        and all(condition.holds(document) for condition in filter.conditions)
    )


def _is_history(document: Document, first: str) -> bool:
    """Whether the query for the history finds it."""
    if document["id"] == EXEC:
        return "lastEvents" in document
    return bool(document["id"] < "history::" or document["id"] >= first)
