"""An order: charge the card, reserve the goods, wait for a person's approval until a deadline, ship every item."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal

from pydantic import BaseModel, Field

from engine import Deferred, Failure, Retry, activity, compensate, workflow
from workflows.ledger import note

APPROVAL_DEADLINE = timedelta(days=1)
STEADY = Retry(max_attempts=5, first_delay=timedelta(seconds=1))


class Item(BaseModel):
    sku: str = Field(min_length=1)
    quantity: int = Field(ge=1, le=1000)


class Order(BaseModel):
    id: str = Field(min_length=1)
    customer: str
    amount: Decimal = Field(gt=0)
    items: list[Item] = Field(min_length=1)
    work_seconds: float = Field(default=0, ge=0, le=60, description="how long each activity takes, for show")


class Payment(BaseModel):
    reference: str
    amount: Decimal


class Approval(BaseModel):
    approved: bool
    by: str


class Parcel(BaseModel):
    sku: str
    tracking: str


class Receipt(BaseModel):
    order: str
    paid: Decimal
    approved_by: str
    parcels: list[Parcel]


class OrderExpired(Failure):
    """Nobody approved the order in time."""

    order: str


class OrderRejected(Failure):
    """Somebody said no."""

    order: str
    by: str


approval = Deferred("approval", Approval)


@activity(retry=STEADY)
async def charge(order: Order) -> Payment:
    """Take the money."""
    await asyncio.sleep(order.work_seconds)
    return Payment(reference=note(f"charged {order.customer} {order.amount}"), amount=order.amount)


@activity(retry=STEADY)
async def refund(payment: Payment) -> None:
    """Give the money back."""
    note(f"refunded {payment.amount}")


@activity(retry=STEADY)
async def reserve(order: Order) -> None:
    """Set the goods aside."""
    await asyncio.sleep(order.work_seconds)
    note(f"reserved {sum(item.quantity for item in order.items)} pieces")


@activity(retry=STEADY)
async def ship(order: Order, item: Item) -> Parcel:
    """Hand one item to the carrier."""
    await asyncio.sleep(order.work_seconds)
    return Parcel(sku=item.sku, tracking=note(f"shipped {item.quantity} x {item.sku}"))


@workflow(idempotency_key=lambda order: order.id)
async def fulfil(order: Order) -> Receipt:
    """From payment to parcels. The same order id is the same execution, however often it is started."""
    payment = await charge(order)
    compensate(refund, payment)  # if it fails or is interrupted from here on
    await reserve(order)
    try:
        async with asyncio.timeout(APPROVAL_DEADLINE.total_seconds()):
            decision = await approval
    except TimeoutError:
        raise OrderExpired(order=order.id) from None
    if not decision.approved:
        raise OrderRejected(order=order.id, by=decision.by)
    async with asyncio.TaskGroup() as group:
        shipping = [group.create_task(ship(order, item)) for item in order.items]
    return Receipt(
        order=order.id,
        paid=payment.amount,
        approved_by=decision.by,
        parcels=[parcel.result() for parcel in shipping],
    )
