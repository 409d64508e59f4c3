"""What the outside may ask of executions: start, poll, wait, complete a deferred, interrupt, resume."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import hashlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from engine.boundary.health import Health, look
from engine.core.declarations import MISSING, Channel, Deferred, Workflow
from engine.core.registry import Registry
from engine.driving.worker import Worker
from engine.ground import tokens
from engine.ground.clock import Clock, isoformat
from engine.ground.errors import (
    AlreadyCompleted,
    AlreadyResolved,
    Conflict,
    InvalidInput,
    Missing,
    NotEnded,
    Taken,
    Unavailable,
    UnknownDeferred,
    UnknownExecution,
    UnknownWorkflow,
)
from engine.ground.names import execution_id, is_execution_id
from engine.ground.settings import Settings
from engine.store.base import Filter, Page, Store
from engine.store.documents import INPUT, Execution, InboxItem, Large, inbox_id, is_large, new_run_id
from engine.values.error_records import ErrorRecord, rebuild, record
from engine.values.failures import Failure
from engine.values.unseen import first_line, plain_json

MAX_KEY = 100
"""Characters that the key of a channel's value takes in a document's id."""
FIRST_POLL = timedelta(milliseconds=50)
LAST_POLL = timedelta(seconds=1)


@dataclass(frozen=True)
class Status:
    """An execution as the outside sees it. `result` is JSON text, there when it completed with one."""

    execution: Execution
    result: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it has ended."""
        return self.execution.is_complete

    @property
    def error(self) -> ErrorRecord | None:
        """What it failed with."""
        return self.execution.error

    def value(self) -> Any:
        """The result as plain JSON data. Raises the failure that it ended with; RuntimeError while it runs."""
        if not self.is_complete:
            raise RuntimeError(f"execution {self.execution.execution_id} hasn't ended yet")
        if self.execution.outcome == "completed":
            return plain_json(self.result)
        if self.error is not None:
            raise rebuild(self.error, exact=False)
        raise asyncio.CancelledError(f"execution {self.execution.execution_id} was {self.execution.outcome}")


