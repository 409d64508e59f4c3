"""Circles of executions that wait for each other. The parent that adds the closing wait finds the circle.

The `parents` of an execution name the executions that wait for it. The search starts at the parent that is about to
wait. It follows `parents` from there, again and again. If it reaches the child, the new wait closes a circle.

Rules:
1. A parent writes its wait before it looks for a circle. One of the waits of a circle is written last, and its writer
   finds all the others. If two waits are written at the same moment, both writers may find the circle.
2. A read may be older than another parent's wait. So each execution on the way is confirmed by a write under its etag.
   A wait that is written after this confirmation finds, by rule 1, the waits that were written before it.
3. An execution that has ended waits for nobody. A run that was purged waits for nobody either.
"""

from __future__ import annotations

import contextlib

from engine.ground.errors import Conflict, Missing, Unreadable
from engine.store import transitions
from engine.store.base import Store
from engine.store.documents import SCHEMA, Execution


async def find_circle(store: Store, parent: Execution, child: Execution) -> tuple[str, ...]:
    """The circle that `parent` closes by waiting for `child`: its executions in order, each as "workflow id", with the
    parent first and last. Empty if there is no circle. Raises StoreError."""
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
    """The execution as it stands now. None if it isn't running, is missing or can't be read. Also None if a later
    version of the engine wrote it: that version looks for the circle."""
    while True:
        with contextlib.suppress(Conflict):
            try:
                execution = await store.read(execution_id)
                if execution.is_complete or execution.schema_version > SCHEMA:
                    return None
                return await store.replace(transitions.confirm().apply(execution))
            except (Missing, Unreadable):
                return None


def _around(last: str, child: str, came: dict[str, str | None], names: dict[str, str]) -> tuple[str, ...]:
    """The path of the waits: the parent waits for the child, the child for `last`, and so on back to the parent."""
    path, at = [child, last], came[last]
    while at is not None:
        path.append(at)
        at = came[at]
    return tuple(f"{names[id]} {id}" for id in (path[-1], *path))
