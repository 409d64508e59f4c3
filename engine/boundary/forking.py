"""Forking: a new execution takes over the history of another one up to a step, and goes on from there.

Rules:
1. The history is taken over up to the last turn before the first event of the step. That turn is run anew, under the
   identity of the fork. So what the code asked for in that turn has new ids and new random numbers.
2. The fork is refused with the reason, before anything is stored, if it lacks what it would need: a child that still
   ran, a deferred that the code already waited for, an earlier run, what a compensation has undone.
3. The history is replayed before it is stored, with the fork's payload. A fork that would not replay is refused.
4. The exec document is written last, or with all others in one transaction. Nobody drives a partition without an exec
   document. A chunk that a try left behind names the run of that try, and is empty for every other run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from engine.boundary.inspection import MAX_EVENTS, MAX_TIME, replay_within
from engine.core.declarations import Workflow
from engine.core.registry import Registry
from engine.core.steps import ChildStep, DeferredStep, codec_of
from engine.core.trace import Asked, Trace
from engine.driving.chunking import MAX_CHUNK_BYTES, grouped, size_of
from engine.driving.messages import read
from engine.driving.runs import run_of
from engine.ground.clock import Clock
from engine.ground.errors import (
    DecodingError,
    Fault,
    LaterEngine,
    Missing,
    NotForked,
    Taken,
    Unavailable,
    UnreadableExecution,
)
from engine.store.base import MAX_BESIDE, MAX_READS, Store, payload_of, wait_for_replica
from engine.store.documents import Chunk, Execution, InboxItem, Large, of_run
from engine.values.codec import Codec, digest, stored_size
from engine.values.error_records import ErrorClasses
from engine.values.events import (
    AttemptFailed,
    Begun,
    Event,
    Forked,
    Interrupted,
    Patched,
    StepHeld,
    StepKind,
    StepResolved,
    effective,
)

MAX_SHOWN = 20
"""Steps that a refusal names."""


@dataclass(frozen=True)
class Original:
    """The execution to fork, with all that is stored of it."""

    execution: Execution
    workflow: Workflow[Any, Any]
    payload: str
    events: tuple[Event, ...]
    inbox: tuple[InboxItem, ...]
    raises: ErrorClasses


@dataclass(frozen=True)
class Given:
    """A payload or a result for a fork: a value, or JSON text from outside."""

    value: Any = None
    text: str | None = None


@dataclass(frozen=True)
class Past:
    """What a fork takes over. `turn`: the last turn of the code, which is run anew. `codecs`: how the results of its
    steps are stored."""

    events: tuple[Event, ...]
    turn: int
    inbox: tuple[InboxItem, ...]
    codecs: Mapping[str, Codec]


async def read_original(store: Store, clock: Clock, registry: Registry, execution_id: str) -> Original:
    """Read the execution to fork. Raises UnknownExecution, NotForked, LaterEngine, UnreadableExecution, StoreError."""
    for reads in range(MAX_READS):
        execution = await read(store, execution_id)
        workflow = _workflow_of(execution, registry)
        loaded = await store.load(execution_id)
        try:
            loaded.check()
            chunks = of_run(loaded.chunks, execution.run_id)
            events = effective([event for chunk in chunks for event in chunk.decoded()])
        except DecodingError as error:
            raise UnreadableExecution(str(error)) from None
        inbox = tuple(item for item in loaded.inbox if item.run_id in (None, execution.run_id))
        payload = payload_of(execution, loaded, events)
        whole = [chunk.number for chunk in chunks] == list(range(len(chunks)))
        whole = whole and len(chunks) >= execution.history_length and len(loaded.inbox) >= execution.inbox_count
        if whole and payload is not None:
            return Original(execution, workflow, payload, tuple(events), inbox, registry.raises)
        await read(store, execution_id)  # it may have been purged in between
        await wait_for_replica(clock, reads)
    raise Unavailable(f"the documents of execution {execution_id} can't be read whole yet")


async def cut(original: Original, step: str) -> Past:
    """What a fork from that step takes over. Raises NotForked."""
    events = original.events
    if len(events) > MAX_EVENTS:
        raise _refused(original, f"its history has {len(events):,} events: no more than {MAX_EVENTS:,} are replayed")
    first = _first_event(original, step)
    kept, after = events[:first], events[first:]
    if any(isinstance(event, Interrupted) for event in kept):
        raise _refused(original, f"its interrupt had reached the code before step {step!r}. Choose an earlier step")
    turn = max((number for number, event in enumerate(kept, 1) if isinstance(event, StepResolved)), default=0)
    async with _traced(original, original.execution, original.payload, events) as trace:
        started_at = trace.run.now
        await _replay(original, trace, kept, f"today's code doesn't replay its history up to step {step!r}")
        asked = _asked(original, trace, step)
        _check_open(original, trace, asked, turn)
        taken = frozenset(trace.run.taken)
        codecs = {one.step: codec for one in trace.asked if (codec := codec_of(one.target)) is not None}
        await _check_compensations(original, trace, after)
    patches = (event for event in kept[turn:] if isinstance(event, Patched) and event.turn == turn)
    moment = events[turn - 1].at if turn else started_at
    inbox = _inbox(original, asked, after, taken, moment)
    return Past((*kept[:turn], *patches), turn, inbox, codecs)


def with_results(original: Original, past: Past, step: str, given: Mapping[str, Given]) -> tuple[Past, dict[str, str]]:
    """What a fork takes over, with other results for some of its steps, and the digest of each of these results. Raises
    NotForked for a step without a result, InvalidInput, EncodingError, TooLarge."""
    events, digests = list(past.events), dict[str, str]()
    for name, result in given.items():
        number, codec = _result_of(events, name), past.codecs.get(name)
        if number is None or codec is None:
            raise _refused(original, f"step {name!r} has no result before step {step!r} that could be replaced")
        text = codec.encode(result.value) if result.text is None else codec.accept(result.text)
        digests[name] = digest(codec.canonical_of(text))
        event = events[number]
        assert isinstance(event, StepResolved)
        events[number] = replace(event, value=text, error=None)
    return replace(past, events=tuple(events)), digests


def _result_of(events: Sequence[Event], step: str) -> int | None:
    """The index of the event that resolved a step."""
    found = (n for n, event in enumerate(events) if isinstance(event, StepResolved) and event.step == step)
    return next(found, None)


async def check_fork(original: Original, fork: Execution, payload: str, events: Sequence[Event]) -> None:
    """Replay the history of a fork as its driver will. Raises NotForked if it doesn't replay."""
    origin = fork.forked_from
    assert origin is not None
    edited = ["that payload"] * origin.edited + ["those results"] * bool(origin.results)
    who = f"with {' and '.join(edited)}, the code" if edited else "today's code"
    async with _traced(original, fork, payload, events) as trace:
        await _replay(original, trace, events, f"{who} doesn't come to step {origin.step!r} as it was recorded")


