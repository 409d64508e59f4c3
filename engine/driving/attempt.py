"""One attempt of one activity, on the host's loop or in a thread.

Rules:
1. Every result and every exception of the activity becomes an AttemptResult.
2. An attempt that is cancelled from outside (the lease is lost, the host stops) leaves no trace, and is no failure.
3. An attempt that outlasts its timeout is cancelled and counts as failed. Nobody waits for its end.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from dataclasses import dataclass
from typing import Any

from engine.core.activity_info import ActivityInfo, current
from engine.core.steps import ActivityStep
from engine.driving.threads import Threads
from engine.ground import telemetry
from engine.ground.clock import Clock


@dataclass(frozen=True)
class AttemptResult:
    """How an attempt ended. `value` is the JSON text of the result."""

    value: str | None = None
    error: BaseException | None = None
    details: str | None = None
    """The details of the step's last heartbeat, as JSON text."""


async def run_attempt(
    step: ActivityStep, info: ActivityInfo, clock: Clock, threads: Threads, begun: asyncio.Event
) -> AttemptResult:
    """Run the activity once. `begun` is set once the activity has a thread, or needs none. Raises CancelledError only
    if this task itself is cancelled."""
    with telemetry.attempt(step.activity.name, info.execution_id, info.step, info.attempt) as marks:
        ended = await _run_in_time(step, info, clock, threads, begun)
        if ended.error is not None:
            marks.failed(type(ended.error).__name__)
        return ended


async def _run_in_time(
    step: ActivityStep, info: ActivityInfo, clock: Clock, threads: Threads, begun: asyncio.Event
) -> AttemptResult:
    timeout = step.activity.timeout
    done = asyncio.Event()
    if timeout is None:
        return await _run(step, info, threads, begun)
    task = asyncio.ensure_future(_run(step, info, threads, begun))
    task.add_done_callback(lambda _: begun.set())
    task.add_done_callback(lambda _: done.set())
    try:
        await begun.wait()  # the wait for a thread doesn't count against the timeout
        await clock.wait(done, timeout.total_seconds())
    finally:
        if not task.done():
            task.cancel()
    if not task.done():
        return AttemptResult(error=TimeoutError(f"the attempt took longer than {timeout.total_seconds():g} s"))
    return task.result()


async def _run(step: ActivityStep, info: ActivityInfo, threads: Threads, begun: asyncio.Event) -> AttemptResult:
    activity, loop = step.activity, asyncio.get_running_loop()
    current.set(info)
    try:
        args, kwargs = activity.signature.decode(step.arguments)
        if activity.is_async:
            begun.set()
            result = await activity.to_run(*args, **kwargs)
        else:
            context, function = contextvars.copy_context(), activity.to_run

            def call() -> Any:
                loop.call_soon_threadsafe(begun.set)
                try:
                    return context.run(function, *args, **kwargs)
                except StopIteration as error:  # a future can't hold it: the attempt would never end
                    raise RuntimeError("the activity raised StopIteration") from error

            result = await threads.run(activity.name, info, call)
            if inspect.isawaitable(result):  # a plain function around an async one
                result = await result
        value, _ = activity.signature.result.round_trip(result)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return AttemptResult(error=error)
    except BaseException as error:  # noqa: BLE001 - an activity's sys.exit() must not end the host
        return AttemptResult(error=error)
    return AttemptResult(value=value)
