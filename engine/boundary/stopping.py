"""The end of a worker process: the platform sends SIGTERM, and tells its functions nothing.

1. On the first SIGTERM nothing more is claimed. What is between two steps is let go. Running activities get their
   grace. Then leases are released, the store is closed, and the process ends as it would have ended without this.
2. A second SIGTERM ends the process at once.
3. A host that handles the signal itself is left alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from typing import Protocol

_log = logging.getLogger("engine")


class Stoppable(Protocol):
    """What is stopped: the runtime."""

    def drain(self) -> None:
        """Claim no more."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


def stop_on_sigterm(runtime: Stoppable, loop: asyncio.AbstractEventLoop) -> None:
    """Have SIGTERM stop the runtime on its loop, unless the process has a handler for it, or this is no main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    stopping: list[asyncio.Task[None]] = []

    def begin() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        _log.info("SIGTERM: nothing more is claimed; activities that run get their grace")
        runtime.drain()
        stopping.append(loop.create_task(_stop(runtime)))

    loop.add_signal_handler(signal.SIGTERM, begin)


async def _stop(runtime: Stoppable) -> None:
    try:
        await runtime.close()
    except Exception:  # noqa: BLE001 - the process ends all the same, and leases expire by themselves
        _log.exception("the engine didn't close")
    os.kill(os.getpid(), signal.SIGTERM)
