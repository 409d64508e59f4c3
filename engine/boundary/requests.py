"""The requests of the client to the store, and how each handles races and lost answers.

Rules:
1. Each request may be sent again. The second one finds the effect of the first one, and reports it.
2. Errors of the store become errors for people here. Only the StoreError of a store that can't be reached passes.
3. A worker in this process is told at once of every change to an execution that it drives.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

from engine.boundary.first_payload import first_payload
from engine.boundary.forks import Fork, Forks
from engine.boundary.status import Status
from engine.core.declarations import MAX_REASON, Channel, Deferred, Workflow
from engine.core.registry import Registry
from engine.driving import messages
from engine.driving.left_alone import why_left_alone
from engine.driving.reopening import reopen
from engine.driving.worker import Worker
from engine.ground import telemetry
from engine.ground.clock import Clock, isoformat
from engine.ground.errors import (
    AlreadyEnded,
    AlreadyStarted,
    Conflict,
    InvalidInput,
    Missing,
    NotEnded,
    Taken,
    Unavailable,
    UnknownExecution,
    UnreadableExecution,
)
from engine.ground.names import execution_id, is_execution_id
from engine.ground.settings import Settings
from engine.store import transitions
from engine.store.base import Store
from engine.store.documents import INPUT, OUTPUT, Execution, Large, is_large, new_run_id
from engine.values.error_records import ErrorRecord
from engine.values.logic_flags import CURRENT
from engine.values.repeats import Changes, changes


class Requests:
    """Requests from outside to the executions of one store."""

    def __init__(
        self, store: Store, registry: Registry, settings: Settings, clock: Clock, worker: Worker | None
    ) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._worker = worker

    async def read(self, execution_id: str) -> Execution:
        """The stored execution. Raises UnknownExecution, and InvalidInput for a malformed id."""
        _check_id(execution_id)
        return await messages.read(self._store, execution_id)

    async def poll(self, execution_id: str) -> Status:
        """The status of an execution. Raises UnknownExecution."""
        return await self.status(await self.read(execution_id))

    async def status(self, execution: Execution) -> Status:
        """The status of a stored execution, with its whole result."""
        result = execution.completed_result
        if execution.outcome == "completed" and result is None:
            loaded = await self._store.load(execution.execution_id)
            if OUTPUT in loaded.unreadable:
                raise UnreadableExecution(loaded.unreadable[OUTPUT])
            output = loaded.output
            if output is None:
                raise Unavailable(f"the output of execution {execution.execution_id} can't be read yet")
            result = output.value
        return self.describe(execution, result)

    def describe(self, execution: Execution, result: str | None) -> Status:
        """The status of a stored execution whose result is known. It also says why this app leaves the execution alone,
        if it does."""
        return Status.of(execution, result, why_left_alone(execution, self._registry), self._registry.raises)

    async def start(
        self, workflow: Workflow[Any, Any], value: Any, text: str, key: str | None, driver: Worker | None = None
    ) -> Execution:
        """Start an execution, or return the one that was started before with this idempotency key. `driver`: a worker
        that drives it at once. Raises AlreadyStarted if that one has another payload."""
        if key is None:
            key = workflow.key_of(value)
        else:
            _check_key(key)
        id = execution_id(workflow.name, key if key is not None else uuid.uuid4().hex)
        now = self._clock.now()
        large = is_large(text)
        execution = Execution(
            execution_id=id,
            workflow=workflow.name,
            version=workflow.version,
            run_id=new_run_id(),
            logic_flags=CURRENT,
            payload=None if large else text,
            tags=workflow.tags_of(value),
            retention_seconds=workflow.options.retention_seconds(self._settings.retention),
            traceparent=telemetry.traceparent(),
            due_at=now + self._settings.sweep_new_after,
            created_at=now,
            updated_at=now,
        ).with_write_id()
        input = Large(id=INPUT, execution_id=id, value=text).with_write_id() if large else None

        async def create(execution: Execution) -> Execution:
            while True:
                try:
                    return await self._store.create(execution, input)
                except Taken:
                    with contextlib.suppress(UnknownExecution):  # it was purged in the meantime: try again
                        first = await self.read(id)
                        await self._check_payload(workflow, first, text)
                        return first

        return await (create(execution) if driver is None else driver.start_new(execution, create))

    async def _check_payload(self, workflow: Workflow[Any, Any], first: Execution, text: str) -> None:
        payload = await first_payload(self._store, self._clock, first)
        found = Changes() if payload is None else changes(workflow.payload, payload, text, "payload")
        if found:
            raise AlreadyStarted(
                f"that idempotency key started execution {first.execution_id} of workflow {workflow.name} with another "
                f"payload before: {'; '.join(found.differences)}. Nothing was changed: take another key, or start it "
                "with its first payload",
                first.execution_id,
                found.differences,
                found.outer,
            )

    async def send(self, execution_id: str, channel: Channel[Any], text: str, key: str | None) -> Status:
        """Add a value to a channel's inbox, once for each key. Raises AlreadySent for another value of one key."""
        _check_id(execution_id)
        execution = await messages.send(self._store, self._clock, execution_id, channel, text, key)
        self._tell(execution)
        return await self.status(execution)

    async def resolve(
        self, execution_id: str, deferred: Deferred[Any], text: str | None, error: ErrorRecord | None = None
    ) -> Status:
        """Resolve a deferred with a value or an error. The first one wins."""
        _check_id(execution_id)
        execution = await messages.resolve(self._store, self._clock, execution_id, deferred, text, error)
        self._tell(execution)
        return await self.status(execution)

    async def interrupt(self, execution_id: str, reason: str | None, by: str | None = None) -> Status:
        """Ask an execution to stop and clean up. Once the interrupt is accepted, the execution ends as interrupted. If
        it had ended before, `interrupted` is false in the status. The first reason stays. Raises UnknownExecution,
        InvalidInput."""
        _check_id(execution_id)
        _check_reason(reason, "an interrupt")
        execution = await messages.interrupt(self._store, self._clock, execution_id, reason, by)
        self._tell(execution)
        return await self.status(execution)

    async def terminate(self, execution_id: str) -> Status:
        """End an execution at once, running nothing: no cleanup, no compensation, and its children go on. It works
        whatever its history or code has become. Raises UnknownExecution, AlreadyEnded, LaterEngine."""
        while True:
            execution = await self._own(execution_id)
            if execution.is_complete:
                if execution.outcome == "terminated":
                    return await self.status(execution)
                raise AlreadyEnded(f"execution {execution_id} has ended: {execution.outcome}")
            with contextlib.suppress(Conflict, Missing):
                ended = await self._store.replace(transitions.terminate(self._clock.now()).apply(execution))
                telemetry.add("durable.executions.ended", workflow=ended.workflow, outcome="terminated")
                self._tell(ended)
                return await self.status(ended)

    async def resume(self, execution_id: str) -> Status:
        """Free a suspended execution to run again, also a quarantined one. Raises UnknownExecution,
        AlreadyEnded, LaterEngine."""
        while True:
            execution = await self._own(execution_id)
            if execution.is_complete:
                raise AlreadyEnded(f"execution {execution_id} has ended: {execution.outcome}")
            if not execution.suspended:
                return await self.status(execution)
            with contextlib.suppress(Conflict, Missing):
                resumed = await self._store.replace(transitions.resume(self._clock.now()).apply(execution))
                return await self.status(resumed)

    async def retry(self, execution_id: str) -> Status:
        """Let an execution that failed or was interrupted run again. One that runs is left as it is. Raises
        UnknownExecution, NotReopened, LaterEngine."""
        while True:
            execution = await self._own(execution_id)
            if not execution.is_complete:
                return await self.status(execution)
            with contextlib.suppress(Conflict, Missing, Taken):
                reopened = await reopen(self._store, self._clock, execution)
                self._tell(reopened)
                return await self.status(reopened)

    async def fork(self, execution_id: str, wanted: Fork) -> Execution:
        """Start a fork of an execution, or return the one that was made before with this key. Raises UnknownExecution,
        NotForked, AlreadyStarted, InvalidInput, LaterEngine, UnreadableExecution."""
        _check_id(execution_id)
        if wanted.key is not None:
            _check_key(wanted.key)
        _check_reason(wanted.reason, "a fork")
        forks = Forks(self._store, self._registry, self._settings, self._clock)
        return await forks.make(execution_id, wanted)

    async def purge(self, execution_id: str) -> None:
        """Delete all documents of an execution that has ended. Raises UnknownExecution. Raises NotEnded if the
        execution runs, or owes its exit to a parent. Also raises NotEnded if the execution ended only a moment ago: a
        request whose answer was lost may still be sent again, and would start the execution again or reach the next
        run."""
        while True:
            execution = await self.read(execution_id)
            if not execution.is_complete or execution.owes:
                raise NotEnded(f"execution {execution_id} hasn't ended: interrupt or terminate it first")
            under_way = self._store.resend_window
            ended = execution.completed_at or execution.updated_at
            is_over = ended + under_way + self._settings.skew
            if under_way and self._clock.now() < is_over:
                raise NotEnded(
                    f"execution {execution_id} ended at {isoformat(ended)}, and an earlier request to it may "
                    "still arrive a second time. That request would start the execution again, or reach its next run. "
                    f"Purge it after {isoformat(is_over)}"
                )
            with contextlib.suppress(Conflict, Missing):
                return await self._store.purge(execution)

    async def _own(self, execution_id: str) -> Execution:
        """An execution whose documents this version may rewrite."""
        execution = await self.read(execution_id)
        execution.check_schema()
        return execution

    def _tell(self, execution: Execution) -> None:
        if self._worker is not None:
            self._worker.notify(execution)


def _check_id(execution_id: str) -> None:
    if not is_execution_id(execution_id):
        raise InvalidInput(
            f"an execution id has 32 hexadecimal digits, unlike {execution_id[:80]!r}",
            [("executionId", "malformed")],
        )


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not key:
        raise InvalidInput(f"an idempotency key must be text that isn't empty, not {key!r}", [("key", "not a text")])


def _check_reason(reason: object, of: str) -> None:
    if reason is None:
        return
    if not isinstance(reason, str) or not 0 < len(reason) <= MAX_REASON:
        raise InvalidInput(
            f"the reason of {of} must be text of 1 to {MAX_REASON:,} characters",
            [("reason", "not such a text")],
        )
    if reason != reason.encode("utf-8", "replace").decode():
        raise InvalidInput(f"the reason of {of} holds half a character", [("reason", "half a character")])
