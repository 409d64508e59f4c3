"""Hosts that share one change feed, and what their feed functions do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import azure.functions as func

from devhost.feed import FeedListener
from devhost.functions import Function
from devhost.invoke import Invoker
from devhost.retry import RetryPolicy
from engine.store.feed import ChangeFeed
from tests.devhost.support import Bench, FakeClock

FOREVER = RetryPolicy(None, 1, 1)


class Drive:
    """The feed function of one host: notes the ids it is given, and does what `then` says."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.then: Callable[[], Any] | None = None

    async def drive(self, documents: func.DocumentList) -> None:
        self.batches.append([document["id"] for document in documents])
        if self.then is not None:
            await self.then()

    @property
    def ids(self) -> list[str]:
        return [id for batch in self.batches for id in batch]


class Site:
    """Starts hosts on one feed."""

    def __init__(self, bench: Bench, clock: FakeClock) -> None:
        self.bench, self.clock = bench, clock
        self.invoker = Invoker(clock, None)
        self.hosts: list[tuple[FeedListener, asyncio.Task[None]]] = []

    def start(self, function: Function) -> tuple[FeedListener, asyncio.Task[None]]:
        async def open_feed() -> ChangeFeed:
            if self.bench.down:
                raise OSError("the store is away")
            return self.bench.open()

        listener = FeedListener(open_feed, function, self.invoker, self.clock)
        task = asyncio.create_task(listener.run())
        self.hosts.append((listener, task))
        return listener, task

    async def lease(self, range: int = 0) -> Any:
        return (await self.bench.open().leases())[range]

    async def checkpoints(self) -> list[str | None]:
        return [lease.continuation for lease in await self.bench.open().leases()]


class Failing:
    """Fails that many times."""

    def __init__(self, times: float) -> None:
        self.left = times

    async def __call__(self) -> None:
        if self.left > 0:
            self.left -= 1
            raise ValueError("bad batch")
