"""Makes a fork, once for each key: its id, its payload, its exec document."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.boundary import forking
from engine.boundary.first_payload import first_payload
from engine.boundary.forking import Given, Original, Past
from engine.core.registry import Registry
from engine.ground import telemetry
from engine.ground.clock import Clock
from engine.ground.errors import AlreadyStarted, InvalidInput, Missing, Taken
from engine.ground.names import execution_id
from engine.ground.settings import Settings
from engine.store.base import Store
from engine.store.documents import INPUT, Execution, ForkedFrom, Large, is_large, new_run_id
from engine.values.repeats import Changes, changes


@dataclass(frozen=True)
class Fork:
    """A request for a fork.

    step: the step from which it goes on, as the history names it.
    payload: another payload than the original's. None: the same.
    results: other results than the recorded ones, by step.
    key: the idempotency key of the fork. None: each request makes another fork.
    reason: why, in the words of who asks.
    by: who asks, if callers sign in.
    """

    step: str
    payload: Given | None = None
    results: Mapping[str, Given] = field(default_factory=dict)
    key: str | None = None
    reason: str | None = None
    by: str | None = None


class Forks:
    """Makes forks of the executions of one store."""

    def __init__(self, store: Store, registry: Registry, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._clock = clock

    async def make(self, original_id: str, wanted: Fork) -> Execution:
        """The fork, made now or before. Raises as `Requests.fork` does."""
        if not isinstance(wanted.step, str) or not wanted.step:
            raise InvalidInput("a fork goes on from a step: its name is in the history", [("from", "empty")])
        while True:
            original = await forking.read_original(self._store, self._clock, self._registry, original_id)
            given = self._payload(original, wanted)
            id = execution_id(original.workflow.name, uuid.uuid4().hex if wanted.key is None else wanted.key)
            with contextlib.suppress(Missing):
                made = await self._store.read(id)
                await self._check_same(original, made, wanted, given[0])
                return made
            with contextlib.suppress(Taken):  # somebody made it meanwhile: look at it
                return await self._make(original, id, wanted, *given)

    async def _make(self, original: Original, id: str, wanted: Fork, text: str, value: Any) -> Execution:
        past = await forking.cut(original, wanted.step)
        past, results = forking.with_results(original, past, wanted.step, wanted.results)
        forked = forking.forked_event(original, past, wanted.step, self._clock.now())
        events = (*past.events, replace(forked, by=wanted.by, reason=wanted.reason))
        fork = self._document(original, id, past, wanted, results, text, value)
        await forking.check_fork(original, fork, text, events)
        large = Large(id=INPUT, execution_id=fork.execution_id, value=text).with_write_id() if is_large(text) else None
        return await forking.store_fork(self._store, fork, large, events, past.inbox)

    def _document(
        self,
        original: Original,
        id: str,
        past: Past,
        wanted: Fork,
        results: Mapping[str, str],
        text: str,
        value: Any,
    ) -> Execution:
        source, workflow, now = original.execution, original.workflow, self._clock.now()
        origin = ForkedFrom(
            execution_id=source.execution_id,
            run_id=source.run_id,
            step=wanted.step,
            edited=wanted.payload is not None,
            results=dict(results),
            by=wanted.by,
            reason=wanted.reason,
        )
        return Execution(
            execution_id=id,
            workflow=source.workflow,
            version=source.version,
            run_id=new_run_id(),
            logic_flags=source.logic_flags,
            payload=None if is_large(text) else text,
            forked_from=origin,
            tags=workflow.tags_of(value),
            retention_seconds=workflow.options.retention_seconds(self._settings.retention),
            traceparent=telemetry.traceparent(),
            inbox_count=len(past.inbox),
            logged=past.turn,
            due_at=now + self._settings.sweep_new_after,
            created_at=now,
            updated_at=now,
        ).with_write_id()

    def _payload(self, original: Original, wanted: Fork) -> tuple[str, Any]:
        """The payload of the fork, as JSON text and as a value. Raises InvalidInput, EncodingError, TooLarge."""
        workflow, given = original.workflow, wanted.payload
        if given is None:
            return original.payload, workflow.payload.decode(original.payload) if workflow.takes_payload else None
        if given.text is None:
            return workflow.stored_payload(given.value)
        if not workflow.takes_payload:
            if given.text != "null":
                raise InvalidInput(f"workflow {workflow.name} takes no payload")
            return "null", None
        text = workflow.payload.accept(given.text)
        return text, workflow.payload.decode(text)

    async def _check_same(self, original: Original, made: Execution, wanted: Fork, text: str) -> None:
        """Raises AlreadyStarted if the execution that has the key is not the fork that is wanted."""
        source, origin = original.execution, made.forked_from
        is_same = origin is not None and (
            (origin.execution_id, origin.run_id, origin.step) == (source.execution_id, source.run_id, wanted.step)
            and (origin.edited, origin.results.keys()) == (wanted.payload is not None, wanted.results.keys())
        )
        if is_same and wanted.results:
            past = await forking.cut(original, wanted.step)
            wanted_results = forking.with_results(original, past, wanted.step, wanted.results)[1]
            is_same = origin is not None and origin.results == wanted_results
        first = await first_payload(self._store, self._clock, made) if is_same and wanted.payload is not None else None
        found = Changes() if first is None else changes(original.workflow.payload, first, text, "payload")
        if is_same and not found:
            return
        other = f"with another payload: {'; '.join(found.differences)}" if is_same else "or started in another way"
        raise AlreadyStarted(
            f"that idempotency key names execution {made.execution_id} of workflow {made.workflow}, which was forked "
            f"{other}. Nothing was changed: take another key",
            made.execution_id,
            found.differences,
            found.outer,
        )
