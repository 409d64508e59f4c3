"""The workflows of the chaos run, and the ledger in which their activities write what they really did.

Each process has a ledger of its own (`CHAOS_LEDGER` names the file), to which lines are only ever added. A line is a
JSON array: time, execution, step, attempt, what. `begins` is the first thing that a run of an activity does, `ends`
with a fresh mark the last; the mark is what the run returns, so that every recorded value names the run that made it.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from engine import Deferred, Failure, Retry, Workflow, activity, compensate, workflow

ANSWER_DEADLINE = 3_600.0
FIRST_TRY_FAILS = "the first try fails"


class Job(BaseModel):
    """What one execution is to do. `kind` decides how it ends: see `OUTCOMES`."""

    number: int
    kind: str
    legs: int = 0
    pause: float = 0.0


OUTCOMES = {"paid": "completed", "refused": "failed", "stopped": "interrupted"}
"""How an execution of each kind has to end, whatever happens to the hosts."""


class Leg(BaseModel):
    """A part of a job: a child workflow."""

    trade: int
    number: int
    pause: float


class Refused(Failure):
    """The job is of the kind that ends so."""

    number: int


answer = Deferred("chaos.answer", str)


@activity
async def work() -> str:
    """An async activity, and one that lasts."""
    _note("begins")
    await asyncio.sleep(0.02)
    return _end()


@activity
def press() -> str:
    """A sync activity: it runs in a thread, and nothing can stop it."""
    _note("begins")
    time.sleep(0.03)
    return _end()


@activity(retry=Retry(max_attempts=3, first_delay=timedelta(seconds=0.2), jitter=False))
async def stumble() -> str:
    """Fails the first time, and only then."""
    _note("begins")
    if activity.info().attempt == 1:
        raise ConnectionError(FIRST_TRY_FAILS)
    return _end()


@activity
async def undo(mark: str) -> str:
    """The compensation of `work`."""
    _note("begins")
    return _end()


@activity
async def linger() -> str:
    """Lasts until its host's gate is there: the file that `CHAOS_GATE` names."""
    _note("begins")
    while not _gate().exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.02)
    return _end()


@activity
def hold() -> str:
    """The same in a thread."""
    _note("begins")
    while not _gate().exists():
        time.sleep(0.02)
    return _end()


@workflow(idempotency_key=lambda leg: f"{leg.trade}-{leg.number}")
async def carry(leg: Leg) -> list[str]:
    """A child: an activity on either side of a timer."""
    first = await work()
    await asyncio.sleep(leg.pause)
    return [first, await press()]


@workflow(idempotency_key=lambda job: str(job.number))
async def trade(job: Job) -> dict[str, list[str]]:
    """Steps in a row and in parallel, a retry, a timer, children, an answer from outside; and one of three ends."""
    first = await work()
    compensate(undo, first)
    parts = [first, *await asyncio.gather(work(), press(), stumble())]
    await asyncio.sleep(job.pause)
    legs = await asyncio.gather(
        *(carry(Leg(trade=job.number, number=number, pause=job.pause / 2)) for number in range(job.legs))
    )
    if job.kind == "refused":
        raise Refused(number=job.number)
    async with asyncio.timeout(ANSWER_DEADLINE):
        said = await answer
    return {"parts": [*parts, await work()], "legs": [mark for leg in legs for mark in leg], "answer": [said]}


@workflow(idempotency_key=lambda job: str(job.number))
async def tarry(job: Job) -> dict[str, list[str]]:
    """Two activities that last, side by side, and one more: for a host that is told to stop in the middle."""
    lasting = await asyncio.gather(linger(), hold())
    return {"parts": [*lasting, await work()]}


CHAOS: list[Workflow[Any, Any]] = [trade, carry, tarry]


def _gate() -> Path:
    return Path(os.environ["CHAOS_GATE"])


@functools.cache
def _ledger() -> int:
    return os.open(os.environ["CHAOS_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def _note(what: str, mark: str = "") -> None:
    info = activity.info()
    line = json.dumps([round(time.time(), 3), info.execution_id, info.step, info.attempt, what, mark])
    os.write(_ledger(), f"{line}\n".encode())  # one write: a line is there, or it isn't


def _end() -> str:
    mark = uuid.uuid4().hex[:16]
    _note("ends", mark)
    return mark
