"""The operations that a workflow's loop refuses. The loop recognises them by the asyncio frames that call it, or by the
awaited object.

Each message says what a replay can't repeat, and what to use instead.
"""

from __future__ import annotations

import asyncio
from typing import Any

from engine.ground.errors import NotDurable

CURES = {
    "run_in_executor": "asyncio.to_thread or run_in_executor: call a sync activity, which runs in a thread",
    "create_connection": "opening a connection: do it in an activity",
    "create_server": "opening a server: a workflow can't listen; wait for a Deferred instead",
    "getaddrinfo": "a look-up of a host name: do it in an activity",
    "subprocess_exec": "starting a process: do it in an activity",
    "subprocess_shell": "starting a process: do it in an activity",
    "call_soon_threadsafe": "a call from another thread: let the thread belong to an activity",
    "run_until_complete": "running the loop from inside: await the coroutine",
}


def foreign(awaited: Any) -> NotDurable:
    """The fault of awaiting an object that doesn't belong to the loop."""
    return NotDurable(
        f"the workflow awaited {_describe(awaited)}, which a replay can't repeat; do it in an activity, or wait for "
        "the outside with a Deferred"
    )


def _describe(awaited: Any) -> str:
    if isinstance(awaited, asyncio.Task):
        return f"the task {awaited.get_name()!r} of another event loop"
    if isinstance(awaited, asyncio.Future):
        return "a future of another event loop"
    return f"a foreign awaitable that yields {type(awaited).__name__}"


def explain_duration(error: BaseException) -> None:
    """Reword asyncio's TypeError about a timedelta, so that it says what to write instead."""
    if not isinstance(error, TypeError) or "timedelta" not in str(error):
        return
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    code = frame.tb_frame if frame is not None else None
    if code is not None and str(code.f_globals.get("__name__")).startswith("asyncio."):
        error.args = (
            f"asyncio.{code.f_code.co_name} takes seconds, and was given a timedelta: write "
            f"duration.total_seconds() ({error})",
        )


def is_of_anyio(callback: object) -> bool:
    """Whether the callback belongs to anyio."""
    return str(getattr(callback, "__module__", "")).startswith("anyio.")


def walks_a_set_of_coroutines(frame: Any) -> bool:
    """Whether this frame belongs to `asyncio.as_completed`, which makes tasks by walking a set of bare coroutines."""
    # as_completed -> (set comprehension, or __init__ of its iterator) -> ensure_future -> create_task
    for _ in range(4):
        if frame is None or frame.f_globals.get("__name__") != "asyncio.tasks":
            return False
        code = frame.f_code
        if code.co_name == "as_completed" or "_AsCompletedIterator" in getattr(code, "co_qualname", ""):
            return True
        frame = frame.f_back
    return False


def is_asked_by_all_tasks(frame: Any) -> bool:
    """Whether asyncio.all_tasks asks a task for its loop."""
    # all_tasks -> (set comprehension) -> futures._get_loop -> get_loop
    if frame.f_code.co_name != "_get_loop":
        return False
    callers = (frame.f_back, frame.f_back and frame.f_back.f_back)
    return any(one is not None and one.f_code.co_name == "all_tasks" for one in callers)


def waits_on_strangers(frame: Any, loop: asyncio.AbstractEventLoop, ordered: tuple[type, ...]) -> NotDurable | None:
    """The fault of asyncio.wait over futures that aren't `ordered`, if `frame` is in it."""
    # wait -> _wait, which asks for a future before anything else
    if frame.f_code.co_name != "_wait" or frame.f_globals.get("__name__") != "asyncio.tasks":
        return None
    waited: set[asyncio.Future[Any]] = frame.f_locals["fs"]
    for future in waited:
        if future.get_loop() is not loop:
            return foreign(future)
    if len(waited) > 1 and not all(isinstance(future, ordered) for future in waited):
        return NotDurable(
            "asyncio.wait over a gather() or a bare Future gives them back in the order of their memory addresses; "
            "wait for a task of each, made of a coroutine that awaits it"
        )
    return None


def all_tasks() -> NotDurable:
    """The fault of asking for all tasks."""
    return NotDurable(
        "asyncio.all_tasks() gives tasks in an order that a replay can't repeat, and the engine's own among them; keep "
        "the tasks that you start in a list, or start them in an asyncio.TaskGroup"
    )
