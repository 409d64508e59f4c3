"""Nightly job: every night, bill all customers, one child for each. A customer who can't be billed stops nobody."""

from __future__ import annotations

import asyncio
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from engine import activity, workflow

BERLIN = ZoneInfo("Europe/Berlin")


class Night(BaseModel):
    date: str
    billed: int
    failed: list[str]


@activity
async def customers(date: str) -> list[str]:
    """The customers who are to be billed on that date."""
    raise NotImplementedError("ask the database here")


@activity
async def bill(customer: str, date: str) -> None:
    """Send the customer a bill."""
    raise NotImplementedError("write the bill here")


class Job(BaseModel):
    customer: str
    date: str


@workflow(idempotency_key=lambda job: f"{job.date}/{job.customer}")
async def bill_customer(job: Job) -> None:
    """Bill one customer. The key makes sure that it happens once a night."""
    await bill(job.customer, job.date)


@workflow(idempotency_key=lambda date: date)
async def bill_everybody(date: str) -> Night:
    """Wait for half past two in Berlin on that date, then bill everybody."""
    start = datetime.combine(datetime.fromisoformat(date), time(2, 30), BERLIN)
    await asyncio.sleep(max(timedelta(0), start - workflow.now()).total_seconds())
    names = await customers(date)
    jobs = [bill_customer(Job(customer=name, date=date)) for name in names]
    results = await asyncio.gather(*jobs, return_exceptions=True)
    failed = [name for name, result in zip(names, results, strict=True) if isinstance(result, Exception)]
    return Night(date=date, billed=len(names) - len(failed), failed=failed)
