"""The app that the tests of the page look at. Each workflow is one state that the page shows."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import Literal

import azure.functions as func
from pydantic import BaseModel, Field

from engine import Channel, Deferred, Failure, Retry, Runtime, activity, workflow
from engine.boundary.functions import blueprint


class Decision(BaseModel):
    approved: bool
    by: str = Field(min_length=2, description="Who says so.")
    amount: int = 1
    level: Literal["low", "high"] = "low"
    note: str | None = None


class Declined(Failure):
    card: str

    def __str__(self) -> str:
        return f"declined: {self.card}"


decision = Deferred("page.decision", Decision)
words = Channel("page.words", str)


@activity(retry=Retry(max_attempts=9, first_delay=timedelta(minutes=4), max_delay=timedelta(hours=1)))
async def unreachable(what: str) -> str:
    raise ConnectionError(f"no answer from {what}")


MENDED = set[str]()
"""The texts that `mended` has failed with: it fails once with each."""


@activity
async def mended(text: str) -> str:
    if text in MENDED:
        return text
    MENDED.add(text)
    raise ConnectionError(f"no answer for {text}")


@activity
async def double(number: int) -> int:
    return number * 2


@workflow
async def part(text: str) -> str:
    return f"{await double(4)} {text}"


@workflow(tags={"team": "travel", "mark": "<b>bold</b>"})
async def waits(text: str) -> str:
    """Waits for one of each."""
    workflow.set_status({"waits with": text, "large": 12345678901234567890})
    workflow.set_tag("place", "<i>here</i>")
    await double(1)
    async with asyncio.timeout(86_400):
        decided, *_ = await asyncio.gather(  # LINE decision
            decision,
            words.receive(),
            part(text),
        )
    return f"{decided.by} {decided.amount} {decided.level} {decided.note}"


@workflow
async def retries(text: str) -> str:
    return await unreachable(text)


@workflow
async def asks(text: str) -> str:
    return (await decision).by + text


@workflow
async def returns(text: str) -> dict[str, str | int]:
    return {"text": text, "large": 12345678901234567890}


@workflow
async def fails(text: str) -> None:
    try:
        raise ValueError(f"first {text}")
    except ValueError as error:
        raise Declined(card=text) from error


@workflow
async def stuck(text: str) -> None:
    await asyncio.Event().wait()


@workflow
async def untidy(text: str) -> str:
    """Ends while a step is open, a task of its own has failed, and a value of a channel lies unread."""
    await decision

    async def lost() -> None:
        raise ValueError(f"nobody looks at {text}")

    tasks = asyncio.create_task(lost()), asyncio.create_task(asyncio.sleep(3_600))
    await double(1)
    return f"{len(tasks)}"


@workflow
async def flaky(text: str) -> str:
    return await mended(text)


@workflow
async def forkable(text: str) -> str:
    first = await double(2)
    second = await double(first)
    return f"{second} {text}"


@workflow
async def many(number: int) -> int:
    total = 0
    for start in range(0, number, 100):
        total += sum(await asyncio.gather(*(double(n) for n in range(start, min(number, start + 100)))))
    return total


runtime = Runtime.from_environment(
    [waits, part, retries, asks, returns, fails, stuck, untidy, flaky, forkable, many], os.environ
)
app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
app.register_functions(blueprint(runtime))
