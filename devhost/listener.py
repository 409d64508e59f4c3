"""The queue trigger: takes messages from a queue, and hands each one to the app's function.

1. A message is deleted when its function has returned. If the function fails, the message comes again after
   `retry_seconds`. After `max_dequeues` failures, the message moves to the queue `<name>-poison`.
2. While a function runs, its message stays invisible. If this host dies, the message becomes visible within
   INVISIBLE_SECONDS.
3. While a queue is empty, the listener reads it less and less often. The longest pause is `poll_seconds`.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import azure.functions as func
from azure.functions.meta import Datum

from devhost.clock import Clock, backoff
from devhost.functions import Function, QueueTrigger
from devhost.invoke import Invoker
from devhost.queues import Message, Queues
from devhost.settings import QueueSettings

INVISIBLE_SECONDS = 30.0
"""How long a message stays invisible after its host died. The host renews this time after each third of it."""
FIRST_PAUSE_SECONDS = 0.1
"""The pause after the first read of an empty queue. Each further pause is twice as long."""

_log = logging.getLogger("devhost")


class QueueListener:
    """Serves one function with a queue trigger."""

    def __init__(
        self, queues: Queues, function: Function, settings: QueueSettings, invoker: Invoker, clock: Clock
    ) -> None:
        assert isinstance(function.trigger, QueueTrigger)
        self._queue = function.trigger.queue
        self._queues, self._function, self._settings = queues, function, settings
        self._invoker, self._clock = invoker, clock
        self._ended = asyncio.Event()
        self._room = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Takes no further message."""
        self._ended.set()
        self._room.set()

    async def run(self) -> None:
        """Serves until `stop`. Returns when the running functions have ended."""
        try:
            await self._serve()
            while self._tasks:
                await asyncio.wait(self._tasks)
        except asyncio.CancelledError:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            raise

    async def _serve(self) -> None:
        empty = 0
        while not self._ended.is_set():
            if len(self._tasks) > self._settings.new_batch_threshold:
                self._room.clear()
                await self._clock.wait(self._room, None)
                continue
            messages = await self._receive()
            for message in messages:
                task = asyncio.create_task(self._process(message), name=f"message {message.id}")
                self._tasks.add(task)
                task.add_done_callback(self._forget)
            empty = 0 if messages else empty + 1
            if not messages:
                pause = backoff(empty, FIRST_PAUSE_SECONDS, self._settings.poll_seconds)
                await self._clock.wait(self._ended, pause)

    async def _receive(self) -> list[Message]:
        try:
            return await self._queues.receive(
                self._queue, self._settings.batch_size, self._clock.time(), INVISIBLE_SECONDS
            )
        except Exception as error:  # noqa: BLE001 - a queue fails in many ways; the next turn tries again
            _log.warning("queue %s can't be read: %r", self._queue, error)
            return []

    async def _process(self, message: Message) -> None:
        ended = asyncio.Event()
        renewal = asyncio.create_task(self._keep_hidden(message, ended))
        try:
            succeeded = await self._call(message)
        finally:
            ended.set()
            await renewal
        try:
            if succeeded:
                await self._queues.delete(message)
            elif message.dequeue_count >= self._settings.max_dequeues:
                _log.error(
                    "a message of queue %s failed %d times, and moves to %s-poison",
                    self._queue,
                    message.dequeue_count,
                    self._queue,
                )
                await self._queues.delete(message, moved_to=f"{self._queue}-poison")
            else:
                await self._queues.hide(message, self._clock.time() + self._settings.retry_seconds)
        except Exception as error:  # noqa: BLE001 - a queue fails in many ways; the message then comes again
            _log.warning("a message of queue %s was processed, but can't be deleted or moved: %r", self._queue, error)

    async def _call(self, message: Message) -> bool:
        try:
            await self._invoker.call(self._function, self._decode(message))
        except Exception as error:  # noqa: BLE001 - the message comes again, no matter what the function raises
            _log.error("queue function %s failed", self._function.name, exc_info=error)
            return False
        return True

    async def _keep_hidden(self, message: Message, ended: asyncio.Event) -> None:
        while not await self._clock.wait(ended, INVISIBLE_SECONDS / 3):
            try:
                await self._queues.hide(message, self._clock.time() + INVISIBLE_SECONDS)
            except Exception as error:  # noqa: BLE001 - a queue fails in many ways; the next third tries again
                _log.warning("a message of queue %s can't be kept invisible: %r", self._queue, error)

    def _decode(self, message: Message) -> object:
        """The message as the type that the function takes, converted as on the platform."""
        if self._function.as_text:
            return message.body.decode()
        metadata = {
            "Id": Datum(message.id, "string"),
            "DequeueCount": Datum(str(message.dequeue_count), "json"),
            "PopReceipt": Datum(message.receipt, "string"),
            "InsertionTime": _time(message.inserted_at),
            "ExpirationTime": _time(message.expires_at),
            "NextVisibleTime": _time(message.visible_at),
        }
        converter: Any = func.get_binding_registry().get(self._function.binding)  # type: ignore[no-untyped-call]
        value: object = converter.decode(Datum(message.body, "bytes"), trigger_metadata=metadata)
        return value

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.set()


def _time(seconds: float) -> Datum:
    return Datum(f'"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S+00:00}"', "json")