class Client:
    """Starts executions and speaks to them. Several may be used at once, in any process."""

    def __init__(
        self, store: Store, registry: Registry, settings: Settings, clock: Clock, worker: Worker | None
    ) -> None:
        self._store = store
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._worker = worker

    async def start(
        self, workflow: str | Workflow[Any, Any], payload: Any = MISSING, *, key: str | None = None
    ) -> Status:
        """Start a workflow, once for each idempotency key: the one given, or else the workflow's own.

        Starting again returns the execution that there is, running or ended, whatever its payload: the first one wins.
        Raises UnknownWorkflow, and EncodingError or TooLarge for a payload that can't be stored.
        """
        found = self._find(workflow)
        text, value = found.stored_payload(found.default_payload() if payload is MISSING else payload)
        return await self._start(found, value, text, key)

    async def start_json(self, name: str, text: str, *, key: str | None = None) -> Status:
        """As `start`, with a payload of JSON text from outside. Raises UnknownWorkflow, InvalidInput."""
        found = self._find(name)
        if not found.takes_payload:
            if text.strip() not in ("", "null"):
                raise InvalidInput(f"workflow {name} takes no payload")
            return await self._start(found, None, "null", key)
        if not text.strip():
            normal, value = found.stored_payload(found.default_payload())
            return await self._start(found, value, normal, key)
        normal = found.payload.accept(text)
        return await self._start(found, found.payload.decode(normal), normal, key)

    async def poll(self, execution_id: str) -> Status:
        """How an execution stands. Raises UnknownExecution."""
        return await self._status(await self._read(execution_id))

    async def wait(self, execution_id: str, timeout: timedelta) -> Status:
        """Its status once it has ended, or as it stands after `timeout`, or when this process is about to be closed.
        Raises UnknownExecution."""
        deadline = self._clock.now() + timeout
        status, pause = await self.poll(execution_id), FIRST_POLL
        while not status.is_complete and (left := deadline - self._clock.now()) > timedelta(0):
            ended = asyncio.Event()
            task = self._worker.running(execution_id) if self._worker else None
            if task is not None:
                task.add_done_callback(_setter(ended))
            await self._clock.wait(ended, min(left, left if task else pause).total_seconds())
            pause = min(pause * 2, LAST_POLL)
            status = await self.poll(execution_id)
            if self._worker is not None and self._worker.is_draining:
                break  # nobody here will bring it to its end
        return status

    async def run(
        self, workflow: str | Workflow[Any, Any], payload: Any = MISSING, *, key: str | None = None
    ) -> Status:
        """Start a workflow and drive it in this process until it ends, waits or is driven elsewhere."""
        status = await self.start(workflow, payload, key=key)
        await self.drive(status.execution)
        return await self.poll(status.execution.execution_id)

    async def drive(self, execution: Execution) -> None:
        """Drive an execution in this process. Raises RuntimeError for a client without a worker."""
        if self._worker is None:
            raise RuntimeError("this client has no worker to drive with")
        await self._worker.drive(execution)

    async def complete(self, execution_id: str, deferred: str | Deferred[Any], value: Any = None) -> Status:
        """Resolve a deferred with a value. The first value wins: the same again is a success. Raises UnknownExecution,
        UnknownDeferred, InvalidInput, AlreadyResolved, AlreadyCompleted."""
        found = self._find_deferred(deferred)
        text, _ = found.codec.round_trip(value)
        return await self._complete(execution_id, found.name, text)

    async def complete_token(self, token: str, value: Any = None) -> Status:
        """As `complete`, for the deferred that a token names."""
        target = tokens.decode(token)
        return await self.complete(target.execution_id, target.deferred, value)

    async def fail(self, execution_id: str, deferred: str | Deferred[Any], failure: Failure) -> Status:
        """Resolve a deferred with a typed failure, which is raised where the workflow awaits it. Raises as `complete`
        does."""
        return await self._complete(execution_id, self._find_deferred(deferred).name, None, record(failure))

    async def complete_json(self, execution_id: str, name: str, text: str) -> Status:
        """As `complete`, with a value of JSON text from outside."""
        found = self._find_deferred(name)
        return await self._complete(execution_id, found.name, found.codec.accept(text or "null"))

    async def interrupt(self, execution_id: str) -> Status:
        """Ask an execution to stop and clean up. Once accepted it ends as interrupted; the status tells (`interrupted`
        is false if it had ended before). Raises UnknownExecution."""
        self._check_id(execution_id)
        try:
            execution = await self._store.interrupt(execution_id, self._clock.now())
        except Missing:
            raise self._unknown(execution_id) from None
        self._tell(execution)
        return await self._status(execution)

    async def terminate(self, execution_id: str) -> Status:
        """End an execution at once, running nothing: no cleanup, no compensation, and its children go on. It works
        whatever its history or code has become. Raises UnknownExecution, AlreadyCompleted."""
        while True:
            execution = await self._read(execution_id)
            if execution.is_complete:
                if execution.outcome == "terminated":
                    return await self._status(execution)
                raise AlreadyCompleted(f"execution {execution_id} has ended: {execution.outcome}")
            with contextlib.suppress(Conflict, Missing):
                ended = await self._store.replace(execution.terminated(self._clock.now()))
                self._tell(ended)
                return await self._status(ended)

    async def send(
        self, execution_id: str, channel: str | Channel[Any], value: Any, *, key: str | None = None
    ) -> Status:
        """Send a value to a channel. With a `key`, sending it again is a success that changes nothing. Raises
        UnknownExecution, UnknownDeferred for a channel that nobody declares, InvalidInput, AlreadyCompleted."""
        found = self._find_channel(channel)
        return await self._send(execution_id, found.name, found.codec.round_trip(value)[0], key)

    async def send_json(self, execution_id: str, name: str, text: str, *, key: str | None = None) -> Status:
        """As `send`, with a value of JSON text from outside."""
        found = self._find_channel(name)
        return await self._send(execution_id, found.name, found.codec.accept(text or "null"), key)

    async def purge(self, execution_id: str) -> None:
        """Delete all that is stored of an execution that has ended. Raises UnknownExecution, and NotEnded while it
        runs, owes its end to a parent, or ended so recently that a request to it whose answer was lost may be on its
        way a second time: that would start it again, or reach the run that follows."""
        while True:
            execution = await self._read(execution_id)
            if not execution.is_complete or execution.owes:
                raise NotEnded(f"execution {execution_id} hasn't ended: interrupt or terminate it first")
            under_way = self._store.resend_window
            ended = execution.completed_at or execution.updated_at
            is_over = ended + under_way + self._settings.skew
            if under_way and self._clock.now() < is_over:
                raise NotEnded(
                    f"execution {execution_id} ended at {isoformat(ended)}: a request to it may be under way once "
                    "more, and would start it again, or reach the run that follows. Purge it after "
                    f"{isoformat(is_over)}"
                )
            with contextlib.suppress(Conflict, Missing):
                return await self._store.purge(execution)

    async def resume(self, execution_id: str) -> Status:
        """Free a suspended execution to run again, also a quarantined one. Raises UnknownExecution,
        AlreadyCompleted."""
        while True:
            execution = await self._read(execution_id)
            if execution.is_complete:
                raise AlreadyCompleted(f"execution {execution_id} has ended: {execution.outcome}")
            if not execution.suspended:
                return await self._status(execution)
            with contextlib.suppress(Conflict, Missing):
                return await self._status(await self._store.replace(execution.resumed(self._clock.now())))

    async def list(self, filter: Filter, limit: int = 100, continuation: str | None = None) -> Page:
        """Executions, the newest first."""
        return await self._store.list(filter, limit, continuation)

    async def health(self) -> Health:
        """How the app stands. Raises StoreError if the store isn't there."""
        return await look(self._store, self._clock)

    # -- inside --

    async def _start(self, workflow: Workflow[Any, Any], value: Any, text: str, key: str | None) -> Status:
        if key is None:
            key = workflow.key_of(value)
        elif not isinstance(key, str) or not key:
            raise InvalidInput(f"an idempotency key is text and not empty, not {key!r}", [("key", "not a text")])
        id = execution_id(workflow.name, key if key is not None else uuid.uuid4().hex)
        now = self._clock.now()
        large = is_large(text)
        execution = Execution(
            execution_id=id,
            workflow=workflow.name,
            version=workflow.version,
            run_id=new_run_id(),
            payload=None if large else text,
            tags=dict(workflow.options.tags),
            retention_seconds=workflow.options.retention_seconds(self._settings.retention),
            due_at=now + self._settings.sweep_new_after,
            created_at=now,
            updated_at=now,
        ).with_write_id()
        input = Large(id=INPUT, execution_id=id, value=text).with_write_id() if large else None
        while True:
            try:
                return Status(await self._store.create(execution, input))
            except Taken:
                with contextlib.suppress(UnknownExecution):  # purged since: there is room for a fresh one
                    return await self.poll(id)

    async def _send(self, execution_id: str, name: str, text: str, key: str | None) -> Status:
        position = (await self._read(execution_id)).inbox_count
        now = self._clock.now()
        item = InboxItem.of(
            "channel", execution_id, name, now, text, one_of_many=_short(key or uuid.uuid4().hex), position=position
        )
        try:
            execution = await self._store.signal(item, now)
        except Missing:
            raise self._unknown(execution_id) from None
        except Taken:
            return await self.poll(execution_id)
        except Conflict:
            with contextlib.suppress(Missing):
                await self._store.read_inbox(execution_id, item.id)  # it was sent before
                return await self.poll(execution_id)
            raise AlreadyCompleted(f"execution {execution_id} has ended: it takes no more values") from None
        self._tell(execution)
        return await self._status(execution)

    async def _complete(
        self, execution_id: str, name: str, text: str | None, error: ErrorRecord | None = None
    ) -> Status:
        self._check_id(execution_id)
        now = self._clock.now()
        item = InboxItem.of("deferred", execution_id, name, now, value=text, error=error)
        try:
            execution = await self._store.signal(item, now)
        except Missing:
            raise self._unknown(execution_id) from None
        except Taken:
            try:
                return await self._compare(item)
            except Missing:  # purged since
                raise self._unknown(execution_id) from None
        except Conflict:
            with contextlib.suppress(Missing):
                return await self._compare(item)
            raise AlreadyCompleted(f"execution {execution_id} has ended: it takes no more values") from None
        self._tell(execution)
        return await self._status(execution)

    async def _compare(self, item: InboxItem) -> Status:
        first = await self._store.read_inbox(item.execution_id, item.id)
        same_failure = _identity(first.error) == _identity(item.error)
        if not same_failure or plain_json(first.value) != plain_json(item.value):
            shown = first_line(first.value or "") or (first.error.model_dump_json() if first.error else "null")
            raise AlreadyResolved(f"deferred {item.name} was resolved with another value before", shown)
        return await self.poll(item.execution_id)

    async def _status(self, execution: Execution) -> Status:
        result = execution.completed_result
        if execution.outcome == "completed" and result is None:
            output = (await self._store.load(execution.execution_id)).output
            if output is None:
                raise Unavailable(f"the output of execution {execution.execution_id} can't be read yet")
            result = output.value
        return Status(execution, result)

    async def _read(self, execution_id: str) -> Execution:
        self._check_id(execution_id)
        try:
            return await self._store.read(execution_id)
        except Missing:
            raise self._unknown(execution_id) from None

    def _tell(self, execution: Execution) -> None:
        if self._worker is not None:
            self._worker.notify(execution)

    def _find(self, workflow: str | Workflow[Any, Any]) -> Workflow[Any, Any]:
        name = workflow.name if isinstance(workflow, Workflow) else workflow
        found = self._registry.current(name)
        if found is None:
            raise UnknownWorkflow(
                f"no workflow is named {name!r}; there are: {', '.join(self._registry.names()) or 'none'}"
            )
        return found

    def _find_channel(self, channel: str | Channel[Any]) -> Channel[Any]:
        found = Channel.named(channel) if isinstance(channel, str) else channel
        if found is None:
            raise UnknownDeferred(f"no channel is named {channel!r}: {_known(str(channel), Channel.names())}")
        if not isinstance(found, Channel):
            raise TypeError(f"a value is sent to a Channel or its name, not to {found!r}")
        return found

    def _find_deferred(self, deferred: str | Deferred[Any]) -> Deferred[Any]:
        found = Deferred.named(deferred) if isinstance(deferred, str) else deferred
        if found is None:
            raise UnknownDeferred(f"no deferred is named {deferred!r}: {_known(str(deferred), Deferred.names())}")
        if not isinstance(found, Deferred):
            raise TypeError(f"what is resolved is a Deferred or its name, not {found!r}")
        inbox_id("deferred", found.name)
        return found

    def _check_id(self, execution_id: str) -> None:
        if not is_execution_id(execution_id):
            raise InvalidInput(
                f"an execution id is 32 hexadecimal digits, not {execution_id[:80]!r}",
                [("executionId", "malformed")],
            )

    def _unknown(self, execution_id: str) -> UnknownExecution:
        return UnknownExecution(f"there is no execution {execution_id}")


def _identity(error: ErrorRecord | None) -> tuple[str, str | None] | None:
    return (error.type, error.data) if error else None


def _short(key: str) -> str:
    """What stands for a key in a document's id, which has room for so much only."""
    quoted = quote(key, safe="", errors="surrogatepass")
    return key if len(quoted) <= MAX_KEY else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _known(wanted: str, names: Sequence[str]) -> str:
    if close := difflib.get_close_matches(wanted, names):
        return f"did you mean {' or '.join(close)}?"
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"there are {shown}" if names else "none is declared"


def _setter(event: asyncio.Event) -> Callable[[object], None]:
    return lambda _: event.set()
