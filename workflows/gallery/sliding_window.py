"""Sliding window: a child for each record, ten at a time. As soon as one ends, the next begins."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from engine import activity, workflow


class Batch(BaseModel):
    records: list[str]
    window: int = 10


@activity
async def convert(record: str) -> int:
    """Convert one record. Returns its new size."""
    raise NotImplementedError("convert the record here")


@workflow
async def convert_record(record: str) -> int:
    """One record: an execution of its own, with a history of its own."""
    return await convert(record)


@workflow
async def convert_all(batch: Batch) -> int:
    """Convert every record. Returns their size."""
    places = asyncio.Semaphore(batch.window)

    async def one(record: str) -> int:
        async with places:
            return await convert_record(record)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(record)) for record in batch.records]
    return sum(task.result() for task in tasks)
