"""Places: how many executions one process may hold, and how many of them may compute at a time.

1. Each held execution counts until its drive lets go. This limits memory.
2. A drive has a place while it computes or talks to the store. It gives the place up while it only waits for an
   activity, a timer or news. This limits the work at a time.
"""

from __future__ import annotations

import asyncio

from engine.ground.clock import Clock


class Places:
    """The places of one process: `held` executions, of which `computing` compute at a time."""

    def __init__(self, held: int, computing: int) -> None:
        self._held = asyncio.Semaphore(held)
        self._computing = asyncio.Semaphore(computing)
        self._free = computing

    @property
    def free(self) -> int:
        """How many more executions this process could drive now."""
        return 0 if self._held.locked() else self._free

    @property
    def are_taken(self) -> bool:
        """Whether a drive that wants to compute has to wait."""
        return self._computing.locked()

    async def enter(self) -> Place:
        """Wait until the process may hold one more execution, and until that execution may compute."""
        await self._held.acquire()
        place = Place(self)
        try:
            await place.take()
        except BaseException:
            self._held.release()
            raise
        return place

    async def enter_now(self) -> Place | None:
        """As `enter`, if that needs no waiting. Otherwise None."""
        return None if self._held.locked() or self._computing.locked() else await self.enter()

    async def _take(self) -> None:
        await self._computing.acquire()
        self._free -= 1

    def _give_up(self) -> None:
        self._free += 1
        self._computing.release()


class Place:
    """One drive's share of the process."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._is_taken = False

    async def take(self) -> None:
        """Wait until this drive may compute."""
        if not self._is_taken:
            await self._places._take()
            self._is_taken = True

    async def take_within(self, clock: Clock, seconds: float) -> bool:
        """As `take`, for `seconds` at most. Returns whether this drive may compute."""
        if not self._places.are_taken:
            await self.take()
            return True
        taken = asyncio.Event()
        taking = asyncio.ensure_future(self.take())
        taking.add_done_callback(lambda _: taken.set())
        try:
            await clock.wait(taken, seconds)
        finally:
            taking.cancel()  # from here on it takes nothing, and passes on what it was about to get
        return self._is_taken

    def give_up(self) -> None:
        """Let other drives compute while this drive only waits."""
        if self._is_taken:
            self._is_taken = False
            self._places._give_up()

    def leave(self) -> None:
        """Give the place up, and let go of the execution as well."""
        self.give_up()
        self._places._held.release()
