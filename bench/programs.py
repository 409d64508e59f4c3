"""The workflows of the benchmark. Their activities do nothing: what is measured is the engine."""

from __future__ import annotations

import asyncio
from typing import Any

from engine import Deferred, Workflow, activity, workflow

answer = Deferred("bench.answer", str)


@activity(name="bench_step")
async def step(number: int) -> int:
    """Nothing."""
    return number


@workflow(name="bench_steps")
async def steps(count: int) -> int:
    """So many steps, one after the other."""
    for number in range(count):
        await step(number)
    return count


@workflow(name="bench_fan_out")
async def fan_out(width: int) -> int:
    """So many steps at once."""
    return len(await asyncio.gather(*(step(number) for number in range(width))))


@workflow(name="bench_sleeps")
async def sleeps(seconds: float) -> None:
    """One timer."""
    await asyncio.sleep(seconds)


@workflow(name="bench_waits")
async def waits(count: int) -> str:
    """So many steps, then a value from outside."""
    await asyncio.gather(*(step(number) for number in range(count)))
    return await answer


WORKFLOWS: list[Workflow[Any, Any]] = [steps, fan_out, sleeps, waits]
