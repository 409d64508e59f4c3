"""Runs the workflow's loop outside of the driver's task. Later versions of CPython can't step a task inside another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")


async def outside_task(function: Callable[[], T]) -> T:
    """Run `function` from a plain callback. Returns its result, or raises its error."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def call() -> None:
        if future.done():  # the drive was cancelled: nobody awaits the future
            return
        result = error = None
        try:
            result = function()
        except BaseException as raised:  # noqa: BLE001 - it is raised where the future is awaited
            error = raised
        if future.done():  # the drive was cancelled while `function` ran
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast(T, result))

    loop.call_soon(call)
    return await future
