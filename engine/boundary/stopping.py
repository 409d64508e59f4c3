"""The end of a worker process. The platform sends SIGTERM to the process, and doesn't notify its functions.

1. After the first SIGTERM, the process claims nothing more. Drives let go between two steps. Running activities get
   their grace time. Then the leases are released and the store is closed, and the process ends as SIGTERM would have
   ended it.
2. A second SIGTERM ends the process at once.
3. If the host handles the signal itself, this module does nothing.
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
    """The part of a runtime that is needed to stop it."""

    def drain(self) -> None:
        """Stop claiming executions."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


def stop_on_sigterm(runtime: Stoppable, loop: asyncio.AbstractEventLoop) -> None:
    """Let SIGTERM stop the runtime on its loop. Does nothing if the process already handles SIGTERM, or outside the
    main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    stopping: list[asyncio.Task[None]] = []

    def begin() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        _log.info("SIGTERM: claiming no more executions; running activities get a grace period")
        runtime.drain()
        stopping.append(loop.create_task(_stop(runtime)))

    loop.add_signal_handler(signal.SIGTERM, begin)


async def _stop(runtime: Stoppable) -> None:
    try:
        await runtime.close()
    except Exception:  # noqa: BLE001 - the process ends anyway, and leases expire by themselves
        _log.exception("the engine didn't close")
    os.kill(os.getpid(), signal.SIGTERM)
