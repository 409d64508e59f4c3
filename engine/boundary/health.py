"""How the app stands: is the store there, is anything late, does anything wait for a person?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from engine.ground.clock import Clock
from engine.store.base import Filter, Store

LATE = timedelta(minutes=2)
"""Sweeps come every ten seconds: what has been due for that long, nobody drives."""
MOST = 100
"""Executions that are looked at, the newest first."""


@dataclass(frozen=True)
class Health:
    """`overdue`: how long the execution that is due for longest has waited. `stuck`: how many executions are suspended
    with a cause, by its type (`Quarantined`, `NonDeterminism`, …), of the newest MOST."""

    overdue: timedelta
    stuck: Mapping[str, int]

    @property
    def is_well(self) -> bool:
        """Whether nobody has to do anything."""
        return self.overdue < LATE and not self.stuck


async def look(store: Store, clock: Clock) -> Health:
    """Ask the store, in two requests. Raises StoreError if it isn't there."""
    now = clock.now()
    due = (await store.due(now, 1)).executions
    stuck = (await store.list(Filter(suspended_with_cause=True), MOST)).executions
    late = [now - execution.due_at for execution in due if execution.due_at is not None]
    return Health(max(late, default=timedelta(0)), Counter(e.cause.type for e in stuck if e.cause is not None))