def forked_event(original: Original, past: Past, step: str, now: datetime) -> Forked:
    """The event that ends what a fork takes over. The identity is that under which the code ran up to there: of the
    original, or of the execution that the original was forked from, if the cut lies in the part taken over from it."""
    execution, events = original.execution, original.events
    forks = [event for event in events if isinstance(event, Forked)]
    known = [event for event in past.events if isinstance(event, Forked)]
    started_at = forks[0].started_at if forks else execution.run_started_at
    if len(known) < len(forks):
        source = forks[len(known)]
        id, run_id, ancestors = source.execution_id, source.run_id, source.ancestors
    else:
        id, run_id, ancestors = execution.execution_id, execution.run_id, execution.ancestors
    return Forked(now, id, run_id, ancestors, started_at, past.turn, step)


async def store_fork(
    store: Store, fork: Execution, input: Large | None, events: Sequence[Event], inbox: Sequence[InboxItem]
) -> Execution:
    """Store a fork. In one transaction, if its history fits; otherwise its history first. Raises Taken if there is an
    execution with its id, and StoreError."""
    groups, large = grouped(events), stored_size(input.value) if input else 0
    items = [item.model_copy(update={"execution_id": fork.execution_id}).with_write_id() for item in inbox]
    size = sum(map(size_of, events)) + sum(map(_item_size, items)) + large
    if len(groups) == 1 and size <= MAX_CHUNK_BYTES:
        chunk = Chunk.of(fork.execution_id, 0, groups[0], fork.run_id)
        try:
            return await store.create(fork.model_copy(update={"history_length": 1}), input, (chunk, *items))
        except Taken:
            if not await _is_left_behind(store, fork.execution_id):
                raise
    length = 0
    for group in groups:
        length = await _append(store, fork, length, group)
    return await store.create(fork.model_copy(update={"history_length": length}), input, items)


