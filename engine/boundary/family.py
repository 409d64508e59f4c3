"""The family of an execution: the executions that created it and all their children, as one tree.

Children are found by replaying their parents: no store keeps an index of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from engine.boundary.inspection import Inspection
from engine.boundary.shapes import FamilyShape, RelativeShape
from engine.core.steps import ChildStep
from engine.ground.errors import Missing
from engine.store.base import Store
from engine.store.documents import Execution

MAX_RELATIVES = 200
"""The most executions of one answer."""
MAX_AT_ONCE = 8
"""How many executions are inspected at the same time."""

Inspect = Callable[[Execution], Awaitable[Inspection]]


async def find_family(store: Store, inspect: Inspect, execution: Execution) -> FamilyShape:
    """The family of `execution`. Raises StoreError."""
    first = execution
    for _ in range(MAX_RELATIVES):
        if first.creator is None:
            break
        try:
            first = await store.read(first.creator)
        except Missing:  # its creator was purged: the tree begins here
            break
    found: dict[str, tuple[RelativeShape, list[tuple[str, str]]]] = {}
    wave, truncated = [first.execution_id], False
    while wave:
        truncated = truncated or len(found) + len(wave) > MAX_RELATIVES
        wave = wave[: MAX_RELATIVES - len(found)]
        for start in range(0, len(wave), MAX_AT_ONCE):
            some = wave[start : start + MAX_AT_ONCE]
            found |= zip(some, await asyncio.gather(*(_look(store, inspect, id) for id in some)), strict=True)
        wave = list({id: None for parent in wave for _, id in found[parent][1] if id not in found})
    return FamilyShape(
        execution_id=execution.execution_id,
        root=_tree(first.execution_id, None, found, frozenset()),
        parents=[parent.execution_id for parent in execution.parents],
        truncated=truncated,
    )


async def _look(store: Store, inspect: Inspect, id: str) -> tuple[RelativeShape, list[tuple[str, str]]]:
    """One execution, and the steps and ids of its children."""
    try:
        execution = await store.read(id)
    except Missing:
        return RelativeShape(execution_id=id, status="missing"), []
    seen = await inspect(execution)
    children = [(one.step, one.target.execution_id) for one in seen.asked if isinstance(one.target, ChildStep)]
    shape = RelativeShape(
        execution_id=id,
        workflow=execution.workflow,
        status=execution.status,
        outcome=execution.outcome,
        suspended=execution.suspended,
        created_at=execution.created_at,
        completed_at=execution.completed_at,
        problem=seen.problem,
    )
    return shape, children


def _tree(
    id: str,
    step: str | None,
    found: Mapping[str, tuple[RelativeShape, list[tuple[str, str]]]],
    above: frozenset[str],
) -> RelativeShape:
    shape, children = found[id]
    below = above | {id}
    update: dict[str, Any] = {
        "step": step,
        "children": [_tree(child, at, found, below) for at, child in children if child in found and child not in below],
    }
    return shape.model_copy(update=update)
