"""Parents and children: the writes from one execution's partition to another's.

Rules:
1. A child is created before its parent records that it has begun. Creating the child again finds the existing one. So
   the creation may be repeated, and there is still only one child.
2. A finished child owes its exit to every parent that waits. The child's own exec document is the outbox: it keeps a
   `dueAt` until all parents have the exit. The exit is created in the parent's partition, so that a second delivery
   changes nothing.
3. A parent attaches to a child that runs already or has ended. Only the parent that created the child interrupts it.
4. A parent that attaches first writes its wait, and then looks whether the wait closes a circle (`circles.py`). If it
   does, the parent takes the wait back. A parent that gives up a wait takes it back as well. So `parents` holds exactly
   those that wait.
5. A parent that is reopened asks for its children again. A child that failed or was interrupted is then reopened too,
   if nobody else knows its end.
"""

from __future__ import annotations

import contextlib
import logging
from datetime import datetime

from engine.core.steps import ChildStep
from engine.driving.circles import find_circle
from engine.driving.reopening import reopen
from engine.ground import telemetry
from engine.ground.clock import Clock
from engine.ground.errors import (
    Conflict,
    LaterEngine,
    Missing,
    MissingDocument,
    NotReopened,
    Taken,
    UnreadableExecution,
)
from engine.ground.settings import Settings
from engine.store import transitions
from engine.store.base import MAX_READS, Store, wait_for_replica
from engine.store.documents import INPUT, OUTPUT, SCHEMA, Execution, InboxItem, Large, Parent, is_large, new_run_id
from engine.values.error_records import ErrorRecord, record
from engine.values.failures import ChildStopped, CircularWait
from engine.values.logic_flags import CURRENT

_log = logging.getLogger("engine")


def new_execution(
    step: ChildStep, parent: Execution, now: datetime, settings: Settings
) -> tuple[Execution, Large | None]:
    """The documents of a child that `step` of `parent` asks for."""
    large = is_large(step.payload)
    options = step.workflow.options
    execution = Execution(
        execution_id=step.execution_id,
        workflow=step.workflow.name,
        version=step.workflow.version,
        run_id=new_run_id(),
        logic_flags=CURRENT,
        payload=None if large else step.payload,
        parents=(_waiting(parent, step),) if step.waits else (),
        creator=parent.execution_id,
        ancestors=(*(parent.ancestors if step.waits else ()), parent.execution_id),
        tags=dict(step.tags),
        retention_seconds=options.retention_seconds(settings.retention),
        traceparent=telemetry.traceparent(),
        due_at=now + settings.sweep_new_after,
        created_at=now,
        updated_at=now,
    ).with_write_id()
    return execution, Large(
        id=INPUT, execution_id=step.execution_id, value=step.payload
    ).with_write_id() if large else None


async def begin_child(
    store: Store, clock: Clock, settings: Settings, parent: Execution, step: ChildStep
) -> InboxItem | None:
    """Create the child that a step asks for, or attach to it. Returns the item that resolves the step, if there is one
    already: the exit of a child that has ended, the refusal of a circle, or the id of a child that the step doesn't
    wait for. Raises MissingDocument if a child has ended but its result is gone, LaterEngine for a running child that
    a later version of the engine wrote, and StoreError."""
    now = clock.now()
    execution, input = new_execution(step, parent, now, settings)
    waiting = _waiting(parent, step)
    while True:
        with contextlib.suppress(Taken):
            await store.create(execution, input)
            return None if step.waits else _started(step, parent, now)
        if not step.waits:
            return _started(step, parent, now)
        with contextlib.suppress(Conflict, Missing, Taken):  # the child has changed, or was purged: try again
            child = await store.read(step.execution_id)
            if child.is_complete and parent.reopenings and waiting not in child.parents:
                child = await _reopened(store, clock, child, waiting)
            if child.is_complete:
                return await _exit(store, clock, child, waiting)
            if waiting not in child.parents:
                child.check_schema()
                child = await store.replace(transitions.attach(waiting, now).apply(child))
            if child.creator == parent.execution_id:
                return None  # an earlier driver created it for this parent: creating a child closes no circle
            circle = await find_circle(store, parent, child)
            if not circle:
                return None
            await _detach(store, clock, step.execution_id, waiting)
            return _refused(step, parent, circle, now)


