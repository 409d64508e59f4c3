"""Prints what workflows that wait on sets of tasks see: for comparing processes, each with a heap of its own."""

import asyncio
import json
import random
import sys

from engine.testing import Environment
from tests.support.primitives import PRIMITIVES

NAMES = [
    "gather_",
    "task_group",
    "task_group_abort",
    "wait_first",
    "wait_all",
    "as_completed_tasks",
    "as_completed_coroutines",
    "queue_condition",
    "event_lock_semaphore",
]


async def main(seed: int) -> None:
    noise = [bytearray(random.Random(seed).randrange(1, 10_000)) for _ in range(1_000 + 37 * seed)]
    traces = []
    for workflow in PRIMITIVES:
        if workflow.name in NAMES:
            del noise[:: seed + 2]
            async with Environment([workflow]) as env:
                traces.append((await env.run(workflow, key="same")).value())
    print(json.dumps(traces))


asyncio.run(main(int(sys.argv[1])))
