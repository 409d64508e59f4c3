"""Finds the payload with which an execution was started."""

from __future__ import annotations

from engine.ground.clock import Clock
from engine.store.base import MAX_READS, Store, wait_for_replica
from engine.store.documents import INPUT, Execution


async def first_payload(store: Store, clock: Clock, execution: Execution) -> str | None:
    """The payload with which an execution was started, as JSON text. None if it isn't known any more. Raises
    StoreError."""
    if execution.restarts or execution.payload is not None:
        return None if execution.restarts else execution.payload
    for reads in range(MAX_READS):
        loaded = await store.load(execution.execution_id, execution.history_length)
        if loaded.input is not None or INPUT in loaded.unreadable:
            return loaded.input.value if loaded.input else None
        await wait_for_replica(clock, reads)
    return None
