"""A person's approval, with reminders: a timer against a deferred, again and again, until one of them ends it."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from pydantic import BaseModel, Field

from engine import Deferred, activity, workflow
from workflows.ledger import note


class Expense(BaseModel):
    id: str = Field(min_length=1)
    employee: str
    amount: Decimal = Field(gt=0)
    remind_every_seconds: float = Field(default=86_400, gt=0)
    reminders: int = Field(default=3, ge=0, le=100)


class Verdict(BaseModel):
    approved: bool
    by: str


class Result(BaseModel):
    approved: bool
    by: str
    reminders_sent: int


verdict = Deferred("verdict", Verdict)


@activity
async def ask(expense: Expense, reminder: int) -> None:
    """Send the mail that asks for a verdict."""
    note(f"asked about {expense.id}" if reminder == 0 else f"reminder {reminder} about {expense.id}")


@activity
async def pay_out(expense: Expense) -> None:
    """Pay the employee."""
    note(f"paid {expense.employee} {expense.amount}")


@workflow(idempotency_key=lambda expense: expense.id)
async def approve_expense(expense: Expense) -> Result:
    """Ask, remind, and pay once somebody approves. Without an answer the expense is turned down."""
    for reminder in range(expense.reminders + 1):
        await ask(expense, reminder)
        try:
            answer = await asyncio.wait_for(verdict.wait(), expense.remind_every_seconds)
        except TimeoutError:
            continue
        if answer.approved:
            await pay_out(expense)
        return Result(approved=answer.approved, by=answer.by, reminders_sent=reminder)
    return Result(approved=False, by="nobody answered", reminders_sent=expense.reminders)
