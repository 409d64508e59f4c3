"""Activities for workflows under test, and the journal in which they note that they ran."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta

from engine import Retry, activity


class Journal:
    """Which steps ran, in order, and which of them ran again after they had been recorded."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything: another run begins."""
        self.ran: list[str] = []
        self.repeated: list[str] = []
        self._recorded: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def note(self) -> None:
        """The activity that calls this has run."""
        step = activity.info().step
        self.ran.append(step)
        if self._recorded[step].is_set():
            self.repeated.append(step)

    def record(self, steps: Iterable[str]) -> None:
        """These steps have come to an end that is stored."""
        for step in steps:
            self._recorded[step].set()

    async def until_recorded(self, step: str) -> None:
        """Wait until that step has come to an end that is stored."""
        await self._recorded[step].wait()


journal = Journal()
"""Of the run that is under way."""


@activity
async def say(text: str) -> str:
    """Gives back what it is given."""
    journal.note()
    return text


@activity
async def fail(text: str) -> str:
    """Always fails."""
    journal.note()
    raise ValueError(text)


@activity(retry=Retry(max_attempts=3, first_delay=timedelta(minutes=2), jitter=False))
async def stumble(text: str) -> str:
    """Fails at its first attempt."""
    journal.note()
    if activity.info().attempt == 1:
        raise ValueError(text)
    return text


@activity
async def lag(text: str, behind: str) -> str:
    """Gives back what it is given, once another step is recorded."""
    await journal.until_recorded(behind)
    journal.note()
    return text


@activity
async def hang(text: str) -> str:
    """Never ends by itself."""
    await asyncio.Event().wait()
    return text


async def chain(name: str, steps: int, trace: list[str]) -> str:
    """So many steps, one after the other, each written to `trace`."""
    for number in range(1, steps + 1):
        said = await say(f"{name}{number}")
        trace.append(said)
    return name
