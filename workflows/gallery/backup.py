"""Fan-out, fan-in: copy every file of a folder, a few at a time, and add up what was copied."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from engine import Retry, activity, workflow


@activity
async def list_files(folder: str) -> list[str]:
    """The names of the folder's files."""
    raise NotImplementedError("list the folder here")


@activity(retry=Retry(max_attempts=4, first_delay=timedelta(seconds=1)), timeout=timedelta(minutes=10))
def copy(file: str) -> int:
    """Copy one file to the backup. Returns its size in bytes. A sync function: it runs in a thread."""
    raise NotImplementedError("copy the file here")


@workflow(max_parallel=16)
async def back_up(folder: str) -> int:
    """Back up a folder. Returns the bytes that were copied."""
    files = await list_files(folder)
    return sum(await asyncio.gather(*(copy(file) for file in files)))
