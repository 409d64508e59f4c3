"""Finds out what an execution has done and waits for now, by a replay of its history with this process's code.

Rules:
1. An inspection only reads. It runs no activity, claims nothing and stores nothing.
2. The replay runs in a thread and within limits. If a replay isn't possible, the inspection holds the history and the
   reason.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile

from engine.core.registry import Registry
from engine.core.trace import Asked, Trace
from engine.driving.runs import run_of
from engine.ground.errors import DecodingError, Fault
from engine.store.base import Store, payload_of
from engine.store.documents import Chunk, Execution, of_run
from engine.values.events import Event, effective

MAX_EVENTS = 50_000
"""The most events of a history that is replayed for an answer."""
MAX_TIME = timedelta(seconds=10)
"""How long a replay for an answer may take."""
MAX_KEPT, MAX_KEPT_EVENTS = 8, 10_000
"""How many inspections a process keeps, and the most events of a kept inspection."""
EVENTS_AT_A_TIME = 500
"""How many events are replayed before other requests of the process run."""


@dataclass(frozen=True)
class Inspection:
    """An execution with its history.

    payload: the payload as JSON text.
    events: the history. The first event has number 1.
    asked: every step that the code asked for, as far as the replay went.
    problem: why the replay stopped before the end of the history, or why the history is incomplete. None if all is
        well.
    """

    execution: Execution
    payload: str | None
    events: tuple[Event, ...]
    asked: tuple[Asked, ...]
    problem: str | None

    @property
    def is_final(self) -> bool:
        """Whether a later inspection of the same version would give the same result."""
        one = self.execution
        at_rest = one.is_complete or (one.suspended and one.worker is None)
        return at_rest and self.problem is None and len(self.events) <= MAX_KEPT_EVENTS

    @property
    def open(self) -> tuple[Asked, ...]:
        """The steps that the code waits for now. Empty once the execution has ended."""
        return () if self.execution.is_complete else tuple(one for one in self.asked if one.how == "open")


class Inspections:
    """The inspections of one process. Requests for the same version of an execution share one inspection. The last few
    inspections of executions that nobody drives are kept, because their history can't change without a new version of
    the exec document."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], asyncio.Task[Inspection]] = OrderedDict()

    async def of(self, store: Store, registry: Registry, execution: Execution) -> Inspection:
        """The inspection of this version of an execution. Raises StoreError."""
        key = execution.execution_id, execution.etag
        task = self._known.get(key)
        if task is None:
            task = self._known[key] = asyncio.create_task(inspect(store, registry, execution))
            task.add_done_callback(lambda done: self._settle(key, done))
        return await asyncio.shield(task)

    def _settle(self, key: tuple[str, str], done: asyncio.Task[Inspection]) -> None:
        if done.cancelled() or done.exception() is not None or not done.result().is_final:
            self._known.pop(key, None)
        while len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)


async def inspect(store: Store, registry: Registry, execution: Execution) -> Inspection:
    """Read and replay an execution. Raises StoreError."""
    loaded = await store.load(execution.execution_id, execution.history_start)
    events, problem = await _decode(of_run(loaded.chunks, execution.run_id, execution.history_start), execution)
    payload = payload_of(execution, loaded, events)
    asked, stopped = await _replay(registry, execution, payload or "null", events)
    unreadable = next(iter(loaded.unreadable.values()), None)
    return Inspection(execution, payload, tuple(events), asked, unreadable or problem or stopped)


async def _decode(chunks: Sequence[Chunk], execution: Execution) -> tuple[list[Event], str | None]:
    numbered = enumerate(chunks, execution.history_start)
    whole = [chunk for _, chunk in takewhile(lambda pair: pair[0] == pair[1].number, numbered)]
    events = list[Event]()
    for number, chunk in enumerate(whole):
        try:
            events += chunk.decoded()
        except DecodingError as error:
            return effective(events), str(error)
        if number % 50 == 49:
            await asyncio.sleep(0)
    length = execution.history_length - execution.history_start
    if len(whole) < length:
        return effective(events), f"the history has {length} documents, and {len(whole)} of them can be read now"
    return effective(events), None


async def _replay(
    registry: Registry, execution: Execution, payload: str, events: Sequence[Event]
) -> tuple[tuple[Asked, ...], str | None]:
    workflow = registry.find(execution.workflow, execution.version)
    if workflow is None:
        return (), f"this app has no workflow {execution.workflow} with version {execution.version}"
    if len(events) > MAX_EVENTS:
        return (), f"the history has {len(events):,} events: no more than {MAX_EVENTS:,} are replayed for an answer"
    run = run_of(workflow, execution, payload, events, registry.raises)
    trace = Trace(run)
    try:
        await replay_within(trace, events)
        problem = None
    except TimeoutError:  # a thread may still run the code, so the run is not closed here
        return trace.asked, f"the replay took longer than {MAX_TIME.total_seconds():.0f} s"
    except Fault as error:
        problem = str(error)
    asked = trace.asked  # before `close`, which drops all steps
    await asyncio.to_thread(run.close)
    return asked, problem


async def replay_within(trace: Trace, events: Sequence[Event], begins: bool = True) -> None:
    """Replay events in a thread, for MAX_TIME at most. `begins`: whether the code is still to be begun. Raises
    TimeoutError (a thread may then still run the code) and Fault."""
    async with asyncio.timeout(MAX_TIME.total_seconds()):
        if begins:
            await asyncio.to_thread(trace.begin)
        for start in range(0, len(events), EVENTS_AT_A_TIME):
            await asyncio.to_thread(trace.apply, events[start : start + EVENTS_AT_A_TIME])
