"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from engine.ground.clock import instant


class ManualClock:
    """Time moves only by `advance` and `jump`, which wake the waiters whose time has come."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = instant(start)
        self._waiting: list[tuple[datetime, asyncio.Event]] = []

    def now(self) -> datetime:
        """The present instant."""
        return self._now

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until `event` is set, or until the clock has moved on by `seconds`."""
        woken = asyncio.Event()
        entry = (self._now + timedelta(seconds=min(seconds, 1e10)), woken)
        self._waiting.append(entry)
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(woken.wait())]
        self._wake()
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting.remove(entry)
            for wait in waits:
                wait.cancel()

    def advance(self, by: timedelta) -> None:
        """Move the clock forward."""
        self.jump(self._now + by)

    def jump(self, to: datetime) -> None:
        """Move the clock to an instant. The clock never moves back."""
        self._now = max(self._now, instant(to))
        self._wake()

    def _wake(self) -> None:
        for moment, woken in self._waiting:
            if moment <= self._now:
                woken.set()
