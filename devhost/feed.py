"""The Cosmos DB trigger: takes this host's share of the change feed's ranges and reads each of them.

Hosts that share a store know each other only by their leases. After a host dies, its ranges become free when their
leases expire. A host that stops in good order releases its leases at once.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

from devhost.balance import leases_to_take
from devhost.clock import Clock, backoff
from devhost.functions import Function
from devhost.invoke import Invoker
from devhost.reader import HeldLease, RangeReader
from engine.store.feed import ChangeFeed, FeedLease, FeedLeaseLost

T = TypeVar("T")

LEASE_SECONDS = 5.0
"""How long a range stays unread after its host died. A host renews and balances its leases after each third of this."""

_log = logging.getLogger("devhost")


class FeedListener:
    """Reads the change feed that `open_feed` returns, and hands it to the app's feed function."""

    def __init__(
        self,
        open_feed: Callable[[], Awaitable[ChangeFeed]],
        function: Function,
        invoker: Invoker,
        clock: Clock,
        lifetime: float = LEASE_SECONDS,
    ) -> None:
        self._open_feed, self._function = open_feed, function
        self._invoker, self._clock, self._lifetime = invoker, clock, lifetime
        self._owner = uuid.uuid4().hex
        self._ended = asyncio.Event()
        self._readers: dict[str, tuple[RangeReader, asyncio.Task[None]]] = {}

    @property
    def ranges(self) -> list[str]:
        """The ranges that this host reads."""
        return sorted(self._readers)

    def stop(self) -> None:
        """Takes no further range and starts no further batch."""
        self._ended.set()
        for reader, _ in self._readers.values():
            reader.stop()

    async def run(self) -> None:
        """Reads until `stop`. If the store can't be reached, waits until it can.

        Returns when the current batches have ended and every lease is released. A cancellation cancels the current
        batches, and releases their leases without a checkpoint.
        """
        try:
            feed = await self._patiently(self._open_feed, "the change feed can't be opened")
            while feed is not None and not self._ended.is_set():
                leases = await self._patiently(feed.leases, "the leases of the change feed can't be read")
                if leases is not None:
                    await self._balance(feed, leases)
                await self._clock.wait(self._ended, self._lifetime / 3)
        except asyncio.CancelledError:
            for _, task in self._readers.values():
                task.cancel()
            raise
        finally:
            self.stop()
            # If a cancellation comes now, gather passes it on to the readers, and waits for them.
            await asyncio.gather(*(task for _, task in self._readers.values()), return_exceptions=True)

    async def _balance(self, feed: ChangeFeed, leases: list[FeedLease]) -> None:
        now = self._clock.time()
        for lease in leases_to_take(leases, self._owner, now, self._readers.keys()):
            if self._ended.is_set():
                return
            try:
                taken = await feed.renew(lease, self._owner, now + self._lifetime, lease.continuation)
            except FeedLeaseLost:
                continue  # another host was faster
            except Exception as error:  # noqa: BLE001 - a store fails in many ways; the next turn tries again
                _log.warning("range %s of the change feed can't be taken: %r", lease.range, error)
                return
            self._start(feed, taken)

    def _start(self, feed: ChangeFeed, lease: FeedLease) -> None:
        held = HeldLease(feed, lease, self._owner, self._clock, self._lifetime)
        reader = RangeReader(feed, held, self._function, self._invoker, self._clock, self._lifetime)
        task = asyncio.create_task(reader.run(), name=f"range {lease.range}")
        self._readers[lease.range] = (reader, task)
        task.add_done_callback(lambda task: self._forget(lease.range, task))
        if self._ended.is_set():
            reader.stop()
        _log.info("reading range %s of the change feed", lease.range)

    def _forget(self, range: str, task: asyncio.Task[None]) -> None:
        del self._readers[range]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the reader of range %s of the change feed failed", range, exc_info=error)

    async def _patiently(self, ask: Callable[[], Awaitable[T]], complaint: str) -> T | None:
        """Calls `ask` until the store answers. Returns the answer, or None if this listener stops before that."""
        failures = 0
        while not self._ended.is_set():
            try:
                return await ask()
            except Exception as error:  # noqa: BLE001 - a store fails in many ways; the feed waits for it
                failures += 1
                _log.warning("%s: %r", complaint, error)
                await self._clock.wait(self._ended, backoff(failures))
        return None