async def _append(store: Store, fork: Execution, number: int, events: list[Event]) -> int:
    """Append events at the first free number from `number` on. Returns the number after that."""
    while True:
        try:
            await store.append(Chunk.of(fork.execution_id, number, events, fork.run_id))
        except Taken:  # another try has left a chunk there: it is empty for this run
            number += 1
        else:
            return number + 1


async def _is_left_behind(store: Store, execution_id: str) -> bool:
    """Whether the partition has chunks of a try that was cut off, and no execution."""
    try:
        await store.read(execution_id)
    except Missing:
        return bool((await store.load(execution_id)).chunks)
    return False


def _workflow_of(execution: Execution, registry: Registry) -> Workflow[Any, Any]:
    id, workflow = execution.execution_id, registry.find(execution.workflow, execution.version)
    if execution.is_of_later_engine:
        raise LaterEngine(f"a later version of the engine wrote execution {id}: ask an app that runs that version")
    if execution.restarts:
        raise NotForked(f"execution {id} can't be forked: it has restarted, and its earlier runs are gone")
    if execution.purging:
        raise NotForked(f"execution {id} can't be forked: its purge has begun")
    if workflow is None:
        name = f"workflow {execution.workflow} with version {execution.version}"
        raise NotForked(f"execution {id} can't be forked: this app has no {name}, so nobody can replay its history")
    return workflow


@contextlib.asynccontextmanager
async def _traced(
    original: Original, execution: Execution, payload: str, events: Sequence[Event]
) -> AsyncIterator[Trace]:
    """A trace of an execution's code, which is dropped in the end."""
    trace = Trace(run_of(original.workflow, execution, payload, events, original.raises))
    try:
        yield trace
    except TimeoutError:  # a thread may still run the code, so the run is not closed here
        raise _refused(original, f"the replay took longer than {MAX_TIME.total_seconds():.0f} s") from None
    except BaseException:
        await asyncio.to_thread(trace.run.close)
        raise
    await asyncio.to_thread(trace.run.close)


async def _replay(original: Original, trace: Trace, events: Sequence[Event], what: str, begins: bool = True) -> None:
    try:
        await replay_within(trace, events, begins)
    except Fault as fault:
        raise _refused(original, f"{what}: {fault}") from None


def _first_event(original: Original, step: str) -> int:
    """The index of the first event of a step. The length of the history if it has none."""
    found = [(number, kind) for number, event in enumerate(original.events) if (kind := _kind(event, step))]
    if len({kind for _, kind in found}) > 1:
        raise _refused(original, f"steps of two kinds have the name {step!r}")
    return found[0][0] if found else len(original.events)


def _kind(event: Event, step: str) -> StepKind | None:
    match event:
        case StepResolved(step=name, kind=kind) if name == step:
            return kind
        case AttemptFailed(step=name) | StepHeld(step=name) if name == step:
            return "activity"
        case Begun(step=name) if name == step:
            return "child"
        case _:
            return None


