"""The workflows whose executions stand in the golden documents. They never change: documents of them are out there."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from engine import Channel, Deferred, Failure, Retry, Workflow, activity, compensate, workflow

answer = Deferred("compat_answer", str)
notes = Channel("compat_notes", int)


class Refused(Failure):
    """Somebody said no."""

    by: str


@activity(name="compat_fetch", retry=Retry(max_attempts=3, first_delay=timedelta(seconds=5), jitter=False))
async def fetch(number: int) -> dict[str, int]:
    """A step that fails at its first attempt."""
    if activity.info().attempt == 1:
        raise ConnectionError(f"no answer for {number}")
    return {"number": number}


@activity(name="compat_undo")
async def undo(number: int) -> None:
    """What is undone when the workflow fails."""


@workflow(name="compat_part", idempotency_key=lambda number: f"part {number}")
async def part(number: int) -> int:
    """A child."""
    await asyncio.sleep(30)
    return number * 2


@workflow(name="compat_whole", version="1", idempotency_key=lambda text: text[:40], tags={"kind": "golden"})
async def whole(text: str) -> str:
    """Every kind of step: an activity with a retry, a child, a timer, a channel, a deferred."""
    found = await fetch(7)
    compensate(undo, found["number"])
    doubled = await part(found["number"])
    try:
        async with asyncio.timeout(86_400):
            note = await notes.receive()
            said = await answer
    except TimeoutError:
        return "nobody answered"
    if said == "no":
        raise Refused(by="somebody")
    return f"{text} {doubled} {note} {said}"


PROGRAM: list[Workflow[Any, Any]] = [whole, part]
