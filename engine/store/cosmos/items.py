"""Single requests to a container. Each has the resend policy, session tokens and the engine's errors.

This file doesn't know what the documents mean. Its methods raise StoreError or TooLarge, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from azure.core import MatchConditions
from azure.cosmos.aio import ContainerProxy

from engine.ground.errors import Missing, TooLarge, Unavailable
from engine.store.cosmos.client import counted_as
from engine.store.cosmos.query import partition_page
from engine.store.cosmos.resend import ERRORS, Resend, headers_of
from engine.store.cosmos.schema import MAX_BATCH_BYTES, MAX_DOCUMENT_BYTES
from engine.store.cosmos.sessions import Sessions
from engine.store.documents import Document

T = TypeVar("T")

READS_BACK = 5
"""Stale reads after a refused write before the store gives up. On an account with Session consistency, the default, the
first read is fresh enough."""
PAUSE = 0.1
"""Seconds between two such reads."""
NO_ETAG = '"none"'
"""Matches no document."""


@dataclass(frozen=True)
class Operation:
    """One operation of a transactional batch, as the SDK takes it."""

    kind: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def create(cls, document: Document) -> Operation:
        return cls("create", (document,))

    @classmethod
    def replace(cls, document: Document, etag: str) -> Operation:
        return cls("replace", (document["id"], document), {"if_match_etag": etag or NO_ETAG})

    @classmethod
    def patch(cls, id: str, changes: list[Document], *, predicate: str = "", etag: str = "") -> Operation:
        options = {"filter_predicate": predicate, "if_match_etag": etag}
        return cls("patch", (id, changes), {name: value for name, value in options.items() if value})

    @classmethod
    def delete(cls, id: str, etag: str = "") -> Operation:
        return cls("delete", (id,), {"if_match_etag": etag} if etag else {})

    def as_tuple(self) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The operation as a fresh copy, because the SDK empties the options that it receives."""
        return self.kind, self.arguments, dict(self.options)


