"""Reads one range of the change feed while this host holds the range's lease.

1. The function gets the batches of a range in order, one at a time.
2. The checkpoint is written after the function has returned. If the host dies in between, the next host hands over the
   same batch again. So the function gets each batch at least once.
3. If the function fails and no retry is left, the checkpoint is written all the same. The batch is lost, as on the
   platform.
4. After it has lost the lease, this host starts no batch and writes nothing.
"""

from __future__ import annotations

import asyncio
import logging

from devhost.clock import Clock, backoff
from devhost.functions import FeedTrigger, Function
from devhost.invoke import Invoker, decode
from devhost.retry import Attempt, Outcome, run_with_retries
from engine.store.feed import ChangeFeed, FeedLease, FeedLeaseLost

_log = logging.getLogger("devhost")


class HeldLease:
    """A lease that this host has taken, and the position in its range. `lifetime` is in seconds."""

    def __init__(self, feed: ChangeFeed, lease: FeedLease, owner: str, clock: Clock, lifetime: float) -> None:
        self.range = lease.range
        self.continuation = lease.continuation
        """The position after the last batch. The next change of the lease stores the position."""
        self.is_lost = False
        self._feed, self._lease, self._owner = feed, lease, owner
        self._clock, self._lifetime = clock, lifetime
        # Each change needs the version that the previous change returned, so changes can't overlap.
        self._one_at_a_time = asyncio.Lock()

    @property
    def is_expired(self) -> bool:
        """Whether another host may have taken the lease by now."""
        return self._lease.expires_at <= self._clock.time()

    async def extend(self) -> None:
        """Makes the lease last another lifetime, and stores the position in the range. Raises FeedLeaseLost, and the
        store's own errors."""
        await self._change(self._owner, self._clock.time() + self._lifetime)

    async def release(self) -> None:
        """Gives the lease up, so that another host may take the range. Raises as `extend` does."""
        await self._change(None, 0)

    async def _change(self, owner: str | None, expires_at: float) -> None:
        async with self._one_at_a_time:
            if self.is_lost:
                raise FeedLeaseLost(f"range {self.range}")
            try:
                self._lease = await self._feed.renew(self._lease, owner, expires_at, self.continuation)
            except FeedLeaseLost:
                self.is_lost = True
                _log.info("another host reads range %s of the change feed now", self.range)
                raise


class RangeReader:
    """Hands the batches of one range to the feed function, until it is stopped or loses its lease."""

    def __init__(
        self,
        feed: ChangeFeed,
        lease: HeldLease,
        function: Function,
        invoker: Invoker,
        clock: Clock,
        lifetime: float,
    ) -> None:
        assert isinstance(function.trigger, FeedTrigger)
        self._feed, self._lease, self._function = feed, lease, function
        self._trigger = function.trigger
        self._invoker, self._clock, self._lifetime = invoker, clock, lifetime
        self._ended = asyncio.Event()
        """Set when no further batch and no further attempt may start."""
        self._finished = asyncio.Event()
        """Set when no batch runs any more. The lease needs no further renewal."""

    def stop(self) -> None:
        """Starts no further batch."""
        self._ended.set()

    async def run(self) -> None:
        """Reads until `stop`, or until the lease is lost. Returns when the current batch has ended and the lease is
        released."""
        renewal = asyncio.create_task(self._keep_lease())
        try:
            await self._read_on()
        except FeedLeaseLost:
            pass
        finally:
            self._finished.set()
            await renewal
            await self._let_go()

    async def _read_on(self) -> None:
        failures = 0
        while not self._ended.is_set():
            try:
                documents, behind = await self._feed.read(
                    self._lease.range, self._lease.continuation, self._trigger.max_items
                )
            except Exception as error:  # noqa: BLE001 - a store fails in many ways; the feed waits for it
                failures += 1
                _log.warning("range %s of the change feed can't be read: %r", self._lease.range, error)
                await self._clock.wait(self._ended, backoff(failures))
                continue
            failures = 0
            if not documents:
                await self._clock.wait(self._ended, self._trigger.poll_seconds)
            elif not self._ended.is_set() and await self._hand_over(documents):
                await self._checkpoint(behind)

    async def _hand_over(self, documents: list[dict[str, object]]) -> bool:
        """Hands a batch to the function. Returns whether the range may go on to the next batch."""

        async def call(attempt: Attempt) -> object:
            # Each attempt decodes anew, because a function may change its argument.
            return await self._invoker.call(self._function, decode(self._function, documents), attempt)

        what = f"feed function {self._function.name} ({len(documents)} documents of range {self._lease.range})"
        outcome = await run_with_retries(call, self._function.retry, self._clock, self._ended, what)
        if outcome is Outcome.FAILED and not self._ended.is_set():
            _log.error(
                "%d documents of range %s are lost, as on the platform: %s has no retry left",
                len(documents),
                self._lease.range,
                self._function.name,
            )
            return True
        return outcome is Outcome.SUCCEEDED

    async def _checkpoint(self, behind: str) -> None:
        self._lease.continuation = behind
        try:
            await self._lease.extend()
        except FeedLeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - a store fails in many ways
            # The next renewal stores the checkpoint. A crash before that only repeats the batch.
            _log.warning("the checkpoint of range %s isn't stored yet: %r", self._lease.range, error)

    async def _keep_lease(self) -> None:
        while not await self._clock.wait(self._finished, self._lifetime / 3):
            try:
                await self._lease.extend()
            except FeedLeaseLost:
                self._ended.set()
                return
            except Exception as error:  # noqa: BLE001 - a store fails in many ways; the next third tries again
                _log.warning("the lease of range %s can't be renewed: %r", self._lease.range, error)
                if self._lease.is_expired:
                    self._lease.is_lost = True
                    self._ended.set()
                    return

    async def _let_go(self) -> None:
        try:
            await self._lease.release()
        except FeedLeaseLost:
            pass
        except Exception as error:  # noqa: BLE001 - the lease expires by itself
            _log.warning("the lease of range %s can't be released: %r", self._lease.range, error)
