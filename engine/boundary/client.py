"""The client: starts and controls executions from any process."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, TypeVar, overload

from engine.boundary.forking import Given
from engine.boundary.forks import Fork
from engine.boundary.handle import Handle
from engine.boundary.health import Health, look
from engine.boundary.requests import Requests
from engine.boundary.status import Page, Status
from engine.core.activity import MISSING
from engine.core.declarations import Channel, Deferred, Workflow
from engine.core.registry import Registry
from engine.driving.worker import Worker
from engine.ground import tokens
from engine.ground.clock import Clock
from engine.ground.errors import InvalidInput, UnknownDeferred, UnknownWorkflow
from engine.ground.names import execution_id as derived_id
from engine.ground.settings import Settings
from engine.store.base import Filter, Store
from engine.store.documents import Execution, inbox_id
from engine.values.error_records import record
from engine.values.failures import Failure

FIRST_POLL = timedelta(milliseconds=50)
LAST_POLL = timedelta(seconds=1)
FOR_EVER = timedelta(days=36_500)

P_contra = TypeVar("P_contra", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class TakesNothing(Protocol[R_co]):
    """For type checkers: a workflow that is started without a payload."""

    @property
    def idempotency_key(self) -> Callable[..., str] | None: ...

    def __call__(self) -> Coroutine[Any, Any, R_co]: ...


class TakesPayload(Protocol[P_contra, R_co]):
    """For type checkers: a workflow that is started with a payload."""

    @property
    def idempotency_key(self) -> Callable[..., str] | None: ...

    def __call__(self, payload: P_contra, /) -> Coroutine[Any, Any, R_co]: ...


class Client:
    """Starts and controls executions. Any number of clients may be used at once, in any process.

    A method that takes an `execution` takes its handle or its id.
    """

    def __init__(
        self, store: Store, registry: Registry, settings: Settings, clock: Clock, worker: Worker | None
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._worker = worker
        self._requests = Requests(store, registry, settings, clock, worker)

    @overload
    async def start(self, workflow: TakesNothing[R], *, key: str | None = None) -> Handle[R]: ...
    @overload
    async def start(self, workflow: TakesPayload[T, R], payload: T, *, key: str | None = None) -> Handle[R]: ...
    @overload
    async def start(self, workflow: str, payload: Any = ..., *, key: str | None = None) -> Handle[Any]: ...
    async def start(self, workflow: Any, payload: Any = MISSING, *, key: str | None = None) -> Handle[Any]:
        """Start a workflow, once for each idempotency key. `key` overrides the workflow's own key.

        Starting again with the same payload returns the existing execution, running or ended. Raises AlreadyStarted for
        another payload, UnknownWorkflow, InvalidInput, and EncodingError or TooLarge for a payload that can't be
        stored.
        """
        found = self._find(workflow)
        return Handle(self, found, (await self._start(found, payload, key)).execution_id)

    @overload
    async def execute(
        self, workflow: TakesNothing[R], *, key: str | None = None, timeout: float | timedelta | None = None
    ) -> R: ...
    @overload
    async def execute(
        self,
        workflow: TakesPayload[T, R],
        payload: T,
        *,
        key: str | None = None,
        timeout: float | timedelta | None = None,
    ) -> R: ...
    @overload
    async def execute(
        self, workflow: str, payload: Any = ..., *, key: str | None = None, timeout: float | timedelta | None = None
    ) -> Any: ...
    async def execute(
        self,
        workflow: Any,
        payload: Any = MISSING,
        *,
        key: str | None = None,
        timeout: float | timedelta | None = None,
    ) -> Any:
        """Start a workflow, drive it in this process, and return its result.

        After `timeout` (seconds, or a timedelta) this call raises TimeoutError, and the execution goes on. Raises as
        `start` and `Handle.result` do, and RuntimeError for a client without a worker.
        """
        found, driver = self._find(workflow), self._driver()
        execution = await self._start(found, payload, key, driver)
        return await Handle(self, found, execution.execution_id).result(timeout)

    @overload
    def handle(self, workflow: Workflow[Any, R], execution_id: str) -> Handle[R]: ...
    @overload
    def handle(self, workflow: Workflow[Any, R], *, key: str) -> Handle[R]: ...
    @overload
    def handle(self, workflow: str, execution_id: str) -> Handle[Any]: ...
    @overload
    def handle(self, workflow: str, *, key: str) -> Handle[Any]: ...
    def handle(self, workflow: Any, execution_id: str | None = None, *, key: str | None = None) -> Handle[Any]:
        """A handle of an execution that was started before, by its id or its idempotency key. Sends no request to the
        store. Raises UnknownWorkflow."""
        found = self._find(workflow)
        if execution_id is not None and key is None:
            return Handle(self, found, execution_id)
        if execution_id is None and key is not None:
            return Handle(self, found, derived_id(found.name, key))
        raise TypeError("a handle takes the execution's id or its idempotency key: one of the two")

    async def start_json(self, name: str, text: str, *, key: str | None = None, drive: bool = False) -> Status:
        """As `start`, with a payload of JSON text from outside. `drive`: whether to drive it in this process. Raises
        UnknownWorkflow, InvalidInput, AlreadyStarted."""
        found = self._find(name)
        if not found.takes_payload:
            if text.strip() not in ("", "null"):
                raise InvalidInput(f"workflow {name} takes no payload")
            normal, value = "null", None
        elif not text.strip():
            normal, value = found.stored_payload(found.default_payload())
        else:
            normal = found.payload.accept(text)
            value = found.payload.decode(normal)
        driver = self._driver() if drive else None
        return await self._requests.status(await self._requests.start(found, value, normal, key, driver))

    async def status(self, execution: str | Handle[Any]) -> Status:
        """The status of an execution. Raises UnknownExecution."""
        return await self._requests.poll(id_of(execution))

    async def read(self, execution: str | Handle[Any]) -> Execution:
        """The stored document of an execution. Raises UnknownExecution, and InvalidInput for a malformed id."""
        return await self._requests.read(id_of(execution))

    async def wait(self, execution: str | Handle[Any], timeout: float | timedelta | None = None) -> Status:
        """Wait until an execution has ended, for `timeout` at most (seconds, or a timedelta), and until this process is
        about to close. Returns the execution's status then. Raises UnknownExecution."""
        execution_id = id_of(execution)
        deadline, pause = self._clock.now() + _duration(timeout), FIRST_POLL
        # An execution that this process drives exists, and needs no look before the drive is over.
        status = None if self._drive_of(execution_id) else await self.status(execution_id)
        while not (status and status.is_complete) and (left := deadline - self._clock.now()) > timedelta(0):
            ended = asyncio.Event()
            task = self._drive_of(execution_id)
            if task is not None:
                task.add_done_callback(_setter(ended))
            await self._clock.wait(ended, min(left, left if task else pause).total_seconds())
            pause = min(pause * 2, LAST_POLL)
            status = await self.status(execution_id)
            if self._worker is not None and self._worker.is_draining:
                break  # this process no longer drives it
        return status or await self.status(execution_id)

    def _drive_of(self, execution_id: str) -> asyncio.Task[None] | None:
        return self._worker.running(execution_id) if self._worker else None

    async def drive(self, execution: str | Handle[Any]) -> None:
        """Drive an execution in this process until it ends, is suspended, or belongs to another driver. Raises
        UnknownExecution, and RuntimeError for a client without a worker."""
        await self._driver().drive(await self._requests.read(id_of(execution)))

    @overload
    async def resolve(self, execution: str | Handle[Any], deferred: Deferred[None]) -> Status: ...
    @overload
    async def resolve(self, execution: str | Handle[Any], deferred: Deferred[T], value: T) -> Status: ...
    @overload
    async def resolve(self, execution: str | Handle[Any], deferred: str, value: Any = None) -> Status: ...
    async def resolve(self, execution: str | Handle[Any], deferred: Any, value: Any = None) -> Status:
        """Resolve a deferred with a value. The first value wins. The same value again is a success. Raises
        UnknownExecution, UnknownDeferred, InvalidInput, EncodingError, AlreadyResolved, AlreadyEnded."""
        found = self._find_deferred(deferred)
        text, _ = found.codec.round_trip(value)
        return await self._requests.resolve(id_of(execution), found, text)

    async def resolve_token(self, token: str, value: Any = None) -> Status:
        """As `resolve`, for the deferred that a token names."""
        target = tokens.decode(token)
        return await self.resolve(target.execution_id, target.deferred, value)

    async def resolve_json(self, execution: str | Handle[Any], name: str, text: str) -> Status:
        """As `resolve`, with a value of JSON text from outside."""
        found = self._find_deferred(name)
        return await self._requests.resolve(id_of(execution), found, found.codec.accept(text or "null"))

    async def reject(self, execution: str | Handle[Any], deferred: str | Deferred[Any], failure: Failure) -> Status:
        """Resolve a deferred with a typed failure. The failure is raised where the workflow awaits the deferred. Raises
        as `resolve` does."""
        return await self._requests.resolve(id_of(execution), self._find_deferred(deferred), None, record(failure))

    @overload
    async def send(
        self, execution: str | Handle[Any], channel: Channel[T], value: T, *, key: str | None = None
    ) -> Status: ...
    @overload
    async def send(
        self, execution: str | Handle[Any], channel: str, value: Any, *, key: str | None = None
    ) -> Status: ...
    async def send(self, execution: str | Handle[Any], channel: Any, value: Any, *, key: str | None = None) -> Status:
        """Send a value to a channel. With a `key`, sending the value again changes nothing. Raises UnknownExecution,
        UnknownDeferred for a channel that nobody declares, InvalidInput, EncodingError, AlreadyEnded, and AlreadySent
        for another value under that key."""
        found = self._find_channel(channel)
        return await self._requests.send(id_of(execution), found, found.codec.round_trip(value)[0], key)

    async def send_json(self, execution: str | Handle[Any], name: str, text: str, *, key: str | None = None) -> Status:
        """As `send`, with a value of JSON text from outside."""
        found = self._find_channel(name)
        return await self._requests.send(id_of(execution), found, found.codec.accept(text or "null"), key)

    async def interrupt(
        self, execution: str | Handle[Any], *, reason: str | None = None, by: str | None = None
    ) -> Status:
        """Ask an execution to stop and clean up. Once the interrupt is accepted, the execution ends as interrupted. If
        it had ended before, `interrupted` is False in the returned status.

        reason: up to 1,000 characters. The status shows it, and it is the message of the CancelledError in the
            workflow. If there are several interrupts, the first reason stays.
        by: who asks. The status shows it.

        Raises UnknownExecution, InvalidInput.
        """
        return await self._requests.interrupt(id_of(execution), reason, by)

    async def resume(self, execution: str | Handle[Any]) -> Status:
        """Let a suspended execution run again, including a quarantined one. Raises UnknownExecution, AlreadyEnded."""
        return await self._requests.resume(id_of(execution))

    async def retry(self, execution: str | Handle[Any]) -> Status:
        """Let an execution that failed or was interrupted run again, with today's code. Its history is kept up to the
        step that failed. Children that failed or were interrupted with it run again too. A running execution stays
        unchanged. Raises UnknownExecution. Raises NotReopened if the execution ended in another way, if its
        compensations have run, or if a parent knows its end."""
        return await self._requests.retry(id_of(execution))

    async def fork(
        self,
        execution: str | Handle[Any],
        from_: str,
        payload: Any = MISSING,
        *,
        results: Mapping[str, Any] | None = None,
        key: str | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> Handle[Any]:
        """Start a new execution that takes over the history of this one up to a step, and goes on from there. The
        original stays as it is. Returns the handle of the fork.

        from_: the step, as the history names it: `charge`, `charge#2`, a deferred's name.
        payload: another payload for the fork. What it changes must come after the step.
        results: other results for steps before it, by step. The code must still come to the step.
        key: the idempotency key of the fork. Forking again with it returns the same fork. Without a key, each call
            makes another fork.
        reason: up to 1,000 characters. The status and the history of the fork show it. If forking is asked for again
            with a key, the first reason stays.
        by: who asks. The status and the history show it.

        Raises UnknownExecution. Raises NotForked if something can't come along, or if the history doesn't replay, with
        this payload or at all. Raises AlreadyStarted if the key names another execution, and InvalidInput,
        EncodingError or TooLarge for what is given.
        """
        given = None if payload is MISSING else Given(payload)
        if results is not None and not isinstance(results, Mapping):
            raise InvalidInput(f"other results are a mapping of steps to values, not {results!r:.80}")
        others = {step: Given(result) for step, result in (results or {}).items()}
        fork = await self._requests.fork(id_of(execution), Fork(from_, given, others, key, reason, by))
        return Handle(self, self._find(fork.workflow), fork.execution_id)

    async def fork_json(
        self,
        execution: str | Handle[Any],
        from_: str,
        text: str | None = None,
        *,
        results: Mapping[str, str] | None = None,
        key: str | None = None,
        reason: str | None = None,
        by: str | None = None,
    ) -> Status:
        """As `fork`, with a payload and results of JSON text from outside. Returns the status of the fork."""
        given = None if text is None else Given(text=text)
        others = {step: Given(text=result) for step, result in (results or {}).items()}
        fork = await self._requests.fork(id_of(execution), Fork(from_, given, others, key, reason, by))
        return await self._requests.status(fork)

    async def terminate(self, execution: str | Handle[Any]) -> Status:
        """End an execution at once, and run nothing: no cleanup, no compensation. Its children go on. This works even
        if its history or its code is broken. Raises UnknownExecution, AlreadyEnded."""
        return await self._requests.terminate(id_of(execution))

    async def purge(self, execution: str | Handle[Any]) -> None:
        """Delete all documents of an execution that has ended. Raises UnknownExecution, NotEnded."""
        await self._requests.purge(id_of(execution))

    async def list(self, filter: Filter, limit: int = 100, continuation: str | None = None) -> Page:
        """Executions, the newest first. Large results are left out."""
        page = await self._store.list(filter, limit, continuation)
        return Page([self._requests.describe(e, e.completed_result) for e in page.executions], page.continuation)

    async def health(self) -> Health:
        """The health of the app. Raises StoreError if the store can't be reached."""
        return await look(self._store, self._registry, self._clock)

    async def _start(
        self, workflow: Workflow[Any, Any], payload: Any, key: str | None, driver: Worker | None = None
    ) -> Execution:
        text, value = workflow.stored_payload(workflow.default_payload() if payload is MISSING else payload)
        return await self._requests.start(workflow, value, text, key, driver)

    def _driver(self) -> Worker:
        if self._worker is None:
            raise RuntimeError("this client has no worker to drive with")
        return self._worker

    def _find(self, workflow: str | Workflow[Any, Any]) -> Workflow[Any, Any]:
        name = workflow.name if isinstance(workflow, Workflow) else workflow
        found = self._registry.current(name)
        if found is None:
            raise UnknownWorkflow(
                f"no workflow is named {name!r}; there are: {', '.join(self._registry.names()) or 'none'}"
            )
        return found

    def _find_channel(self, channel: str | Channel[Any]) -> Channel[Any]:
        found = self._registry.channel(channel) if isinstance(channel, str) else channel
        if found is None:
            known = _known(str(channel), self._registry.channel_names())
            raise UnknownDeferred(f"no channel is named {channel!r}: {known}")
        if not isinstance(found, Channel):
            raise TypeError(f"send() takes a Channel or its name, not {found!r}")
        self._registry.check_type(found)
        return found

    def _find_deferred(self, deferred: str | Deferred[Any]) -> Deferred[Any]:
        found = self._registry.deferred(deferred) if isinstance(deferred, str) else deferred
        if found is None:
            known = _known(str(deferred), self._registry.deferred_names())
            raise UnknownDeferred(f"no deferred is named {deferred!r}: {known}")
        if not isinstance(found, Deferred):
            raise TypeError(f"resolve() and reject() take a Deferred or its name, not {found!r}")
        self._registry.check_type(found)
        inbox_id("deferred", found.name)
        return found


def id_of(execution: str | Handle[Any]) -> str:
    """The id of an execution, given as a handle or an id."""
    return execution.execution_id if isinstance(execution, Handle) else execution


def _duration(timeout: float | timedelta | None) -> timedelta:
    if timeout is None:
        return FOR_EVER
    if isinstance(timeout, timedelta):
        return min(timeout, FOR_EVER)
    return timedelta(seconds=min(timeout, FOR_EVER.total_seconds()))


def _known(wanted: str, names: Sequence[str]) -> str:
    if close := difflib.get_close_matches(wanted, names):
        return f"did you mean {' or '.join(close)}?"
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"there are {shown}" if names else "none is declared"


def _setter(event: asyncio.Event) -> Callable[[object], None]:
    return lambda _: event.set()
