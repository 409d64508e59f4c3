"""Parents and children for tests: a leaf that waits and cleans up, and three levels over it."""

from __future__ import annotations

import asyncio
from typing import Any

from engine import Deferred, Workflow, workflow
from engine.store.documents import Execution
from engine.testing import Environment
from tests.support.mortal import do, executions

answer = Deferred("families.answer", int)


@workflow(idempotency_key=lambda key: key)
async def leaf(key: str) -> int:
    try:
        return await answer
    except asyncio.CancelledError:
        await do(f"leaf {key} cleaned")
        raise


@workflow(idempotency_key=lambda key: key)
async def middle(key: str) -> int:
    one, two = await asyncio.gather(leaf(f"{key} 1"), leaf(f"{key} 2"))
    return one + two


@workflow
async def root(key: str) -> int:
    return await middle(key)


@workflow
async def leaves_it(key: str) -> int:
    return await leaf.child(key)


FAMILY: list[Workflow[Any, Any]] = [leaf, middle, root, leaves_it]


async def only(env: Environment, one: Workflow[Any, Any]) -> Execution:
    """The one execution of a workflow."""
    (found,) = await executions(env, one)
    return found
