"""One attempt of one activity, on the host's loop or in a thread.

Rules:
1. Whatever the activity does, raises or returns becomes an Attempt: nothing of it reaches the driver as an exception.
2. An attempt that is cancelled from outside (the lease is lost, the host stops) leaves no trace: it isn't a failure.
3. An attempt that outlasts its timeout is cancelled, counts as failed, and isn't waited for.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
from dataclasses import dataclass
from typing import Any

from engine.clock import Clock
from engine.steps import ActivityStep


@dataclass(frozen=True)
class ActivityInfo:
    """What an activity may know of its call. `attempt` counts from 1."""

    execution_id: str
    workflow: str
    step: str
    attempt: int

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step and for no other: hand it to systems that drop repeats."""
        return f"{self.execution_id}-{self.step}"


@dataclass(frozen=True)
class Attempt:
    """How an attempt ended: `value` is the result's JSON text."""

    value: str | None = None
    error: BaseException | None = None


_info: contextvars.ContextVar[ActivityInfo] = contextvars.ContextVar("activity_info")


def current_info() -> ActivityInfo:
    """Of the activity that is running here. Raises RuntimeError outside of one."""
    try:
        return _info.get()
    except LookupError:
        raise RuntimeError("activity.info() is for the code of an activity that a workflow called") from None


async def attempt(
    step: ActivityStep, info: ActivityInfo, clock: Clock, threads: concurrent.futures.Executor
) -> Attempt:
    """Run the activity once. Raises CancelledError only if this task itself is cancelled."""
    timeout = step.activity.timeout
    begun, done = asyncio.Event(), asyncio.Event()
    if timeout is None:
        return await _run(step, info, threads, begun)
    task = asyncio.ensure_future(_run(step, info, threads, begun))
    task.add_done_callback(lambda _: begun.set())
    task.add_done_callback(lambda _: done.set())
    try:
        await begun.wait()  # the time that a sync activity waits for a thread isn't its own
        await clock.wait(done, timeout.total_seconds())
    finally:
        if not task.done():
            task.cancel()
    if not task.done():
        return Attempt(error=TimeoutError(f"the attempt took longer than {timeout.total_seconds():g} s"))
    return task.result()


async def _run(
    step: ActivityStep, info: ActivityInfo, threads: concurrent.futures.Executor, begun: asyncio.Event
) -> Attempt:
    activity, loop = step.activity, asyncio.get_running_loop()
    _info.set(info)
    try:
        args, kwargs = activity.signature.decode(step.arguments)
        if activity.is_async:
            begun.set()
            result = await activity.function(*args, **kwargs)
        else:
            context, function = contextvars.copy_context(), activity.function

            def call() -> Any:
                loop.call_soon_threadsafe(begun.set)
                try:
                    return context.run(function, *args, **kwargs)
                except StopIteration as error:  # a future can't carry it: the attempt would never end
                    raise RuntimeError("the activity raised StopIteration") from error

            result = await loop.run_in_executor(threads, call)
        value, _ = activity.signature.result.round_trip(result)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return Attempt(error=error)
    except BaseException as error:  # noqa: BLE001 - an activity's sys.exit() must not end the host
        return Attempt(error=error)
    return Attempt(value=value)
