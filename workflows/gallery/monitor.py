"""Monitor: look at a job elsewhere until it ends, more and more seldom, and raise the alarm if it takes too long."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Literal

from pydantic import BaseModel

from engine import Retry, activity, workflow

State = Literal["running", "succeeded", "failed", "late"]


class Job(BaseModel):
    url: str
    owner: str
    patience: timedelta = timedelta(hours=6)


@activity(retry=Retry(max_attempts=5, first_delay=timedelta(seconds=2)), timeout=timedelta(seconds=30))
async def look(url: str) -> State:
    """Ask the other system how the job stands."""
    raise NotImplementedError("call the other system here")


@activity
async def alert(owner: str, text: str) -> None:
    """Tell the job's owner."""
    raise NotImplementedError("send a message here")


@workflow(idempotency_key=lambda job: job.url)
async def watch_job(job: Job) -> State:
    """Ask after 10 s, 20 s, 40 s … and then every half hour."""
    state: State
    pause = timedelta(seconds=10)
    try:
        async with asyncio.timeout(job.patience.total_seconds()):
            while (state := await look(job.url)) == "running":
                await asyncio.sleep(pause.total_seconds())
                pause = min(pause * 2, timedelta(minutes=30))
    except TimeoutError:
        state = "late"
    if state != "succeeded":
        await alert(job.owner, f"{job.url}: {state}")
    return state
