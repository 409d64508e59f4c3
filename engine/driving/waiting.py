"""A wait for tasks by the clock of the engine, which tests move by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta

from engine.ground.clock import Clock


async def wait_within(clock: Clock, time: timedelta, tasks: Collection[asyncio.Task[None]]) -> None:
    """Wait until these tasks have ended, for `time` at most."""
    pending = [task for task in tasks if not task.done()]
    if not pending:
        return
    ended = asyncio.Event()
    waiting = asyncio.ensure_future(asyncio.wait(pending))
    waiting.add_done_callback(lambda _: ended.set())
    try:
        await clock.wait(ended, max(0.0, time.total_seconds()))
    finally:
        waiting.cancel()