def _asked(original: Original, trace: Trace, step: str) -> Asked:
    """The step from which to fork. Its code waits for it at the end of what was replayed."""
    found = [one for one in trace.asked if one.step == step and one.how == "open"]
    if len(found) == 1 and not trace.run.has_ended:
        return found[0]
    if found and trace.run.has_ended:
        raise _refused(
            original, f"the workflow's own code had ended before step {step!r}, which only winds up. Choose another"
        )
    if found:
        raise _refused(original, f"steps of two kinds have the name {step!r}")
    known = dict.fromkeys([event.step for event in original.events if isinstance(event, StepResolved)])
    known |= dict.fromkeys(one.step for one in trace.asked if one.how == "open")
    names = [*known]
    shown = ", ".join(names[:MAX_SHOWN]) + (", …" if len(names) > MAX_SHOWN else "")
    raise _refused(original, f"it has no step {step!r} that has ended or is open. It has: {shown or 'none'}")


def _check_open(original: Original, trace: Trace, asked: Asked, turn: int) -> None:
    """Refuse what was open before the turn that is run anew, and can't come along."""
    for one in trace.asked:
        if one.how != "open" or one.turn >= turn:
            continue
        if isinstance(one.target, ChildStep):
            child = f"the child of step {one.step!r}, execution {one.target.execution_id}, still ran at that point"
            raise _refused(original, f"{child}. Choose an earlier step, or one after the child's end")
        if isinstance(one.target, DeferredStep) and one is not asked:
            deferred = f"deferred {one.step!r} was open at that point, and others may hold its token"
            raise _refused(original, f"{deferred}. Choose an earlier step, or one after the deferred was resolved")


async def _check_compensations(original: Original, trace: Trace, after: Sequence[Event]) -> None:
    """Refuse if compensations have begun, and the fork would take over steps that they may have undone."""
    execution, undoable = original.execution, trace.run.undoable
    if not undoable:
        return
    undone = execution.undone
    if not execution.is_complete or execution.outcome == "terminated":
        what = f"its steps would be undone by {', '.join(undoable)}, and whether that has begun can't be found out"
        await _replay(original, trace, after, what, begins=False)
        undone = trace.run.undone
    if undone:
        names = ", ".join(undone)
        raise _refused(
            original, f"its compensations have begun: {names}. Choose a step before {undoable[0]} was registered"
        )


def _inbox(
    original: Original, asked: Asked, after: Sequence[Event], taken: frozenset[str], moment: datetime
) -> tuple[InboxItem, ...]:
    """The values from outside that come along: those that had arrived by then and aren't the step's own, in their
    order."""
    own = {event.item for event in after if isinstance(event, StepResolved) and event.step == asked.step}
    values = [
        item
        for item in original.inbox
        if (item.kind == "channel" and item.id not in taken and item.id not in own and item.at <= moment)
        or (item.kind == "deferred" and item.name != asked.step and item.at <= moment)
    ]
    values.sort(key=lambda item: (item.position, item.at, item.id))
    if len(values) >= MAX_BESIDE or sum(map(_item_size, values)) > MAX_CHUNK_BYTES:
        raise _refused(
            original,
            f"{len(values):,} values from outside had arrived by then. A fork takes over {MAX_BESIDE - 1} at most, of "
            f"{MAX_CHUNK_BYTES:,} bytes together",
        )
    return tuple(item.model_copy(update={"position": position}) for position, item in enumerate(values))


def _item_size(item: InboxItem) -> int:
    error = len(item.error.model_dump_json().encode()) if item.error is not None else 0
    return 500 + stored_size(item.value or "") + error


def _refused(original: Original, why: str) -> NotForked:
    return NotForked(f"execution {original.execution.execution_id} can't be forked: {why}")
