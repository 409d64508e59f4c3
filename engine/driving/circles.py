"""Circles of executions that wait for each other: found by whoever adds the wait that closes one.

Who waits for an execution stands in its `parents`. So a circle is found by going from the one that is about to wait to
those that wait for it, to those that wait for these, and so on: it is closed if the child is among them.

Rules:
1. A wait is written before its writer looks for a circle. Of the waits that make up a circle one is written last. Its
   writer finds all the others. If two are written at the same moment, both of their writers may find the circle.
2. What is looked at is confirmed by a write under its etag, because a read may be older than the other's wait. A wait
   that is written later finds, by rule 1, the one that was written before it.
3. An execution that has ended waits for nobody, nor does a run that was purged.
"""

from __future__ import annotations

import contextlib

from engine.ground.errors import Conflict, Missing, Unreadable
from engine.store import transitions
from engine.store.base import Store
from engine.store.documents import Execution


async def find_circle(store: Store, parent: Execution, child: Execution) -> tuple[str, ...]:
    """The executions of the circle that `parent` closes by waiting for `child`, from the parent round to the parent,
    each as "workflow id". Empty: there is none. Raises StoreError."""
    came: dict[str, str | None] = {parent.execution_id: None}
    names = {child.execution_id: child.workflow}
    left = [(parent.execution_id, parent.run_id)]
    for execution_id, run_id in left:
        execution = await _confirmed(store, execution_id)
        if execution is None or run_id not in (None, execution.run_id):
            continue
        names[execution_id] = execution.workflow
        for waiting in execution.parents:
            if waiting.execution_id == child.execution_id and waiting.run_id in (None, child.run_id):
                return _around(execution_id, child.execution_id, came, names)
            if waiting.execution_id not in came:
                came[waiting.execution_id] = execution_id
                left.append((waiting.execution_id, waiting.run_id))
    return ()


async def _confirmed(store: Store, execution_id: str) -> Execution | None:
    """The running execution as it stands now. None if there is none."""
    while True:
        with contextlib.suppress(Conflict):
            try:
                execution = await store.read(execution_id)
                return None if execution.is_complete else await store.replace(transitions.confirm().apply(execution))
            except (Missing, Unreadable):
                return None


def _around(last: str, child: str, came: dict[str, str | None], names: dict[str, str]) -> tuple[str, ...]:
    """The parent waits for the child, which waits for `last`, and so on back to the parent."""
    path, at = [child, last], came[last]
    while at is not None:
        path.append(at)
        at = came[at]
    return tuple(f"{names[id]} {id}" for id in (path[-1], *path))
