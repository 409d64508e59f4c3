"""The client of Cosmos DB. The first use makes it, inside the running event loop.

The engine switches off three habits of the SDK (azure-cosmos 4.17):
- The SDK repeats a write whose connection broke or whose answer is late. It then reports a conflict with its own first
  try. `retry_connect=0, retry_read=0` stop that. aiohttp still repeats a PUT or DELETE once, on a connection that the
  service has closed. So the store reads the document back after every refused write.
- The SDK waits for the end of a 429 by itself, up to 9 times. `retry_throttle_total=-1` stops that (the SDK reads 0 as
  "not given").
- The SDK writes `é` as `\\u00e9`, so a document far below 2 MB can make a request above 2 MB.
  `enable_compact_utf8_item_writes` stops that.

The SDK still sends a request again after a 503, and a read after a 408 or 5xx, once. It still moves to another region
when a region is away. These repetitions are safe.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import io
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.pipeline.transport import AioHttpTransport
from azure.cosmos.aio import ContainerProxy, CosmosClient
from azure.identity.aio import DefaultAzureCredential

from engine.ground import telemetry
from engine.ground.errors import Unavailable
from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.resend import Meaning, Trouble
from engine.store.cosmos.schema import PARTITION_KEY
from engine.store.cosmos.usage import METADATA, Usage

_operation: contextvars.ContextVar[str] = contextvars.ContextVar("cosmos_operation", default=METADATA)

_http_log = logging.getLogger("engine.store.cosmos.store.http")
"""The SDK logs a dozen lines for each request at INFO. They would hide everything else."""
_http_log.setLevel(logging.WARNING)

LARGE_BODY = 2**20
"""Bytes. aiohttp writes a larger body without holding up the loop only if the body is a file."""
SET_UP = "the infrastructure creates it; for an emulator, `python -m engine.store.cosmos init` does"


class CountingTransport(AioHttpTransport):  # type: ignore[misc]  # the SDK loads it lazily, untyped
    """Counts each request, and the request units that its answer reports."""

    def __init__(self, usage: Usage) -> None:
        # For settings of the environment aiohttp asks two threads at each request: for a proxy, and for a password.
        super().__init__(use_env_settings=bool(getproxies()))
        self._usage = usage

    async def send(self, request: Any, **config: Any) -> Any:
        about_items = "/docs" in urlsplit(request.url).path
        operation = _operation.get() if about_items else METADATA
        counters = self._usage.of(operation)
        counters.requests += 1
        body = request.data
        if isinstance(body, bytes) and len(body) > LARGE_BODY:
            request.data = io.BytesIO(body)
        with telemetry.request(operation) as marks:
            try:
                response = await super().send(request, **config)
            except BaseException:
                counters.failed += 1
                raise
            finally:
                request.data = body  # the SDK may send it again
            charge = float(response.headers.get("x-ms-request-charge") or 0)
            marks.answered(response.status_code, charge)
        counters.request_units += charge
        counters.failed += response.status_code >= 400
        return response


@contextlib.contextmanager
def counted_as(operation: str) -> Iterator[None]:
    """Requests inside are counted under this name."""
    token = _operation.set(operation)
    try:
        yield
    finally:
        _operation.reset(token)


class Connection:
    """A client of an account, with its credential and containers. It belongs to one event loop."""

    def __init__(self, account: CosmosAccount, usage: Usage) -> None:
        self.account = account
        self._usage = usage
        self._opening = asyncio.Lock()
        self._finding = asyncio.Lock()
        self._client: CosmosClient | None = None
        self._credential: AsyncTokenCredential | None = None
        self._containers: dict[str, tuple[ContainerProxy, str]] = {}

    async def client(self) -> CosmosClient:
        """The client, opened. Raises what a request may raise."""
        async with self._opening:
            if self._client is None:
                client = self._make()
                try:
                    await client.__aenter__()
                except BaseException:
                    await self._close(client)
                    raise
                self._client = client
            return self._client

    async def executions(self) -> ContainerProxy:
        """The container of executions. Raises Unavailable if there is none, or if its partition key is another one, and
        what a request may raise."""
        return (await self.container(self.account.container, PARTITION_KEY))[0]

    async def container(self, name: str, partition_key: str) -> tuple[ContainerProxy, str]:
        """A container and its resource id. A container that is deleted and made again gets another resource id."""
        async with self._finding:
            if name not in self._containers:
                self._containers[name] = await self._find(name, partition_key)
            return self._containers[name]

    async def close(self) -> None:
        """Close the client. The next use opens another."""
        client, self._client = self._client, None
        self._containers.clear()
        if client is not None:
            await self._close(client)

    async def _close(self, client: CosmosClient) -> None:
        credential, self._credential = self._credential, None
        await client.close()
        if credential is not None:
            await credential.close()

    def _make(self) -> CosmosClient:
        account = self.account
        credential: str | AsyncTokenCredential
        if account.key is not None:
            credential = account.key
        else:
            credential = self._credential = DefaultAzureCredential(managed_identity_client_id=account.client_id)
        return CosmosClient(
            account.endpoint,
            credential,
            connection_timeout=account.connect_timeout,
            read_timeout=account.read_timeout,
            retry_connect=0,
            retry_read=0,
            retry_throttle_total=-1,
            enable_compact_utf8_item_writes=True,
            user_agent_suffix="durable-workflows",
            transport=CountingTransport(self._usage),
            logger=_http_log,
        )

    async def _find(self, name: str, partition_key: str) -> tuple[ContainerProxy, str]:
        database = self.account.database
        proxy = (await self.client()).get_database_client(database).get_container_client(name)
        try:
            properties = await proxy.read()
        except Exception as error:
            if Trouble.of(error).meaning in (Meaning.MISSING, Meaning.NO_CONTAINER):
                raise Unavailable(
                    f"Cosmos DB account {self.account.endpoint} has no database {database!r} with a container "
                    f"{name!r}: {SET_UP}"
                ) from error
            raise
        paths = properties["partitionKey"]["paths"]
        if paths != [partition_key]:
            raise Unavailable(
                f"container {name!r} of database {database!r} is partitioned by {', '.join(paths)}, not by "
                f"{partition_key}: it can't be used. {SET_UP[0].upper()}{SET_UP[1:]}"
            )
        return proxy, str(properties["_rid"])
