"""The host's one source of time. Each part gets the clock as an argument, so tests can move the clock."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time, and waits."""

    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        """Waits until `event` is set, at most that many seconds (None: no limit). Returns whether it is set."""
        ...


class SystemClock:
    """The machine's clock."""

    def time(self) -> float:
        return time.time()

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
        return event.is_set()


def backoff(failures: int, first: float = 0.5, most: float = 30.0) -> float:
    """Seconds to wait after that many failures in a row: doubled each time, up to `most`."""
    # The exponent is capped, because a float overflows after a thousand failures.
    return min(most, first * 2.0 ** min(failures - 1, 60))
