"""The machine's clock, as far as it can be tested without waiting."""

from __future__ import annotations

import asyncio
import time

from devhost.clock import SystemClock


async def test_an_event_ends_the_wait() -> None:
    event = asyncio.Event()
    waiting = asyncio.ensure_future(SystemClock().wait(event, None))
    await asyncio.sleep(0)
    assert not waiting.done()
    event.set()
    assert await waiting is True
    assert await SystemClock().wait(event, 0) is True


async def test_time_ends_the_wait() -> None:
    assert await SystemClock().wait(asyncio.Event(), 0) is False
    assert await SystemClock().wait(asyncio.Event(), -1) is False


def test_time_is_in_seconds_since_the_epoch() -> None:
    before = time.time()
    assert before <= SystemClock().time() <= time.time()
