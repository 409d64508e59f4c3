"""Calls one function of the app, as the platform's worker calls it.

An async function runs on the host's loop. A sync function runs in a pool of threads. Each call is a task of its own. So
a function that cancels its task doesn't cancel its trigger.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import json
import logging
import threading
import traceback
import uuid
from dataclasses import dataclass, field
from typing import Any, TypeVar

import azure.functions as func
from azure.functions.meta import Datum

from devhost.clock import Clock
from devhost.functions import Function
from devhost.queues import Queues
from devhost.retry import Attempt

T = TypeVar("T")

_log = logging.getLogger("devhost")


class InvocationError(Exception):
    """A function failed without an exception of its own. For example, it took longer than the timeout."""


class Invoker:
    """Calls functions.

    `timeout_seconds` is host.json's functionTimeout; None means no limit. `threads` limits how many sync functions run
    at once; None means Python's default. `queues` takes the messages that functions set in output parameters.
    """

    def __init__(
        self,
        clock: Clock,
        timeout_seconds: float | None,
        threads: int | None = None,
        queues: Queues | None = None,
    ) -> None:
        self._clock = clock
        self._queues = queues or Queues(None)
        self._timeout = timeout_seconds
        self._threads = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="function")
        self._local = threading.local()

    async def call(self, function: Function, value: object, attempt: Attempt | None = None) -> Any:
        """Calls `function` with `value` for its trigger, and returns its result.

        Raises the function's own exception. Raises InvocationError if the function exits, cancels itself, takes longer
        than the timeout, or returns a value without a $return binding. Sends the function's messages when the function
        has succeeded, and raises the queue's error if they can't be sent. The timeout, or a cancellation of this call,
        cancels an async function. A sync function can't be stopped: it runs on, and its result is dropped.
        """
        arguments: dict[str, object] = {function.parameter: value}
        outputs = {output: _Out[object]() for output in function.outputs}
        arguments |= {output.parameter: out for output, out in outputs.items()}
        if function.wants_context:
            arguments["context"] = _Context(function.name, self._local, attempt or Attempt())
        task = asyncio.get_running_loop().create_task(self._run(function, arguments), name=function.name)
        finished = asyncio.Event()
        task.add_done_callback(lambda task: finished.set())
        # This task may outlive the call. Reading its exception keeps asyncio from logging it as never retrieved.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            in_time = await self._clock.wait(finished, self._timeout)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not in_time:
            task.cancel()
            raise InvocationError(f"{function.name} took longer than functionTimeout, {self._timeout:g} s")
        if task.cancelled():
            raise InvocationError(f"{function.name} cancelled itself")
        result = task.result()
        if result is not None and not function.has_return:
            raise InvocationError(f"{function.name} has no $return binding, but returned {type(result).__name__}")
        for output, out in outputs.items():
            await self._queues.send(output.queue, _bodies(out.get()), self._clock.time())
        return result

    def close(self) -> None:
        """Ends idle threads. Sync functions that still run go on."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, function: Function, arguments: dict[str, object]) -> object:
        try:
            if function.is_async:
                return await function.call(**arguments)
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, context.run, _call_sync, function, arguments)
        except (SystemExit, KeyboardInterrupt) as error:
            # On the platform this ends the worker, which the host replaces. Here it must not end the host.
            raise InvocationError(f"{function.name} raised {error!r}") from error


def _call_sync(function: Function, arguments: dict[str, object]) -> object:
    try:
        return function.call(**arguments)
    except StopIteration as error:
        # A future can't hold a StopIteration: its caller would wait for ever.
        raise InvocationError(f"{function.name} raised {error!r}") from error


def decode(function: Function, data: object) -> object:
    """The trigger's JSON `data` as the type that the function takes, converted as on the platform."""
    text = json.dumps(data)
    if function.as_text:
        return text
    converter: Any = func.get_binding_registry().get(function.binding)  # type: ignore[no-untyped-call]
    value: object = converter.decode(Datum(text, "json"), trigger_metadata={})
    return value


class _Out(func.Out[T]):
    """The value of an output parameter."""

    def __init__(self) -> None:
        self._value: Any = None

    def set(self, val: T) -> None:
        self._value = val

    def get(self) -> Any:
        return self._value


def _bodies(value: object) -> list[bytes]:
    """The messages in the value of an output parameter, converted as on the platform."""
    if value is None:
        return []
    converter: Any = func.get_binding_registry().get("queue")  # type: ignore[no-untyped-call]
    datum = converter.encode(value, expected_type=None)
    if datum.type != "json":
        return [datum.value.encode() if isinstance(datum.value, str) else bytes(datum.value)]
    content = json.loads(datum.value)
    messages = content if isinstance(content, list) else [content]
    return [(message if isinstance(message, str) else str(message["body"])).encode() for message in messages]


@dataclass
class _Failure:
    """The failure of the previous attempt, in the form of a retry context."""

    message: str
    source: str
    stack_trace: str


@dataclass
class _Retries:
    """The number of this attempt, and the failure before it."""

    retry_count: int
    max_retry_count: int
    exception: _Failure | None


@dataclass
class _Trace:
    """An empty trace context: this host does no tracing."""

    trace_parent: str = ""
    trace_state: str = ""
    attributes: dict[str, str] = field(default_factory=dict)


class _Context(func.Context):
    """The value of a function's `context` parameter."""

    function_name = ""
    function_directory = ""
    invocation_id = ""
    thread_local_storage: Any = None
    trace_context: Any = None
    retry_context: Any = None

    def __init__(self, name: str, local: threading.local, attempt: Attempt) -> None:
        error = attempt.failure
        failure = error and _Failure(str(error), type(error).__name__, "".join(traceback.format_exception(error)))
        self.function_name = self.function_directory = name
        self.invocation_id = str(uuid.uuid4())
        self.thread_local_storage = local
        self.trace_context = _Trace()
        self.retry_context = _Retries(attempt.retries, attempt.max_retries, failure or None)