async def drop_child(
    store: Store, clock: Clock, settings: Settings, parent: Execution, step: ChildStep, interrupts: bool
) -> None:
    """Take back the wait of a parent for its child. With `interrupts`, also interrupt the child, if this parent created
    it. A child that doesn't exist is created as terminated, if it is the step's own. So an earlier driver that stood
    still just before it created the child finds the child ended. The wait stays in a child that a later version of the
    engine wrote: nobody minds its exit. Raises StoreError."""
    waiting = _waiting(parent, step)
    while True:
        with contextlib.suppress(Missing):
            child = await store.read(step.execution_id)
            asked_again = any(_is_later(one, waiting) for one in child.parents)
            if interrupts and child.creator == parent.execution_id and not asked_again:
                reason = f"its parent {parent.execution_id} no longer waits for it"
                child = await store.interrupt(step.execution_id, clock.now(), reason)
            if waiting in child.parents:
                await _detach(store, clock, step.execution_id, waiting)
            return
        if not step.is_own:
            return
        now = clock.now()
        never, _ = new_execution(step, parent, now, settings)
        with contextlib.suppress(Taken):
            await store.create(transitions.terminate(now).apply(never.model_copy(update={"parents": ()})))
            return


async def _reopened(store: Store, clock: Clock, child: Execution, waiting: Parent) -> Execution:
    """The child as it is after a parent that was reopened has asked for it: running again, or still at its end."""
    if child.owes:
        await notify_parents(store, clock, child)
        child = await store.read(child.execution_id)
    try:
        return await reopen(store, clock, child, waiting)
    except (NotReopened, UnreadableExecution, LaterEngine) as refusal:
        _log.info("the step %s gets the end of its child again: %s", waiting.step, refusal)
        return child


async def _detach(store: Store, clock: Clock, execution_id: str, waiting: Parent) -> None:
    while True:
        with contextlib.suppress(Conflict):
            child = await store.read(execution_id)
            if not child.is_complete and waiting in child.parents and child.schema_version <= SCHEMA:
                await store.replace(transitions.detach(waiting, clock.now()).apply(child))
            return


async def notify_parents(store: Store, clock: Clock, child: Execution) -> list[Execution]:
    """Deliver a finished child's exit to every parent that waits for it, and record that this is done. Returns the
    parents as they now stand. Raises MissingDocument if the child's result is gone, DecodingError if the result can't
    be read, and StoreError."""
    parents = []
    for parent in child.parents:
        with contextlib.suppress(Taken, Conflict, Missing):  # the parent has the exit already, has ended, or was purged
            parents.append(await store.signal(await _exit(store, clock, child, parent), clock.now()))
    with contextlib.suppress(Conflict, Missing):  # another process has notified them
        await store.replace(transitions.mark_as_notified(clock.now()).apply(child))
    return parents


async def _exit(store: Store, clock: Clock, child: Execution, parent: Parent) -> InboxItem:
    value, error = child.completed_result, child.error
    if child.outcome == "completed" and value is None:
        value = await _output(store, clock, child)
    elif child.outcome != "completed" and (child.outcome != "failed" or error is None):
        error = _stopped(child)
    return InboxItem.of(
        "child",
        parent.execution_id,
        parent.step,
        clock.now(),
        value=value,
        error=error,
        run_id=parent.run_id,
        reopenings=parent.reopenings,
    )


async def _output(store: Store, clock: Clock, child: Execution) -> str:
    for reads in range(MAX_READS):
        loaded = await store.load(child.execution_id)
        loaded.check(OUTPUT)
        if loaded.output is not None:
            return loaded.output.value
        await wait_for_replica(clock, reads)
    if (await store.read(child.execution_id)).etag != child.etag:
        raise Conflict(f"execution {child.execution_id} has changed since it was read, and owes nobody its end")
    raise MissingDocument(
        f"the output of execution {child.execution_id} was deleted, so its result can't be sent to its parents"
    )


def _stopped(child: Execution) -> ErrorRecord:
    failure = ChildStopped(workflow=child.workflow, execution_id=child.execution_id, outcome=str(child.outcome))
    return record(failure).model_copy(update={"cause": child.error})


def _refused(step: ChildStep, parent: Execution, circle: tuple[str, ...], now: datetime) -> InboxItem:
    error = record(CircularWait(circle=circle))
    return InboxItem.of("child", parent.execution_id, step.id, now, error=error, run_id=parent.run_id)


def _waiting(parent: Execution, step: ChildStep) -> Parent:
    return Parent(execution_id=parent.execution_id, step=step.id, run_id=parent.run_id, reopenings=parent.reopenings)


def _is_later(one: Parent, other: Parent) -> bool:
    """Whether `one` is the wait of the same parent after it was reopened."""
    return one.execution_id == other.execution_id and one.run_id == other.run_id and one.reopenings > other.reopenings


def _started(step: ChildStep, parent: Execution, now: datetime) -> InboxItem:
    return InboxItem.of("child", parent.execution_id, step.id, now, value=f'"{step.execution_id}"')
