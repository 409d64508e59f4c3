"""Subscription with dunning: charge every month, remind when a charge fails, and cancel after the third reminder."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Literal

from pydantic import BaseModel

from engine import Deferred, Failure, activity, workflow

MONTH = timedelta(days=30)
REMINDERS = (timedelta(days=1), timedelta(days=3), timedelta(days=7))


class Subscription(BaseModel):
    customer: str
    cents: int
    months: int = 12


class Declined(Failure):
    """The card doesn't pay. A retry at once won't help, a reminder may."""

    reason: str


cancelled = Deferred("subscription.cancelled", str)


@activity
async def charge(customer: str, cents: int, month: int) -> None:
    """Charge the card. Use `activity.info().idempotency_key` towards the payment provider."""
    raise NotImplementedError("call the payment provider here")


@activity
async def remind(customer: str, why: str) -> None:
    """Ask the customer to update the card."""
    raise NotImplementedError("send a mail here")


async def collect(plan: Subscription, month: int) -> bool:
    """Whether the month was paid, at once or after a reminder."""
    for pause in (*REMINDERS, None):
        try:
            await charge(plan.customer, plan.cents, month)
            return True
        except Declined as declined:
            if pause is not None:
                await remind(plan.customer, declined.reason)
                await asyncio.sleep(pause.total_seconds())
    return False


@workflow(idempotency_key=lambda plan: plan.customer)
async def subscribe(plan: Subscription) -> Literal["expired", "cancelled", "unpaid"]:
    """Charge once a month, until the plan ends, the customer cancels, or a month stays unpaid."""
    for month in range(plan.months):
        if not await collect(plan, month):
            return "unpaid"
        try:
            await asyncio.wait_for(cancelled.wait(), MONTH.total_seconds())
        except TimeoutError:
            continue
        return "cancelled"
    return "expired"