class Items:
    """Requests about documents of one partition.

    In each method, `operation` is the name under which `Usage` counts the request. `key` is the value of the partition
    key; documents have it in the field `key_name`. `open` gives the container, and may raise what a request may raise.
    """

    def __init__(
        self, open: Callable[[], Awaitable[ContainerProxy]], retry: Resend, key_name: str = "executionId"
    ) -> None:
        self._open = open
        self._key_name = key_name
        self._sessions = Sessions()
        self.retry = retry

    async def find(self, operation: str, key: str, id: str) -> Document | None:
        """A document, or None."""
        try:
            return await self.read(operation, key, id)
        except Missing:
            return None

    async def read(self, operation: str, key: str, id: str) -> Document:
        """A document. Raises Missing."""

        async def send(container: ContainerProxy) -> Any:
            return await container.read_item(id, key, **self._sessions.options(key))

        return dict(await self._send(operation, key, f"reading {id}", send))

    async def read_back(self, key: str, id: str, is_old: Callable[[Document | None], bool]) -> Document | None:
        """The document after a refused write. `is_old` says whether a version is older than the reason of the refusal;
        such a version is read again. Raises Unavailable after READS_BACK such reads."""
        for reads in range(READS_BACK):
            if reads:
                await self.retry.sleep(PAUSE)
            found = await self.find("read back", key, id)
            if not is_old(found):
                return found
        raise Unavailable(f"{self._key_name} {key}: {id} can't be read in the version that made a write fail")

    async def create(self, operation: str, document: Document) -> str:
        """Create a document. Returns its etag. Raises Taken."""
        _check_sizes([document])

        async def send(container: ContainerProxy) -> Any:
            return await container.create_item(document, no_response=True)

        answer = await self._send(operation, document[self._key_name], f"creating {document['id']}", send)
        return _etag(answer)

    async def replace(self, operation: str, document: Document, etag: str) -> str:
        """Write a new version of a document that still has this etag. Returns the new one. Raises Conflict, Missing."""
        _check_sizes([document])

        async def send(container: ContainerProxy) -> Any:
            return await container.replace_item(
                document["id"],
                document,
                etag=etag or NO_ETAG,
                match_condition=MatchConditions.IfNotModified,
                no_response=True,
            )

        answer = await self._send(operation, document[self._key_name], f"replacing {document['id']}", send)
        return _etag(answer)

    async def patch(
        self, operation: str, key: str, id: str, changes: list[Document], *, predicate: str, etag: str = ""
    ) -> Document:
        """Change a document if the predicate holds, and if it still has `etag`, where one is given. Returns the new
        version. Raises Conflict, Missing."""
        guard: dict[str, Any] = {"etag": etag, "match_condition": MatchConditions.IfNotModified} if etag else {}

        async def send(container: ContainerProxy) -> Any:
            return await container.patch_item(id, key, changes, filter_predicate=predicate, **guard)

        return dict(await self._send(operation, key, f"changing {id}", send))

    async def batch(self, operation: str, key: str, operations: Sequence[Operation]) -> list[Document]:
        """Do all of these operations, or none. Returns the service's answer to each. Raises what the failed operation
        would raise on its own."""
        bodies = [argument for one in operations for argument in one.arguments if isinstance(argument, dict)]
        _check_sizes(bodies)
        what = ", ".join(f"{one.kind} {_name(one)}" for one in operations[:3])

        async def send(container: ContainerProxy) -> Any:
            return await container.execute_item_batch([one.as_tuple() for one in operations], key)

        return list(await self._send(operation, key, f"transaction ({what})", send))

    async def query(self, operation: str, key: str, text: str, **parameters: Any) -> list[Any]:
        """All rows of a query in the partition. After an error only the page that failed is read again."""
        rows: list[Any] = []
        continuation: str | None = None
        while True:

            async def page(container: ContainerProxy, continuation: str | None = continuation) -> Any:
                bound = {f"@{name}": value for name, value in parameters.items()}
                options = self._sessions.options(key)
                return await partition_page(container, key, text, bound, continuation, options)

            items, continuation, headers = await self._send(operation, key, "query", page)
            self._sessions.learn(key, headers)
            rows += items
            if continuation is None:
                return rows

    async def ask(self, operation: str, what: str, request: Callable[[ContainerProxy], Awaitable[T]]) -> T:
        """A request that isn't about one partition."""

        async def once() -> T:
            return await request(await self._open())

        with counted_as(operation):
            return await self.retry(what, once)

    async def _send(self, operation: str, key: str, what: str, request: Callable[[ContainerProxy], Awaitable[T]]) -> T:
        async def learning(container: ContainerProxy) -> T:
            try:
                answer = await request(container)
            except ERRORS as error:
                self._sessions.learn(key, headers_of(error))
                raise
            if hasattr(answer, "get_response_headers"):
                self._sessions.learn(key, answer.get_response_headers())
            return answer

        return await self.ask(operation, f"{self._key_name} {key}: {what}", learning)


def _etag(answer: Any) -> str:
    return str(answer.get_response_headers()["etag"])


def _name(operation: Operation) -> str:
    first = operation.arguments[0]
    return str(first["id"] if isinstance(first, dict) else first)


def _check_sizes(documents: Sequence[Document]) -> None:
    """Raises TooLarge for documents that the service would refuse, before anything is sent."""
    sizes = [len(json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")) for document in documents]
    for document, size in zip(documents, sizes, strict=True):
        if size > MAX_DOCUMENT_BYTES:
            raise TooLarge(f"document {document['id']} takes {size:,} bytes; the limit is {MAX_DOCUMENT_BYTES:,}")
    if sum(sizes) > MAX_BATCH_BYTES:
        names = ", ".join(f"{document['id']}: {size:,}" for document, size in zip(documents, sizes, strict=True))
        raise TooLarge(f"one transaction takes {sum(sizes):,} bytes ({names}); the limit is {MAX_BATCH_BYTES:,}")
