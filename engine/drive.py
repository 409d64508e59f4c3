"""Driving one execution: the only place where the deterministic core meets the store.

A drive holds the lease of one execution, under a token of its own, from its claim until it lets go. Its one flow of
control does everything that touches the exec document or the history, so it can't race with itself; activities run
beside it and only report to it.

Invariants:
1. Claim first, then load; exec first, then inbox. `seen` is the `wake` of an exec version that was in hand before the
   inbox was read. The other order loses wake-ups.
2. An event is recorded before any activity that it brought about is started (write-ahead).
3. A driver that found the lease expired appends a Takeover before anything else. From then on the driver before it
   can't append: its next chunk collides.
4. Whoever finds that it holds the lease no more (a chunk that is Taken, an exec document with another worker) writes
   nothing, and cancels what runs.
5. Only what the workflow still waits for is recorded. A late result of a step that it gave up is dropped.
6. An error of the store ends the drive, never the execution: the lease expires and another drive loads what is there.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from engine.activities import ActivityInfo, Attempt, attempt
from engine.clock import Clock
from engine.codec import stored_size
from engine.definition import Workflow
from engine.documents import OUTPUT, Chunk, Execution, InboxItem, Large, is_large
from engine.errors import (
    Conflict,
    EncodingError,
    Fault,
    Missing,
    MissingDocument,
    Quarantined,
    StoreError,
    Stuck,
    Taken,
    TooLarge,
)
from engine.events import AttemptFailed, Event, Interrupted, StepResolved, Takeover
from engine.failures import record
from engine.replay import ActivityStep, Outcome, Run
from engine.settings import Settings
from engine.store.base import Loaded, Store

T = TypeVar("T")

MAX_CHUNK_BYTES = 900_000
"""Of a chunk's values, unless one event alone is larger: a chunk and a result fit into one batch of 2 MB."""
MAX_READS = 6
"""Reads that may be older than what is known to exist, before the documents count as gone."""

EVENTS_AT_A_TIME = 500
"""Events that are replayed before other executions of the process get a turn."""

_log = logging.getLogger("engine")
_workflow_log = logging.getLogger("engine.workflow")


class LeaseLost(Exception):
    """Another driver holds the execution, or it has ended: stop without another word."""


@dataclass(frozen=True)
class Host:
    """What a drive needs of the process that it runs in."""

    store: Store
    clock: Clock
    settings: Settings
    threads: concurrent.futures.Executor
    chance: random.Random


