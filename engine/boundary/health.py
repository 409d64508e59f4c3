"""The health of the app: does the store answer, is anything late, does anything wait for a person?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from engine.core.registry import Registry
from engine.driving.left_alone import why_left_alone
from engine.ground.clock import Clock
from engine.store.base import Filter, Store

LATE = timedelta(minutes=2)
"""Sweeps come every ten seconds. So nobody drives an execution that has been due for this long."""
MOST = 100
"""The most executions of each request: those that have been due for longest, or the newest."""


@dataclass(frozen=True)
class Health:
    """What is late, and what waits for a person.

    overdue: how long the longest overdue execution has waited.
    stuck: how many executions are suspended with a cause, by the cause's type (`Quarantined`, …). Only the newest MOST
        count.
    left_alone: how many executions this app can't drive, by workflow and version. Only the MOST that have been due for
        longest count.
    unreadable: executions whose exec document can't be read, by id, each with its problem. They are found among those
        that are due, and among the newest MOST.
    """

    overdue: timedelta
    stuck: Mapping[str, int]
    left_alone: Mapping[str, int]
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        """Whether nothing is late and nothing waits for a person."""
        return self.overdue < LATE and not self.stuck and not self.left_alone and not self.unreadable


async def look(store: Store, registry: Registry, clock: Clock) -> Health:
    """Ask the store, in three requests. Raises StoreError if the store can't be reached."""
    now = clock.now()
    due = await store.due(now, MOST)
    stuck = await store.list(Filter(suspended_with_cause=True), MOST)
    newest = await store.list(Filter(), MOST)
    late = [now - execution.due_at for execution in due.executions if execution.due_at is not None]
    unknown = [execution for execution in due.executions if why_left_alone(execution, registry) is not None]
    return Health(
        overdue=max(late, default=timedelta(0)),
        stuck=Counter(e.cause.type for e in stuck.executions if e.cause is not None),
        left_alone=Counter(f"{e.workflow} version {e.version}" for e in unknown),
        unreadable={**due.unreadable, **stuck.unreadable, **newest.unreadable},
    )
