"""Workflows with the slips of a newcomer, for the guard to find. Never run."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

from engine import activity, workflow
from tests.rules.guard import helpers

COUNTS: dict[str, int] = {}
TOTAL = 0
HOUR = timedelta(hours=1)
log = logging.getLogger(__name__)


@activity
async def step(value: Any = None) -> Any:
    COUNTS["activities may"] = 1
    return value


async def part() -> None:
    await step()


@workflow
async def careless() -> None:
    from time import monotonic as ticks

    import aiohttp

    global TOTAL
    TOTAL = 1
    COUNTS["a"] = 1
    COUNTS["b"] += 1
    del COUNTS["c"]
    COUNTS.update(d=1)
    step()
    part()
    asyncio.sleep(1)
    asyncio.all_tasks()
    await asyncio.sleep(timedelta(days=1))
    await asyncio.wait_for(step(), timeout=2 * HOUR)
    aiohttp.ClientSession()
    ticks()
    print("here")
    log.info("here")
    list({1, 2})
    await asyncio.gather(*{step()})
    ",".join({"a"} | {"b"})
    {1, 2}.pop()
    try:
        await step()
    except:  # noqa: E722
        workflow.logger.info("gone")
    try:
        await step()
    except BaseException:
        workflow.logger.info("gone")
    helpers.reads_the_clock()
    helpers.till.open()
    helpers.HANDLERS["environment"]()


@workflow
async def careful(given: list[int]) -> list[int]:
    counts = {"a": 1}
    counts["a"] += 1
    given.append(len({1, 2}))
    workflow.logger.info("here")
    started = step()
    await started
    await part()
    try:
        await step()
    except BaseException:
        await step("cleanup")
        raise
    return sorted({1, 2})


WORKFLOWS = [careless, careful]
