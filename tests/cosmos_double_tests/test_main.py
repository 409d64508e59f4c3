"""The double as a process of its own."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from azure.cosmos.aio import CosmosClient

ROOT = Path(__file__).parents[2]


async def test_it_serves_until_it_is_stopped():
    arguments = ["-m", "tests.cosmos_double", "--port", "0", "--ranges", "2", "--container", "app/work/executionId"]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=PIPE)
    try:
        assert process.stdout is not None
        endpoint = (await process.stdout.readline()).decode().split()[1]
        key = (await process.stdout.readline()).decode().split()[1]
        async with CosmosClient(endpoint, key) as client:
            work = client.get_database_client("app").get_container_client("work")
            await work.create_item({"id": "exec", "executionId": "e1"})
            assert (await work.read())["defaultTtl"] == -1
            assert len([feed_range async for feed_range in work.read_feed_ranges()]) == 2
    finally:
        process.kill()
        await process.wait()
