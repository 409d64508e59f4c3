"""One guard of the protocol switched off at a time: what the simulation must notice.

Each mutant is a context in which the engine, or the service, lacks one guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from engine.boundary import requests
from engine.core.run import Run
from engine.driving import child_requests, children, reopening, worker
from engine.driving.claim import Claim, Create, claim_new
from engine.driving.delivery import Delivery
from engine.driving.drive import Drive
from engine.driving.lease import Lease, LeaseLost
from engine.driving.resources import Resources
from engine.ground.clock import Clock
from engine.ground.settings import Settings
from engine.store import transitions
from engine.store.base import Store
from engine.store.cosmos import patches
from engine.store.cosmos.items import Operation
from engine.store.documents import EXEC, Document, Execution, Parent
from engine.store.transitions import Replacement
from tests.verification.simulation.container import Container

Mutant = Callable[[], AbstractContextManager[Any]]
NEVER = datetime.max.replace(tzinfo=UTC)

_reopen, _reopen_it = transitions.reopen, reopening.reopen

_init, _write_log, _is_at_rest = Lease.__init__, Drive._write_log, Drive._is_at_rest

_apply, _create, _load, _read, _refresh = (
    Container._apply,
    Container._create,
    Lease.load,
    Lease._read_partition,
    Lease.refresh,
)
_restart, _claim_new = Lease.restart, claim_new
_increment, _operations, _complete = patches._increment, patches.operations, transitions.complete


def _without_if_match(where: Callable[[Document], bool]) -> Mutant:
    """The service ignores the etag where an exec document is replaced by such a one."""

    def apply(self: Container, documents: dict[str, Document], operation: Operation) -> Document:
        if operation.kind == "replace" and where(operation.arguments[1]) and EXEC in documents:
            documents[EXEC] = self._stamped(operation.arguments[1])
            return {"eTag": documents[EXEC]["_etag"]}
        return _apply(self, documents, operation)

    return lambda: mock.patch.object(Container, "_apply", apply)


def _overwriting(prefix: str) -> Mutant:
    """The service takes a create of such a document where one stands."""

    def create(self: Container, documents: dict[str, Document], document: Document) -> Document:
        if document["id"].startswith(prefix):
            documents.pop(document["id"], None)
        return _create(self, documents, document)

    return lambda: mock.patch.object(Container, "_create", create)


def _signal_without_wake() -> AbstractContextManager[Any]:
    def increment(name: str) -> Document:
        return {**_increment(name), "value": 0 if name == "wake" else 1}

    return mock.patch.object(patches, "_increment", increment)


def _signal_without_due() -> AbstractContextManager[Any]:
    def operations(*arguments: Any) -> list[Document]:
        return [change for change in _operations(*arguments) if change["path"] != "/dueAt"]

    return mock.patch.object(patches, "operations", operations)


def _no_second_look_at_the_inbox() -> AbstractContextManager[Any]:
    async def refresh(self: Lease) -> None:
        self._is_loaded, loaded = False, self._is_loaded
        try:
            await _refresh(self)
        finally:
            self._is_loaded = loaded

    return mock.patch.object(Lease, "refresh", refresh)


def _inbox_before_exec() -> AbstractContextManager[Any]:
    async def refresh(self: Lease) -> None:
        loaded = await self._store.load(self.execution.execution_id, self._length)
        with mock.patch.object(self, "_read_partition", mock.AsyncMock(return_value=loaded)):
            await _refresh(self)

    return mock.patch.object(Lease, "refresh", refresh)


def _nobody_asks_whose_lease_it_is() -> AbstractContextManager[Any]:
    async def refresh(self: Lease) -> None:
        try:
            await _refresh(self)
        except LeaseLost:
            # It takes what it reads for its own; were it seen to have ended, the table of transitions would refuse.
            self.execution = (await self._store.read(self.execution.execution_id)).model_copy(
                update={"worker": self.token, "status": "running", "outcome": None}
            )

    return mock.patch.object(Lease, "refresh", refresh)


def _interrupt_forgotten() -> AbstractContextManager[Any]:
    async def refresh(self: Lease) -> None:
        known = self.execution.interrupted
        await _refresh(self)
        self.execution = self.execution.model_copy(update={"interrupted": known})

    return mock.patch.object(Lease, "refresh", refresh)


def _restart_deletes_nothing() -> AbstractContextManager[Any]:
    async def restart(self: Lease, payload: str, read: Any, now: datetime, displayed: Any) -> bool:
        return await _restart(self, payload, [], now, displayed)

    return mock.patch.object(Lease, "restart", restart)


def _no_seal() -> AbstractContextManager[Any]:
    async def load(self: Lease) -> Any:
        self._is_sealed = True
        return await _load(self)

    return mock.patch.object(Lease, "load", load)


def _no_count_of_the_inbox() -> AbstractContextManager[Any]:
    async def read(self: Lease, from_chunk: int = 0) -> Any:
        known = self.execution
        self.execution = known.model_copy(update={"inbox_count": 0})
        try:
            return await _read(self, from_chunk)
        finally:
            self.execution = known

    return mock.patch.object(Lease, "_read_partition", read)


def _child_without_outbox() -> AbstractContextManager[Any]:
    def complete(*arguments: Any) -> Replacement:
        return replace(_complete(*arguments), derived=lambda execution: {"seen_wake": execution.wake, "due_at": None})

    return mock.patch.object(transitions, "complete", complete)


def _no_guards_in_the_table() -> AbstractContextManager[Any]:
    return mock.patch.object(Replacement, "is_allowed", return_value=True)


def _no_clock_before_the_seal() -> AbstractContextManager[Any]:
    async def load(self: Lease) -> Any:
        due, self.heartbeat_at = self.heartbeat_at, NEVER
        try:
            return await _load(self)
        finally:
            if self.heartbeat_at is NEVER:
                self.heartbeat_at = due

    return mock.patch.object(Lease, "load", load)


def _counted_from_the_answer() -> AbstractContextManager[Any]:
    def init(self: Lease, store: Store, clock: Clock, settings: Settings, claim: Claim) -> None:
        _init(self, store, clock, settings, claim)
        self.heartbeat_at = clock.now() + settings.heartbeat

    return mock.patch.object(Lease, "__init__", init)


def _no_clock_before_activities() -> AbstractContextManager[Any]:
    def write_log(self: Drive) -> None:  # the last call before that look
        _write_log(self)
        self._lease.heartbeat_at = max(self._lease.heartbeat_at, self._now() + timedelta(milliseconds=1))

    return mock.patch.object(Drive, "_write_log", write_log)


def _activities_before_the_write() -> AbstractContextManager[Any]:
    def is_at_rest(self: Drive, run: Run, delivery: Delivery) -> bool:  # the last call before the write
        at_rest = _is_at_rest(self, run, delivery)
        if self._intake is not None and self._intake.unrecorded and not at_rest:
            self._activities.start(run.steps.activities)
        return at_rest

    return mock.patch.object(Drive, "_is_at_rest", is_at_rest)


def _any_new_execution_is_its_own() -> AbstractContextManager[Any]:
    async def claim(resources: Resources, execution: Execution, create: Create) -> tuple[Execution, Claim | None]:
        stored, _ = await _claim_new(resources, execution, create)
        return stored, None if stored.is_complete else Claim(stored, is_fresh=False, is_takeover=False)

    return mock.patch.object(worker, "claim_new", claim)


@contextmanager
def _anything_that_has_ended_runs_again() -> Iterator[None]:
    def reopen(now: datetime, waiting: Parent | None = None) -> Replacement:
        return replace(_reopen(now, waiting), condition=None)

    with mock.patch.object(reopening, "_check"), mock.patch.object(transitions, "reopen", reopen):
        yield


def _a_retry_forgets_the_last_events() -> AbstractContextManager[Any]:
    async def reopen(store: Store, clock: Clock, execution: Execution, waiting: Parent | None = None) -> Execution:
        return await _reopen_it(store, clock, execution.model_copy(update={"last_events": None}), waiting)

    return mock.patch.object(requests, "reopen", reopen)


def _a_retry_leaves_the_last_events_where_they_lie() -> AbstractContextManager[Any]:
    def reopen(now: datetime, waiting: Parent | None = None) -> Replacement:
        reopening = _reopen(now, waiting)
        return replace(reopening, set={name: of for name, of in reopening.set.items() if name != "last_events"})

    return mock.patch.object(transitions, "reopen", reopen)


MUTANTS: Mapping[str, Mutant] = {
    "suspend without IfMatch": _without_if_match(lambda d: d["suspended"]),
    "complete without IfMatch": _without_if_match(lambda d: d["status"] == "complete"),
    "claim without IfMatch": _without_if_match(lambda d: d["claims"] > 0 and not d["suspended"]),
    "append over what is there": _overwriting("history::"),
    "the last value of a deferred wins": _overwriting("deferred::"),
    "signal without wake": _signal_without_wake,
    "signal without dueAt": _signal_without_due,
    "no second look at the inbox after a 412": _no_second_look_at_the_inbox,
    "inbox before exec": _inbox_before_exec,
    "after a 412 nobody asks whose lease it is": _nobody_asks_whose_lease_it_is,
    "an interrupt is overwritten": _interrupt_forgotten,
    "a creator takes any execution for its own": _any_new_execution_is_its_own,
    "takeover without seal": _no_seal,
    "a restart deletes nothing": _restart_deletes_nothing,
    "inbox not counted": _no_count_of_the_inbox,
    "any transition is allowed": _no_guards_in_the_table,
    "a child's end is not owed": _child_without_outbox,
    "a child that was given up isn't told": lambda: mock.patch.object(children, "drop_child", mock.AsyncMock()),
    "nobody looks for a circle of waits": lambda: mock.patch.object(
        child_requests, "find_circle", mock.AsyncMock(return_value=())
    ),
    "anything that has ended runs again": _anything_that_has_ended_runs_again,
    "a retry forgets the last events": _a_retry_forgets_the_last_events,
    "a retry leaves the last events where they lie": _a_retry_leaves_the_last_events_where_they_lie,
    "a takeover seals without a look at the clock": _no_clock_before_the_seal,
    "a lease is counted from the answer": _counted_from_the_answer,
    "no look at the clock before activities start": _no_clock_before_activities,
    "activities start before what led to them is written": _activities_before_the_write,
}
