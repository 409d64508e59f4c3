"""The change feed of the container, pulled through the SDK. devhost uses it in place of the Functions host.

1. The feed has ranges of the partition key's hash: one for each physical partition that exists when the first host
   starts. The first host writes the ranges down, once. If a partition splits later, its parts stay within the range.
2. The lease container has a document for each range. It says which host reads the range, and how far the host has come.
   Its etag guards every change. Its id contains the container's resource id, so a new container of the same name starts
   from its beginning.
3. The SDK takes the continuation of a page from the last headers that its client received. So one client pulls pages
   one after the other, and does nothing else.
4. A continuation of this feed is a JSON list of parts of the range: [the SDK's range, the SDK's continuation or null].
   The SDK follows a split by itself once a part has a continuation. Without one, the SDK would write a null into its
   continuation and fail to read it later. So parts without a continuation are first fitted to the present partitions.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from typing import Any
from urllib.parse import quote

from azure.cosmos.aio import ContainerProxy

from engine.ground.errors import Conflict, Missing, Taken
from engine.store.cosmos.client import Connection, counted_as
from engine.store.cosmos.items import Items
from engine.store.cosmos.resend import Resend
from engine.store.cosmos.schema import LEASES, LEASES_PARTITION_KEY, PARTITION_KEY
from engine.store.documents import Document
from engine.store.feed import FeedLease, FeedLeaseLost

Range = dict[str, Any]
"""A span of hashes. Only the SDK knows its form."""
Part = list[Any]
"""[Range, the SDK's continuation]. The continuation is None before the first read."""

_log = logging.getLogger("engine")


class CosmosFeed:
    """The change feed, with the latest version of each document. `connection` serves the leases. `pulling` serves the
    feed alone; `close` closes it."""

    def __init__(self, connection: Connection, pulling: Connection, retry: Resend) -> None:
        self._connection = connection
        self._pulling = pulling
        self._retry = retry
        self._items = Items(self._leases_container, retry, "id")
        self._one_page_at_a_time = asyncio.Lock()
        self._prefix = ""
        self._ranges: list[Range] = []

    async def leases(self) -> list[FeedLease]:
        await self._prepare()
        return [await self._lease(number) for number in range(len(self._ranges))]

    async def renew(
        self, lease: FeedLease, owner: str | None, expires_at: float, continuation: str | None
    ) -> FeedLease:
        await self._prepare()
        document = self._document(lease.range, owner, expires_at, continuation)
        try:
            etag = await self._items.replace("feed leases", document, lease.version)
        except (Conflict, Missing):
            found = await self._items.find("read back", document["id"], document["id"])
            if found is None or found.get("writeId") != document["writeId"]:
                raise FeedLeaseLost(f"range {lease.range} of the change feed was leased again") from None
            etag = found["_etag"]
        return FeedLease(lease.range, owner, expires_at, continuation, etag)

    async def read(self, range: str, continuation: str | None, limit: int) -> tuple[list[Document], str]:
        await self._prepare()
        parts: list[Part] = json.loads(continuation) if continuation else [[self._ranges[int(range)], None]]

        async def pull() -> tuple[list[Document], str]:
            return await self._pull(parts, limit)

        async with self._one_page_at_a_time:
            with counted_as("feed"):
                documents, behind = await self._retry(f"range {range} of the change feed", pull)
        return documents, behind or continuation or ""

    async def close(self) -> None:
        """Close the client that pulls."""
        await self._pulling.close()

    # -- inside --

    async def _pull(self, parts: list[Part], limit: int) -> tuple[list[Document], str]:
        """The next page of the first part that has one, and the continuation after it, in which that part comes
        last."""
        container = await self._pulling.executions()
        parts = await self._fitted(container, parts)
        for number, (range, token) in enumerate(parts):
            try:
                documents, behind = await self._page(container, range, token, limit)
            except ValueError as error:
                if token is None:
                    raise
                # The partition split during this part's first page, and the SDK can't read its own continuation. So the
                # part is read from its beginning: documents may come twice, but none is lost.
                _log.warning("reading a part of the change feed from its beginning again: %s", error)
                return await self._pull([*parts[:number], [range, None], *parts[number + 1 :]], limit)
            if documents:
                return documents, json.dumps([*parts[number + 1 :], *parts[:number], [range, behind]])
        return [], ""

    async def _fitted(self, container: ContainerProxy, parts: list[Part]) -> list[Part]:
        fitted: list[Part] = []
        for range, token in parts:
            inside = []
            if token is None:
                found = [one async for one in container.read_feed_ranges()]
                inside = [one for one in found if await container.is_feed_range_subset(range, one)]
            fitted += [[one, None] for one in inside] or [[range, token]]
        return fitted

    async def _page(
        self, container: ContainerProxy, range: Range, token: str | None, limit: int
    ) -> tuple[list[Document], str | None]:
        where: dict[str, Any] = {"feed_range": range, "start_time": "Beginning"}
        if token is not None:
            where = {"continuation": token}
        pages = container.query_items_change_feed(**where, max_item_count=limit).by_page()
        try:
            documents = [dict(document) async for document in await anext(pages)]
        except StopAsyncIteration:
            return [], token
        return documents, str(pages.continuation_token)  # type: ignore[attr-defined]

    async def _leases_container(self) -> ContainerProxy:
        return (await self._connection.container(LEASES, LEASES_PARTITION_KEY))[0]

    async def _lease(self, number: int) -> FeedLease:
        id = self._id(str(number))
        found = await self._items.read("feed leases", id, id)
        return FeedLease(str(number), found.get("owner"), found["expiresAt"], found.get("continuation"), found["_etag"])

    async def _prepare(self) -> None:
        """Agree with other hosts on the ranges, and create the leases that are missing."""
        if self._ranges:
            return
        with counted_as("feed leases"):
            found, rid = await self._retry("the change feed's ranges", self._find_ranges)
        self._prefix = f"devhost::{quote(rid, safe='')}"
        ranges = await self._create({"id": self._id("ranges"), "ranges": found})
        for number in range(len(ranges["ranges"])):
            await self._create(self._document(str(number), None, 0, None))
        self._ranges = ranges["ranges"]

    async def _find_ranges(self) -> tuple[list[Range], str]:
        container, rid = await self._connection.container(self._connection.account.container, PARTITION_KEY)
        return [one async for one in container.read_feed_ranges(force_refresh=True)], rid

    async def _create(self, document: Document) -> Document:
        """The document that another host created under this id, or else this one."""
        try:
            await self._items.create("feed leases", document)
        except Taken:
            return await self._items.read("feed leases", document["id"], document["id"])
        return document

    def _document(self, range: str, owner: str | None, expires_at: float, continuation: str | None) -> Document:
        values = {"owner": owner, "expiresAt": expires_at, "continuation": continuation}
        present = {name: value for name, value in values.items() if value is not None}
        return {"id": self._id(range), "writeId": uuid.uuid4().hex, **present}

    def _id(self, name: str) -> str:
        return f"{self._prefix}::{name}"
