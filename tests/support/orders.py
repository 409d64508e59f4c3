"""Prints in which order workflows that wait on sets of tasks ask for their steps, in a process with a heap of its own.

python -m tests.support.orders SEED
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from datetime import UTC, datetime
from typing import Any

from engine import ActivityError, Workflow, workflow
from engine.core.commands import StartActivity
from engine.core.run import Run
from engine.values.error_records import record
from engine.values.events import StepResolved
from tests.support.steps import chain, fail, say

NAMES = "abcdefgh"


async def parked(name: str) -> None:
    """Waits for ever, and takes two steps to clean up."""
    try:
        await asyncio.Event().wait()
    finally:
        await chain(name, 2, [])


@workflow
async def waits_for_all() -> list[str]:
    done, _ = await asyncio.wait([asyncio.create_task(chain(name, 2, [])) for name in NAMES])
    return [await say(task.result()) for task in done]


@workflow
async def cancels_the_pending() -> list[str]:
    tasks = {asyncio.create_task(parked(name)) for name in NAMES}
    _, pending = await asyncio.wait(tasks | {asyncio.create_task(say("first"))}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    results = await asyncio.gather(*pending, return_exceptions=True)
    return [type(result).__name__ for result in results]


@workflow
async def aborts_a_group() -> list[str]:
    try:
        async with asyncio.TaskGroup() as group:
            for name in NAMES:
                group.create_task(parked(name))
            await fail("the group")
    except* ActivityError:
        pass
    return []


@workflow
async def takes_as_completed() -> list[str]:
    tasks = [asyncio.create_task(chain(name, len(NAMES) - n, [])) for n, name in enumerate(NAMES)]
    return [await say(await first) for first in asyncio.as_completed(tasks)]


@workflow
async def takes_coroutines_as_completed() -> list[str]:
    return [await say(await first) for first in workflow.as_completed([chain(name, 2, []) for name in NAMES])]


WORKFLOWS: list[Workflow[Any, Any]] = [
    waits_for_all,
    cancels_the_pending,
    aborts_a_group,
    takes_as_completed,
    takes_coroutines_as_completed,
]


def order(asking: Workflow[Any, Any]) -> list[str]:
    """The texts with which `asking` calls activities, in order; each is answered before a later one is."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    run = Run(asking, "0" * 32, "null", at)
    texts: list[str] = []
    run.begin()
    while run.outcome is None:
        texts += [c.step.arguments["text"] for c in run.take_commands() if isinstance(c, StartActivity)]
        step = next(iter(run.steps.activities.values()))
        text = step.arguments["text"]
        error = record(ValueError(text)) if step.activity is fail else None
        run.apply(StepResolved(step.id, step.digest, at, "activity", None if error else text, error))
    texts.append(str(run.outcome.value))
    run.close()
    return texts


def main(seed: int) -> None:
    """Print the order of each workflow, with the heap stirred in between."""
    chance = random.Random(seed)
    noise: list[Any] = []
    orders = {}
    for asking in WORKFLOWS:
        noise += [bytearray(chance.randrange(1, 5_000)) for _ in range(chance.randrange(500))]
        noise = [item for item in noise if chance.random() < 0.7]
        orders[asking.name] = order(asking)
    sys.stdout.write(json.dumps(orders))


if __name__ == "__main__":
    main(int(sys.argv[1]))
