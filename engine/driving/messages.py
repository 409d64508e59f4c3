"""Messages to an execution: values for its channels and deferreds, and interrupts. Clients send them from outside.
Workflows send them in steps.

Rules:
1. A message may be sent again. The second attempt finds the effect of the first one, and changes nothing.
2. This module turns the store's errors into errors for people. Only the StoreError for a store that can't be reached
   passes through.
3. A value that a step sends has a key of that step's own. So a channel gets the value once, however often the step is
   attempted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import Iterator
from typing import Any

from engine.core.activity_info import ActivityInfo
from engine.core.declarations import Channel, Deferred
from engine.core.messages import Message
from engine.core.steps import ActivityStep
from engine.driving.attempt import AttemptResult
from engine.driving.resources import Resources
from engine.ground.clock import Clock
from engine.ground.errors import (
    AlreadyEnded,
    AlreadyResolved,
    AlreadySent,
    Conflict,
    DecodingError,
    Missing,
    Taken,
    UnknownExecution,
    Unreadable,
    UnreadableExecution,
)
from engine.ground.names import short_key
from engine.store.base import Store
from engine.store.documents import Execution, InboxItem
from engine.values.error_records import ErrorRecord
from engine.values.repeats import changes


async def deliver(resources: Resources, step: ActivityStep, info: ActivityInfo) -> AttemptResult:
    """Attempt once to deliver a message of a workflow's code."""
    store, clock, message = resources.store, resources.clock, step.activity
    assert isinstance(message, Message)
    execution_id, value = json.loads(step.arguments["execution"]), step.arguments["value"]
    try:
        match message.target:
            case Channel() as channel:
                await send(store, clock, execution_id, channel, value, info.idempotency_key)
            case Deferred() as deferred:
                await resolve(store, clock, execution_id, deferred, value)
            case None:
                by = f"execution {info.execution_id} of workflow {info.workflow}"
                await interrupt(store, clock, execution_id, json.loads(value), by)
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - the workflow gets the error, or the next attempt tries again
        return AttemptResult(error=error)
    return AttemptResult(value="null")


async def read(store: Store, execution_id: str) -> Execution:
    """The stored execution. Raises UnknownExecution, UnreadableExecution."""
    with known(execution_id):
        return await store.read(execution_id)


async def send(
    store: Store, clock: Clock, execution_id: str, channel: Channel[Any], text: str, key: str | None
) -> Execution:
    """Add a value to the inbox of a channel, once for each key. Raises UnknownExecution and AlreadyEnded. Raises
    AlreadySent if the key was used for another value."""
    position = (await read(store, execution_id)).inbox_count
    now, one = clock.now(), short_key(key or uuid.uuid4().hex)
    item = InboxItem.of("channel", execution_id, channel.name, now, text, one_of_many=one, position=position)
    try:
        with known(execution_id):
            return await store.signal(item, now)
    except Taken:
        with contextlib.suppress(Missing):  # the workflow has received the value since, and a restart has deleted it
            await _compare_sent(store, channel, item)
    except Conflict:
        try:
            await _compare_sent(store, channel, item)
        except Missing:
            raise _ended(execution_id) from None
    return await read(store, execution_id)


async def resolve(
    store: Store,
    clock: Clock,
    execution_id: str,
    deferred: Deferred[Any],
    text: str | None,
    error: ErrorRecord | None = None,
) -> Execution:
    """Resolve a deferred with a value or an error. The first one wins. Raises UnknownExecution, AlreadyEnded,
    AlreadyResolved."""
    now = clock.now()
    item = InboxItem.of("deferred", execution_id, deferred.name, now, value=text, error=error)
    try:
        with known(execution_id):
            return await store.signal(item, now)
    except Taken:
        with known(execution_id):  # the execution may have been purged since
            await _compare_resolved(store, deferred, item)
    except Conflict:
        try:
            await _compare_resolved(store, deferred, item)
        except Missing:
            raise _ended(execution_id) from None
    return await read(store, execution_id)


async def interrupt(
    store: Store, clock: Clock, execution_id: str, reason: str | None, by: str | None = None
) -> Execution:
    """Ask an execution to stop and clean up. If several interrupts give a reason, the first reason stays. Raises
    UnknownExecution."""
    with known(execution_id):
        return await store.interrupt(execution_id, clock.now(), reason, by)


@contextlib.contextmanager
def known(execution_id: str) -> Iterator[None]:
    """Turn the store's errors about an execution into the errors that callers get: UnknownExecution and
    UnreadableExecution."""
    try:
        yield
    except Missing:
        raise UnknownExecution(f"there is no execution {execution_id}") from None
    except (Unreadable, DecodingError) as error:
        raise UnreadableExecution(str(error)) from None


async def _compare_sent(store: Store, channel: Channel[Any], item: InboxItem) -> None:
    first = await store.read_inbox(item.execution_id, item.id)
    found = changes(channel.codec, first.value or "null", item.value or "null", "value")
    if found:
        raise AlreadySent(
            f"channel {channel.name} already has another value under that key: {'; '.join(found.differences)}. Nothing "
            "was changed. Send a new value under a key of its own",
            found.differences,
            found.outer,
        )


async def _compare_resolved(store: Store, deferred: Deferred[Any], item: InboxItem) -> None:
    first = await store.read_inbox(item.execution_id, item.id)
    same_failure = _identity(first.error) == _identity(item.error)
    if not same_failure or changes(deferred.codec, first.value or "null", item.value or "null", "value"):
        shown = first.error.model_dump_json() if first.error else _json(deferred.codec.shown(first.value or "null"))
        raise AlreadyResolved(f"deferred {item.name} was already resolved with another value", shown)


def _ended(execution_id: str) -> AlreadyEnded:
    return AlreadyEnded(f"execution {execution_id} has ended and takes no more values")


def _identity(error: ErrorRecord | None) -> tuple[str, str | None] | None:
    return (error.type, error.data) if error else None


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