class Drive:
    """One driver's hold on one execution. `execution` is the version that the claim wrote; `fresh`: nothing has
    happened to it before; `takeover`: the driver before it did not let go."""

    def __init__(
        self, host: Host, workflow: Workflow[Any, Any], execution: Execution, fresh: bool, takeover: bool
    ) -> None:
        self.execution = execution
        self._host = host
        self._workflow = workflow
        self._fresh = fresh
        self._takeover = takeover
        self._token = execution.worker or ""
        self._logged = execution.logged
        self._run: Run | None = None
        self._length = 0
        self._unsaved: list[Event] = []
        self._inbox: dict[tuple[str, str], InboxItem] = {}
        self._waiting: deque[ActivityStep] = deque()
        self._later: dict[str, ActivityStep] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._finished: deque[tuple[ActivityStep, Attempt]] = deque()
        self._changed = asyncio.Event()
        self._told = 0
        self._draining = False
        self._cut = False
        self._heartbeat_at = self._now() + host.settings.heartbeat

    # -- what the worker calls --

    async def run(self) -> None:
        """Drive until the execution has ended, waits, or belongs to someone else. Raises nothing but CancelledError."""
        try:
            try:
                await self._load()
                await self._replay()
                while not await self._step():
                    pass
            except Fault as fault:
                while not await self._suspend_because(fault):
                    pass
        except LeaseLost as lost:
            _log.info("execution %s: stopped driving: %s", self.execution.execution_id, lost)
        except StoreError as error:
            _log.warning("execution %s: stopped driving, its lease will expire: %s", self.execution.execution_id, error)
        except Exception:  # noqa: BLE001 - a bug of ours must not take other executions along
            _log.exception("execution %s: the driver failed, its lease will expire", self.execution.execution_id)
        finally:
            self._cancel_activities()
            if self._run is not None:
                self._run.close()

    def notify(self, execution: Execution) -> None:
        """A version of the exec document was seen: there may be news."""
        if execution.wake > max(self.execution.wake, self._told):
            self._told = execution.wake
            self._changed.set()

    def drain(self) -> None:
        """Let go between two steps, as soon as no activity runs."""
        self._draining = True
        self._changed.set()

    def cut(self) -> None:
        """Let go now: running activities are cancelled without a trace."""
        self._draining = self._cut = True
        self._changed.set()

    @property
    def is_busy(self) -> bool:
        """Whether activities are running."""
        return bool(self._running)

    # -- loading --

    async def _load(self) -> None:
        if self._fresh:
            self._payload = self.execution.payload or "null"
            self._history: list[Event] = []
            return
        loaded = await self._read_partition()
        while self._takeover:
            seal = Chunk.of(self.execution.execution_id, len(loaded.chunks), [Takeover(self._now(), self._token)])
            try:
                await self._host.store.append(seal)
            except Taken:
                loaded = await self._read_partition()
            else:
                loaded.chunks.append(seal)
                break
        self._take_inbox(loaded)
        self._length = len(loaded.chunks)
        self._payload = loaded.input.value if loaded.input else self.execution.payload or "null"
        self._history = [event for chunk in loaded.chunks for event in chunk.decoded()]
        known = {chunk.number for chunk in loaded.chunks if chunk.number < self.execution.history_length}
        if any(e for c in loaded.chunks if c.number not in known for e in c.decoded() if not isinstance(e, Takeover)):
            self.execution = self.execution.model_copy(update={"attempts": 1})

    async def _read_partition(self, from_chunk: int = 0) -> Loaded:
        """What the partition holds, at least all that the exec document in hand counts. Raises MissingDocument."""
        expected = self.execution
        for reads in range(MAX_READS):
            loaded = await self._host.store.load(expected.execution_id, from_chunk)
            numbers = [chunk.number for chunk in loaded.chunks]
            whole = numbers == list(range(from_chunk, from_chunk + len(numbers)))
            enough = from_chunk + len(numbers) >= expected.history_length and len(loaded.inbox) >= expected.inbox_count
            if whole and enough and (expected.payload is not None or loaded.input is not None):
                return loaded
            await self._pause(reads)
        raise MissingDocument(
            f"the partition holds history chunks {numbers[:3]}…({len(numbers)}) and {len(loaded.inbox)} inbox "
            f"documents, but the execution counts {expected.history_length} and {expected.inbox_count}: some "
            "were deleted"
        )

    def _take_inbox(self, loaded: Loaded) -> None:
        for item in loaded.inbox:
            self._inbox[item.kind, item.name] = item

    async def _replay(self) -> None:
        settings = self._host.settings
        if self.execution.attempts > settings.max_claims:
            raise Quarantined(
                f"claimed {self.execution.attempts - 1} times in a row without any progress: its driver dies each "
                "time. Find out what it does, then resume it."
            )
        run = self._run = Run(self._workflow, self.execution.execution_id, self._payload, self.execution.created_at)

        await _outside_task(run.begin)
        for start in range(0, len(self._history), EVENTS_AT_A_TIME):

            def apply(events: list[Event] = self._history[start : start + EVENTS_AT_A_TIME]) -> None:
                for event in events:
                    run.apply(event)

            await _outside_task(apply)

    # -- driving --

    async def _step(self) -> bool:
        """One round: take in what has come, record it, start what follows. True once the execution is let go."""
        run = self._run
        assert run is not None
        if self._told > self.execution.wake:
            await self._refresh(self._told)
        elif self._now() >= self._heartbeat_at:
            await self._heartbeat()
        await _outside_task(self._deliver)
        if run.outcome is not None:
            return await self._complete(run.outcome)
        self._sort_activities()
        if self._cut:
            self._cancel_activities()
            return await self._let_go(self.execution.released(self._now()))
        if self._is_at_rest():
            return await self._suspend()
        if self._unsaved:
            await self._append()
        self._write_log()
        if self._draining:
            if not self._running:
                return await self._let_go(self.execution.released(self._now()))
        else:
            self._start()
        await self._wait()
        return False

    def _deliver(self) -> None:
        assert self._run is not None
        while (event := self._next_event()) is not None:
            self._unsaved.append(event)  # first: what happened is recorded, even if the code can't go on from it
            self._run.apply(event)
            if isinstance(event, AttemptFailed):
                self._later[event.step] = self._run.activities[event.step]

    def _next_event(self) -> Event | None:
        run = self._run
        assert run is not None
        at = max(self._now(), run.now)
        if self.execution.interrupted and not run.interrupted:
            return Interrupted(at)
        if run.outcome is not None:
            return None
        while self._finished:
            step, ended = self._finished.popleft()
            self._running.pop(step.id, None)
            if run.activities.get(step.id) is step:
                return self._ending(step, ended, at)
        for name in run.deferreds:
            item = self._inbox.get(("deferred", name))
            if item is not None:
                return StepResolved(name, "", at, "deferred", item.value, item.error)
        timer = min(run.timers.values(), key=lambda t: t.due, default=None)
        if timer is not None and timer.due <= at:
            return StepResolved(timer.id, timer.digest, max(at, timer.due), "timer")
        return None

    def _ending(self, step: ActivityStep, ended: Attempt, at: datetime) -> Event:
        if ended.error is None:
            return StepResolved(step.id, step.digest, at, "activity", value=ended.value)
        retry, attempts = step.activity.retry, step.attempts + 1
        error = record(ended.error, step.activity.raises)
        if isinstance(ended.error, EncodingError | TooLarge) or not retry.allows(ended.error, attempts):
            return StepResolved(step.id, step.digest, at, "activity", error=error)
        retry_at = at + retry.delay(attempts, self._host.chance)
        return AttemptFailed(step.id, step.digest, at, attempts, error, retry_at)

    def _sort_activities(self) -> None:
        """Bring what runs into line with what the workflow waits for."""
        run = self._run
        assert run is not None
        for step in run.dropped:
            self._later.pop(step.id, None)
            if (task := self._running.pop(step.id, None)) is not None:
                task.cancel()
        run.dropped.clear()
        for step in run.asked:
            if run.activities.get(step.id) is not step:
                continue
            if step.retry_at is None:
                self._waiting.append(step)
            else:
                self._later[step.id] = step
        run.asked.clear()
        for step in [s for s in self._later.values() if s.retry_at is not None and s.retry_at <= self._now()]:
            del self._later[step.id]
            step.retry_at = None
            self._waiting.append(step)

    def _is_at_rest(self) -> bool:
        if self._running or self._finished or self._waiting:
            return False
        due = self._next_due()
        return due is None or due > self._now() + self._host.settings.hold

    def _next_due(self) -> datetime | None:
        assert self._run is not None
        dues = [timer.due for timer in self._run.timers.values()]
        dues += [step.retry_at for step in self._later.values() if step.retry_at is not None]
        return min(dues, default=None)

    def _start(self) -> None:
        run = self._run
        assert run is not None
        while self._waiting and len(self._running) < self._workflow.options.max_parallel:
            step = self._waiting.popleft()
            if run.activities.get(step.id) is step:
                self._running[step.id] = asyncio.create_task(self._perform(step))

    async def _perform(self, step: ActivityStep) -> None:
        info = ActivityInfo(self.execution.execution_id, self.execution.workflow, step.id, step.attempts + 1)
        ended = await attempt(step, info, self._host.clock, self._host.threads)
        self._finished.append((step, ended))
        self._changed.set()

    async def _wait(self) -> None:
        until = min(filter(None, (self._heartbeat_at, self._next_due())))
        await self._host.clock.wait(self._changed, max(0.0, (until - self._now()).total_seconds()))
        self._changed.clear()

    # -- writing --

    async def _append(self) -> None:
        for chunk in list(self._chunks()):
            await self._add(chunk)

    async def _add(self, chunk: Chunk) -> None:
        try:
            await self._host.store.append(chunk)
        except Taken:
            raise LeaseLost("the history was continued by another driver") from None
        self._length += 1
        del self._unsaved[: len(chunk.events)]

    def _chunks(self) -> Iterator[Chunk]:
        """The unsaved events as chunks that a store can take."""
        number, group, size = self._length, list[Event](), 0
        for event in self._unsaved:
            bytes = _size(event)
            if group and size + bytes > MAX_CHUNK_BYTES:
                yield Chunk.of(self.execution.execution_id, number, group)
                number, group, size = number + 1, [], 0
            group.append(event)
            size += bytes
        if group:
            yield Chunk.of(self.execution.execution_id, number, group)

    async def _suspend(self) -> bool:
        assert self._run is not None
        if self._run.waits:
            return await self._let_go(self.execution.suspended_until(self._next_due(), self._now()))
        return await self._suspend_because(
            Stuck(
                "the workflow waits for something that no activity, timer or deferred can bring (an Event that nobody "
                "sets, a task that waits for itself); only an interrupt reaches it"
            )
        )

    async def _suspend_because(self, fault: Fault) -> bool:
        _log.error("execution %s: suspended: %s", self.execution.execution_id, fault)
        attempts = self.execution.attempts if isinstance(fault, Quarantined) else 0
        return await self._let_go(self.execution.suspended_because(record(fault), self._now(), attempts))

    async def _complete(self, outcome: Outcome) -> bool:
        text, output = outcome.value, None
        if text is not None and is_large(text):
            output = Large(id=OUTPUT, execution_id=self.execution.execution_id, value=text).with_op()
            if self._unsaved:  # a large result and the last chunk may not fit into one batch
                await self._append()
        ended = self.execution.completed(outcome.kind, None if output else text, outcome.error, self._now())
        return await self._let_go(ended, output)

    async def _let_go(self, execution: Execution, output: Large | None = None) -> bool:
        """Write the exec document, with the last chunk. False if there was news: take it in and go on."""
        chunks = list(self._chunks())
        together = 1 if chunks and sum(map(_size, self._unsaved[-len(chunks[-1].events) :])) <= MAX_CHUNK_BYTES else 0
        for chunk in chunks[: len(chunks) - together]:
            await self._add(chunk)
        last = chunks[-1] if together else None
        length = max(self._length + together, execution.history_length)
        logged = self._run.turn + 1 if self._run is not None else 0
        execution = execution.model_copy(update={"history_length": length, "logged": max(logged, execution.logged)})
        try:
            self.execution = await self._host.store.commit(execution, last, output)
        except Conflict:
            await self._refresh()
            return False
        except (Taken, Missing) as error:
            raise LeaseLost(str(error)) from None
        self._write_log()
        return True

    def _write_log(self) -> None:
        """Write the lines of turns that no driver has written before, now that their events are recorded."""
        if self._run is None:
            return
        for line in self._run.log:
            if line.turn >= self._logged:
                extra = {"execution_id": self.execution.execution_id, "workflow": self.execution.workflow}
                _workflow_log.log(line.level, line.message, *line.args, extra={**(line.extra or {}), **extra})
        self._run.log.clear()

    # -- the lease --

    async def _heartbeat(self) -> None:
        settings = self._host.settings
        try:
            self.execution = await self._host.store.replace(
                self.execution.leased(self._token, self._now(), settings.lease, settings.skew)
            )
        except Conflict:
            await self._refresh()
        except Missing as error:
            raise LeaseLost(str(error)) from None
        else:
            self._heartbeat_at = self._now() + settings.heartbeat

    async def _refresh(self, wake: int | None = None) -> None:
        """Take in what others wrote: a version with that `wake`, or (None) any other than the one in hand. Raises
        LeaseLost if the execution is no longer ours."""
        known = self.execution
        for reads in range(MAX_READS):
            try:
                fresh = await self._host.store.read(known.execution_id)
            except Missing as error:
                raise LeaseLost(str(error)) from None
            if fresh.worker != self._token or fresh.is_complete:
                raise LeaseLost("another driver holds it, or it has ended")
            self.execution = fresh
            if fresh.etag != known.etag if wake is None else fresh.wake >= wake:
                break
            await self._pause(reads)
        self._told = min(self._told, self.execution.wake)
        self._take_inbox(await self._read_partition(self._length))

    def _cancel_activities(self) -> None:
        for task in self._running.values():
            task.cancel()
        self._running.clear()

    async def _pause(self, tries: int) -> None:
        await self._host.clock.wait(asyncio.Event(), min(0.05 * 2**tries, 1.0))

    def _now(self) -> datetime:
        return self._host.clock.now()


async def _outside_task(function: Callable[[], T]) -> T:
    """Run `function` from a plain callback: later CPythons let no task be stepped inside another."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def call() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            future.set_exception(error)
        else:
            future.set_result(result)

    loop.call_soon(call)
    return await future


def _size(event: Event) -> int:
    """About how many bytes an event takes in a chunk."""
    size = stored_size(event.value or "") if isinstance(event, StepResolved) else 0
    if isinstance(event, StepResolved | AttemptFailed) and event.error is not None:
        size += len(event.error.model_dump_json())
    return size
