"""What an app opens once for each process, and its activities share: HTTP clients, connection pools.

Rules:
1. It is opened before the first activity of the process runs, and closed after the last one, when the worker closes.
2. One task opens and closes it, so that it may hold task groups and cancel scopes.
3. If opening fails, the attempt that needed it fails with that error. The next attempt opens it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

Opens = Callable[[], AbstractAsyncContextManager[object]]
"""Makes the context manager of an app, as a function under `contextlib.asynccontextmanager` does."""

CLOSES_WITHIN = timedelta(seconds=5)
"""How long closing may take. Then it is cancelled."""

_log = logging.getLogger("engine")


class Lifespan:
    """What one worker has opened. `opens` None: the app declares nothing."""

    def __init__(self, opens: Opens | None) -> None:
        self._opens = opens
        self._closing = asyncio.Event()
        self._value: asyncio.Future[object] | None = None
        self._task: asyncio.Task[None] | None = None

    async def value(self) -> object:
        """What the context manager gives. Opens it, unless it is open. Raises what its opening raises."""
        if self._opens is None:
            return None
        if self._task is None or self._task.done():
            self._value = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._hold(self._opens, self._value), name="lifespan")
        assert self._value is not None
        return await asyncio.shield(self._value)

    async def close(self) -> None:
        """Close it, if it is open, in CLOSES_WITHIN at most. An error in this is logged."""
        self._closing.set()
        if self._task is None or self._value is None:
            return
        if self._value.done():
            await asyncio.wait([self._task], timeout=CLOSES_WITHIN.total_seconds())
        self._task.cancel()
        await asyncio.wait([self._task], timeout=CLOSES_WITHIN.total_seconds())

    async def _hold(self, opens: Opens, value: asyncio.Future[object]) -> None:
        try:
            async with opens() as opened:
                value.set_result(opened)
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001 - the code of the app may raise anything
            if value.done():
                _log.exception("the lifespan of the app ended with an error")
            else:
                value.set_exception(error)
                value.exception()  # whoever needed it may have been cancelled: asyncio would log the error
        finally:
            value.cancel()  # nothing, if it is set; else a cancel scope of the app cancelled its own opening
