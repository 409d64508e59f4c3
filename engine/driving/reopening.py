"""Reopening: an execution that failed or was interrupted runs again, under its id and with today's code.

Rules:
1. The history stays up to the end of the workflow's own code, or up to the interrupt. Later events, of compensations
   and finalizers, no longer count. The event of the activity that failed the execution no longer counts either: that
   activity runs again, with all its attempts. A child that failed it counts as such an activity.
2. An execution is refused if its compensations have begun, because nothing would repeat what they undid. It is also
   refused if its purge has begun, and if another execution than the one that asks knows its end or waits for it.
3. The history only grows. A chunk with a Reopened event says which events count. This chunk is written in one
   transaction with the exec document.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.ground.clock import Clock
from engine.ground.errors import Conflict, DecodingError, NotReopened, UnreadableExecution
from engine.store import transitions
from engine.store.base import MAX_READS, Store, wait_for_replica
from engine.store.documents import Chunk, Execution, Parent, of_run
from engine.values.error_records import ErrorRecord
from engine.values.events import Event, Forked, Reopened, Restarted, StepResolved, effective


async def reopen(store: Store, clock: Clock, execution: Execution, waiting: Parent | None = None) -> Execution:
    """Let an execution run again. `waiting`: the parent that asks for it, if one does, and that then waits for the next
    end. Raises NotReopened, UnreadableExecution, and Conflict, Taken or Missing if the execution has changed."""
    _check(execution, waiting)
    chunks, events = await _history_of(store, clock, execution)
    kept, now = _kept(events, execution), clock.now()
    last = chunks.pop().decoded() if execution.last_events is not None else []  # the exec document no longer holds them
    number = execution.history_start + len(chunks)
    chunk = Chunk.of(execution.execution_id, number, [*last, Reopened(now, kept)], execution.run_id)
    reopening = transitions.reopen(now, waiting).also(history_length=number + 1, logged=min(execution.logged, kept + 1))
    return await store.commit(reopening.apply(execution), chunk)


async def _history_of(store: Store, clock: Clock, execution: Execution) -> tuple[list[Chunk], list[Event]]:
    """The chunks of an execution that has ended, and the events that count. Raises UnreadableExecution if a chunk can't
    be read or was deleted, and Conflict or Missing if the execution has changed."""
    id, start = execution.execution_id, execution.history_start
    for reads in range(MAX_READS):
        loaded = await store.load(id, start)
        try:
            loaded.check()
            chunks = of_run(loaded.chunks, execution.run_id, start)
            events = effective(event for chunk in chunks for event in chunk.decoded())
        except DecodingError as error:
            raise UnreadableExecution(str(error)) from None
        if start + len(chunks) >= execution.history_length:
            return chunks, events
        if (await store.read(id)).etag != execution.etag:
            raise Conflict(f"execution {id} has changed since it was read")
        await wait_for_replica(clock, reads)
    counted = execution.history_length - start
    raise UnreadableExecution(
        f"execution {id} counts {counted} history chunks, but has {len(chunks)}: some were deleted"
    )


def _check(execution: Execution, waiting: Parent | None) -> None:
    id, refused, asks = execution.execution_id, None, waiting.execution_id if waiting is not None else None
    others = sorted({parent.execution_id for parent in execution.parents} - {asks})
    if execution.outcome not in ("failed", "interrupted"):
        refused = f"it was {execution.outcome}: only one that failed or was interrupted runs again"
    elif execution.undone:
        refused = f"its compensations have run: {', '.join(execution.undone)}. Start it again under another key"
    elif others:
        refused = f"its end is known to the execution that waits for it, {', '.join(others)}: retry that one"
    elif execution.purging:
        refused = "its purge has begun"
    elif execution.ended_at is None:
        refused = "an earlier version of the engine ended it, and didn't note where its code ended"
    if refused:
        raise NotReopened(f"execution {id} can't run again: {refused}")


def _kept(events: Sequence[Event], execution: Execution) -> int:
    """How many events count: those before the end of the code, or before the end of the activities and children that
    failed it. The event that began the run always counts: it has the payload. So do those that a fork took over."""
    began = max((number for number, event in enumerate(events, 1) if isinstance(event, Restarted | Forked)), default=0)
    own = max(execution.ended_at or 0, began)
    if execution.outcome == "interrupted" or execution.error is None:
        return own
    failures = {
        number: (event.error.type, event.error.message)
        for number, event in enumerate(events[began:own], began)
        if isinstance(event, StepResolved) and event.kind in ("activity", "child") and event.error is not None
    }
    return min(_origins(execution.error, failures), default=own)


def _origins(error: ErrorRecord, failures: dict[int, tuple[str, str]]) -> list[int]:
    """The numbers of the events that brought an error, the exceptions of its group, or else its cause. Each event is
    taken out of `failures`, so that two exceptions of a group aren't found in one event."""
    number = next((each for each in reversed(failures) if failures[each] == (error.type, error.message)), None)
    if number is not None:
        del failures[number]
        return [number]
    parts = [origin for part in error.exceptions for origin in _origins(part, failures)]
    return parts or ([] if error.cause is None else _origins(error.cause, failures))
