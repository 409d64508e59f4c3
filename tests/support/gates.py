"""The gate that forces an order of events, without a sleep."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from engine.testing import Call

HANGS = 30
"""Seconds after which a thread gives up waiting at a gate. Nothing else depends on it."""


class Gate:
    """What comes to it waits there until the test opens it.

    A hook of a store stops one call, the first for which `stops` holds: `store.before = gate = Gate(nth("commit"))`.
    With `and_all_after`, it stops every later call too, as when the whole process stands still. An activity waits with
    `await gate.passed()`, and one in a thread with `gate.passed_in_thread()`. A test awaits `reached`, does what should
    happen meanwhile, and calls `open()`. A gate of a module is closed at the beginning of a test: `close()`. Opened and
    closed at once, it lets what waits pass, and stops the next.
    """

    def __init__(self, stops: Callable[[Any], bool] = lambda _: True, and_all_after: bool = False) -> None:
        self._stops, self._and_all_after = stops, and_all_after
        self.close()

    def close(self) -> None:
        """Begin again: nothing has come yet."""
        self.reached = asyncio.Event()
        """Set as soon as something waits."""
        self._opened, self._opened_for_threads = asyncio.Event(), threading.Event()
        self._loop = asyncio._get_running_loop()

    def open(self) -> None:
        """Let all pass that wait, and all that come from now on."""
        self._opened.set()
        self._opened_for_threads.set()

    async def reached_by(self, driving: asyncio.Task[None]) -> bool:
        """Wait until that drive has come to the gate, or has ended. Says whether it came."""
        coming = asyncio.ensure_future(self.reached.wait())
        await asyncio.wait([coming, driving], return_when=asyncio.FIRST_COMPLETED)
        coming.cancel()
        return self.reached.is_set()

    async def passed(self) -> None:
        """Wait here until it is open."""
        self.reached.set()
        await self._opened.wait()

    def passed_in_thread(self) -> None:
        """Wait here, in a thread, until it is open. The test has to close it first: that says which loop is told."""
        assert self._loop is not None, "close the gate at the beginning of the test"
        self._loop.call_soon_threadsafe(self.reached.set)
        self._opened_for_threads.wait(HANGS)

    async def __call__(self, call: object) -> None:
        if self.reached.is_set() and self._and_all_after:
            await self._opened.wait()
        elif not self.reached.is_set() and self._stops(call):
            await self.passed()


def nth(method: str, number: int = 0) -> Callable[[Call], bool]:
    """The call of that method before which there were `number` of it."""
    return lambda call: call.method == method and call.of_method == number
