"""The one connection between this host and the app's engine: the object `runtime` in the app's module.

runtime.change_feed()   async. Returns a ChangeFeed of the app's store. Required if the app has a Cosmos DB trigger.
runtime.drain()         optional. The host calls it first when it stops. Running work should come to an end.
runtime.close()         async, optional. The host calls it last, when no function runs any more.
"""

from __future__ import annotations

import inspect
from types import ModuleType

from devhost.settings import LoadError
from engine.store.feed import ChangeFeed


def check_runtime(module: ModuleType) -> None:
    """Raises LoadError if the module has no change feed."""
    if not callable(getattr(getattr(module, "runtime", None), "change_feed", None)):
        raise LoadError(
            f"{module.__name__} has a Cosmos DB trigger, but no `runtime.change_feed()`. This host reads the change "
            "feed through it: assign the engine's Runtime to the name `runtime`"
        )


async def open_change_feed(module: ModuleType) -> ChangeFeed:
    """The change feed of the app's store. Raises the store's own errors."""
    feed: ChangeFeed = await module.runtime.change_feed()
    return feed


def drain_runtime(module: ModuleType) -> None:
    """Calls the engine's `drain`, if the app has one: the host is about to stop."""
    drain = getattr(getattr(module, "runtime", None), "drain", None)
    if callable(drain):
        drain()


async def close_runtime(module: ModuleType) -> None:
    """Calls the engine's `close`, if the app has one."""
    close = getattr(getattr(module, "runtime", None), "close", None)
    if callable(close):
        closing = close()
        if inspect.isawaitable(closing):
            await closing
