"""The lease: one driver's hold on an execution, and all reads and writes of that driver.

Invariants:
1. Claim first, then load. Read the exec document first, then the inbox. `seen_wake` is the `wake` of an exec version
   that was in hand before the inbox was read. The other order loses wake-ups.
2. A driver that found an expired lease appends a Takeover before anything else. From then on the driver before it can't
   append: its next chunk collides. If the new driver has to let go before it could seal the log (the partition can't be
   loaded), it leaves its token in `worker`, without a lease. The next driver then seals the log.
3. A driver that finds that it no longer holds the lease (a chunk is Taken, the exec document names another worker)
   raises LeaseLost and writes nothing more.
4. A query's pages are no snapshot, and a replica may lag. So a read counts only if it has at least as many chunks and
   inbox items as the exec document in hand says.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from engine.driving.chunking import MAX_CHUNK_BYTES, grouped, size_of
from engine.driving.claim import Claim
from engine.driving.inbox import Inbox
from engine.ground.clock import Clock
from engine.ground.errors import Conflict, Missing, MissingDocument, Taken
from engine.ground.settings import Settings
from engine.store import transitions
from engine.store.base import MAX_DISCARD, MAX_READS, Loaded, Store, payload_of, wait_for_replica
from engine.store.documents import INPUT, Chunk, Heartbeat, InboxItem, Large, chunk_id, is_large, new_run_id, of_run
from engine.store.transitions import Fields, Replacement
from engine.values.events import Event, Restarted, Takeover, effective

MAX_LAST_BYTES = 2_048
"""The most bytes of last events that lie in the exec document of an execution that has ended. That document is read
and listed, so it stays small."""

EVENTS_AT_A_TIME = 200
"""Events that are decoded, replayed or delivered before other executions of the process get a turn."""


class LeaseLost(Exception):
    """Another driver holds the execution, or the execution has ended. The drive stops and writes nothing more."""


class Lease:
    """A driver's hold on the execution of its claim. Not for concurrent use: one flow of control makes all calls, one
    after the other."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, claim: Claim) -> None:
        claimed = self.execution = claim.execution
        self.inbox = Inbox()
        expires_at = claimed.lease_expires_at or clock.now()
        self.heartbeat_at = expires_at - settings.lease + settings.heartbeat
        """When to extend the lease. The time counts from the request of the lease, not from the answer."""
        self.token = claimed.worker or ""
        self.displayed: Fields = {}
        """What the code shows of itself, as far as its events are recorded. Each heartbeat writes it."""
        self._store = store
        self._clock = clock
        self._settings = settings
        self._length = 0
        self._newest_wake = 0
        self._is_loaded = claim.is_fresh
        """Whether the partition was read, or needs no reading because nothing has happened yet."""
        self._has_input = False
        self._read_before: frozenset[str] = frozenset()
        """The write ids of inbox items that the run before has read. They are deleted; a replica may still show
        them."""
        self._discarded: set[str] = set()
        """The write ids of items that this driver has deleted for a restart."""
        self._place: str | None = None
        self._is_sealed = not claim.is_takeover
        """Whether no earlier driver can append any more."""

    def notice(self, wake: int) -> bool:
        """Note that an exec document with this `wake` exists. Returns whether that is news."""
        news = wake > max(self.execution.wake, self._newest_wake)
        self._newest_wake = max(self._newest_wake, wake)
        return news

    @property
    def is_behind(self) -> bool:
        """Whether there is news that this driver has not taken in."""
        return self._newest_wake > self.execution.wake

    async def load(self) -> tuple[str, list[Event]]:
        """Seal the log if this is a takeover, and read the partition. Returns the payload and the events.

        Raises LeaseLost, MissingDocument, DecodingError, StoreError.
        """
        loaded = await self._read_partition()
        while not self._is_sealed:
            if self._clock.now() >= self.heartbeat_at:
                await self.extend()  # a driver that stood still since its claim must not lock out the next one
                if len(loaded.inbox) < self.execution.inbox_count:  # items arrived after the read
                    loaded = await self._read_partition()
                continue
            seal = self._chunk(self._start + len(loaded.chunks), [Takeover(self._clock.now(), self.token)])
            try:
                await self._store.append(seal)
            except Taken:
                loaded = await self._read_partition()
            else:
                loaded.chunks.append(seal)
                self._is_sealed = True
        self._take_inbox(loaded)
        self._length = self._start + len(loaded.chunks)
        self._is_loaded = True
        events = [await _decoded(chunk) for chunk in loaded.chunks]
        beyond = [event for chunk in events[self.execution.history_length - self._start :] for event in chunk]
        progress = [number for number, event in enumerate(beyond) if not isinstance(event, Takeover)]
        if progress:  # only the claims since the last progress count; each has left a Takeover
            claims, since = self.execution.claims, len(beyond) - 1 - progress[-1]
            self.execution = self.execution.model_copy(update={"claims": max(1, min(claims, since))})
            if claims > self._settings.max_claims:  # write the new count at once, in case this driver dies
                self.heartbeat_at = self._clock.now()
        await self._prune()
        history = effective(event for chunk in events for event in chunk)
        return payload_of(self.execution, loaded, history) or "null", history

    async def append(self, events: list[Event]) -> None:
        """Add events to the history. Raises LeaseLost, StoreError."""
        for group in grouped(events):
            try:
                await self._store.append(self._chunk(self._length, group))
            except Taken:
                raise LeaseLost("the history was continued by another driver") from None
            self._length += 1

    async def let_go(self, transition: Replacement, events: list[Event], output: Large | None = None) -> bool:
        """Write the last events and the transition that ends the hold. False if there was news: the news has been taken
        in, the lease is still held, and `events` holds the events that are not written yet. Raises LeaseLost,
        StoreError."""
        groups = grouped(events)
        alone = bool(groups) and (output is not None or sum(map(size_of, groups[-1])) > MAX_CHUNK_BYTES)
        for group in groups if alone else groups[:-1]:
            await self.append(group)
            del events[: len(group)]
        last = self._chunk(self._length, events) if events else None
        length = max(self._length + (last is not None), self.execution.history_length)
        ending = transition.also(history_length=length)
        if last is not None and transitions.ends(transition) and sum(map(size_of, events)) <= MAX_LAST_BYTES:
            ending, last = ending.also(last_events=tuple(last.events)), None
        if not self._is_sealed:
            ending = ending.also(worker=self.token)
        try:
            self.execution = await self._store.commit(ending.apply(self.execution), last, output)
        except Conflict:
            await self.refresh()
            return False
        except (Taken, Missing) as error:
            raise LeaseLost(str(error)) from None
        return True

    async def restart(self, payload: str, read: Sequence[InboxItem], now: datetime, displayed: Fields) -> bool:
        """Let go, so that the next driver begins a new run.

        payload: the payload of the new run, as JSON text.
        read: the inbox items that this run has read. They are deleted. If there are too many for one transaction, the
            caller must have recorded all events of the run before.
        now: when the new run begins, no earlier than the time that this run saw.
        displayed: what this run's code has shown of itself. It stays.

        False if there was news, as in `let_go`. Raises LeaseLost, StoreError.
        """
        left = [item.id for item in read]
        try:
            while len(left) >= MAX_DISCARD:
                discarding = transitions.discard(self.token, MAX_DISCARD, self._clock.now())
                await self._delete(discarding, left[:MAX_DISCARD])
                self._discarded |= {item.write_id for item in read[:MAX_DISCARD]}
                left, read = left[MAX_DISCARD:], read[MAX_DISCARD:]
            run_id, inline = new_run_id(), None if is_large(payload) else payload
            deleted = self._discarded | {item.write_id for item in read}
            began = Restarted(now, payload, tuple(sorted(deleted)))
            first = Chunk.of(self.execution.execution_id, self._length, [began], run_id)
            gone = [*left, INPUT] if self._has_input else left
            restart = transitions.restart(self.token, inline, run_id, self._length, len(left), now)
            restarted = restart.also(history_length=self._length + 1, **displayed).apply(self.execution)
            self.execution = await self._store.commit(restarted, first, None, gone)
        except Conflict:
            await self.refresh()
            return False
        except (Taken, Missing) as error:
            raise LeaseLost(str(error)) from None
        return True

    async def _prune(self) -> None:
        """Delete history chunks of earlier runs. If another write comes in between, the next driver continues."""
        try:
            while (first := self.execution.stale_from) < self._start:
                numbers = range(first, min(first + MAX_DISCARD, self._start))
                pruning = transitions.prune(self.token, numbers.stop, self._clock.now())
                await self._delete(pruning, [chunk_id(number) for number in numbers])
        except Conflict:
            await self.refresh()
        except Missing as error:
            raise LeaseLost(str(error)) from None

    async def _delete(self, transition: Replacement, ids: Sequence[str]) -> None:
        self.execution = await self._store.commit(transition.apply(self.execution), None, None, ids)
        self.inbox.remove(ids)

    async def extend(self, heartbeats: Mapping[str, Heartbeat] | None = None) -> None:
        """The heartbeat of the lease. It also writes those of the activities, if they are given. Raises LeaseLost,
        StoreError."""
        settings, known = self._settings, self.execution
        for reads in range(MAX_READS):
            now, refused = self._clock.now(), self.execution.etag
            extension = transitions.extend(self.token, now, settings.lease, settings.skew)
            extension = extension.also(at_work=self._place, **self.displayed)
            if heartbeats is not None:
                extension = extension.also(heartbeats=dict(heartbeats))
            try:
                self.execution = await self._store.replace(extension.apply(self.execution))
                self.heartbeat_at = now + settings.heartbeat
                break
            except Conflict:  # read the inbox only when the lease is safe: a stream of news leaves no time before
                await self._reread()
            except Missing as error:
                raise LeaseLost(str(error)) from None
            if self.execution.etag == refused:
                await wait_for_replica(self._clock, reads)
        if self.execution.wake != known.wake and self._is_loaded:
            self._take_inbox(await self._read_partition(self._length))

    async def note_place(self, place: str | None) -> None:
        """Store where the workflow's code is at work, with a heartbeat. Raises LeaseLost, StoreError."""
        if place != self._place:
            self._place = place
            await self.extend()

    async def uncount_claim(self) -> None:
        """Take this claim out of the count of claims without progress: its driver lives, and stops because of the
        store. The lease runs on until it expires, so that nobody tries again at once. Raises LeaseLost, StoreError."""
        for _ in range(MAX_READS):
            with contextlib.suppress(Conflict):
                uncounting = transitions.uncount_claim(self.token, self._clock.now())
                self.execution = await self._store.replace(uncounting.apply(self.execution))
                return
            await self._reread()

    async def refresh(self) -> None:
        """Take in what others wrote. If this driver was notified of a version, read until that version has come. If
        not, read until the version differs from the one in hand. Raises LeaseLost if another driver holds the
        execution, MissingDocument, StoreError."""
        known, is_notified = self.execution, self.is_behind
        for reads in range(MAX_READS):
            await self._reread()
            if not self.is_behind if is_notified else self.execution.etag != known.etag:
                break
            await wait_for_replica(self._clock, reads)
        self._newest_wake = min(self._newest_wake, self.execution.wake)
        if self._is_loaded:
            self._take_inbox(await self._read_partition(self._length))

    async def _reread(self) -> None:
        try:
            fresh = await self._store.read(self.execution.execution_id)
        except Missing as error:
            raise LeaseLost(str(error)) from None
        if fresh.worker != self.token or fresh.is_complete:
            raise LeaseLost("another driver holds it, or it has ended")
        # Only the holder of the lease changes the count of claims.
        self.execution = fresh.model_copy(update={"claims": self.execution.claims})

    @property
    def _start(self) -> int:
        return self.execution.history_start

    async def _read_partition(self, from_chunk: int | None = None) -> Loaded:
        expected, from_chunk = self.execution, self._start if from_chunk is None else from_chunk
        for reads in range(MAX_READS):
            loaded = await self._store.load(expected.execution_id, from_chunk)
            loaded.check()
            loaded = replace(loaded, chunks=of_run(loaded.chunks, expected.run_id, from_chunk))
            self._learn_what_was_read(loaded.chunks)
            numbers = [chunk.number for chunk in loaded.chunks]
            whole = numbers == list(range(from_chunk, from_chunk + len(numbers)))
            whole = whole and from_chunk + len(numbers) >= expected.history_length
            inbox = [item for one in loaded.inbox if (item := await self._present(one)) is not None]
            loaded, enough = replace(loaded, inbox=inbox), len(inbox) >= expected.inbox_count
            if whole and enough and (expected.payload is not None or loaded.input is not None or expected.restarts):
                self._has_input = loaded.input is not None
                return loaded
            await wait_for_replica(self._clock, reads)
        raise MissingDocument(
            f"the partition holds history chunks {numbers[:3]}…({len(numbers)}) and {len(loaded.inbox)} inbox "
            f"documents, but the execution counts {expected.history_length} and {expected.inbox_count}: some "
            "were deleted"
        )

    def _learn_what_was_read(self, chunks: list[Chunk]) -> None:
        if chunks and chunks[0].number == self._start:
            began = chunks[0].decoded(0, 1)
            if began and isinstance(began[0], Restarted):
                self._read_before = frozenset(began[0].read)

    def _was_read(self, item: InboxItem) -> bool:
        """Whether the run before has read the item, or this driver has deleted it for a restart."""
        return item.write_id in self._read_before or item.write_id in self._discarded

    def _is_older(self, item: InboxItem) -> bool:
        """Whether the item was sent before this execution was created, so perhaps to a purged one with its id."""
        return item.at < self.execution.created_at - self._settings.skew

    async def _present(self, item: InboxItem) -> InboxItem | None:
        """The item as it stands. One that the run before has read, or that was sent to a purged run, is deleted: then a
        replica lags. Or a repeated request has sent it once more: then it counts as any other."""
        if not (self._was_read(item) or self._is_older(item)):
            return item
        try:
            return await self._store.read_inbox(item.execution_id, item.id)
        except Missing:
            return None

    def _chunk(self, number: int, events: list[Event]) -> Chunk:
        return Chunk.of(self.execution.execution_id, number, events, self.execution.run_id)

    def _take_inbox(self, loaded: Loaded) -> None:
        for item in loaded.inbox:
            stale = item.run_id not in (None, self.execution.run_id) or (
                item.kind == "child" and item.reopenings != self.execution.reopenings
            )
            if stale:
                self.inbox.add_stale(item)
            else:
                self.inbox.add(item)


async def _decoded(chunk: Chunk) -> list[Event]:
    """Its events, EVENTS_AT_A_TIME of them at a time: others run in between."""
    events: list[Event] = []
    for start in range(0, len(chunk.events), EVENTS_AT_A_TIME):
        await asyncio.sleep(0)
        events += chunk.decoded(start, start + EVENTS_AT_A_TIME)
    return events
