"""anyio in workflows: its scopes and groups work, though they cancel again each time that a loop goes round."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from engine import Workflow, activity, workflow
from engine.testing import Environment

seen: list[str] = []


@activity
async def step(what: str) -> str:
    return what


async def waits_and_cleans_up() -> None:
    try:
        await asyncio.sleep(100)
    finally:
        seen.append(await step("cleaned"))


@workflow
async def scope_over_a_group() -> list[str]:
    with anyio.move_on_after(1) as scope:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(waits_and_cleans_up())
    return [str(scope.cancelled_caught), seen[-1]]


@workflow
async def shields_in_a_loop() -> list[str]:
    async def sleeps() -> str:
        await asyncio.sleep(5)
        return await step("slept")

    with anyio.move_on_after(1):
        task = asyncio.ensure_future(sleeps())
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                seen.append("again")
    return [task.result()]


@workflow
async def group() -> list[str]:
    found: list[str] = []

    async def one(number: int) -> None:
        await anyio.sleep(number)
        found.append(await step(str(number)))

    async with anyio.create_task_group() as tasks:
        for number in (3, 1, 2):
            tasks.start_soon(one, number)
    return found


@workflow
async def cancels_itself() -> list[str]:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await asyncio.sleep(1)
    return [str(scope.cancelled_caught)]


@workflow
async def times_out() -> list[str]:
    try:
        with anyio.fail_after(1):
            await asyncio.sleep(5)
    except TimeoutError:
        return [await step("timed out")]
    return []


CASES: list[tuple[Workflow[Any, Any], list[str]]] = [
    (scope_over_a_group, ["True", "cleaned"]),
    (shields_in_a_loop, ["slept"]),
    (group, ["1", "2", "3"]),
    (cancels_itself, ["True"]),
    (times_out, ["timed out"]),
]


@pytest.mark.parametrize(("one", "expected"), CASES, ids=[one.name for one, _ in CASES])
async def test_scopes_and_groups_work(one: Workflow[Any, Any], expected: list[str]) -> None:
    """O2."""
    seen.clear()
    async with Environment([one]) as env:
        assert (await env.finish(await env.start(one))).value() == expected
    assert seen.count("again") < 20
