"""Right calls and wrong calls of the public door, for type checkers. Nothing here runs.

A right call stands in `assert_type`, with the type that it has. A wrong call carries a comment that ignores its error.
Both type checkers report a comment that ignores nothing. So a wrong call that they let pass fails the test as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, assert_type

from pydantic import BaseModel

from engine import (
    Activity,
    Channel,
    Client,
    Deferred,
    Failure,
    Filter,
    Handle,
    Limit,
    Outcome,
    Page,
    Peer,
    Retry,
    Runtime,
    Status,
    Workflow,
    activity,
    compensate,
    finalizer,
    step,
    workflow,
)
from engine.testing import Environment


class Order(BaseModel):
    id: str


@dataclass
class Receipt:
    number: int


class Refused(Failure):
    why: str


# -- activities --


@activity
async def charge(order: Order, cents: int = 0) -> Receipt:
    assert_type(activity.info().attempt, int)
    assert_type(activity.heartbeat(order), None)
    assert_type(activity.last_heartbeat(Order), Order | None)
    assert_type(activity.last_heartbeat(list[int]), list[int] | None)
    assert_type(activity.last_heartbeat(), Any)
    assert_type(activity.is_cancelled(), bool)
    assert_type(activity.lifespan(Payments), Payments)
    activity.lifespan()  # type: ignore[call-arg]
    activity.heartbeat()  # type: ignore[call-arg]
    return Receipt(cents)


@activity(retry=Retry(max_attempts=3), timeout=timedelta(seconds=30), raises=[ValueError])
async def ship(order: Order) -> None: ...


@activity
def pack(name: str) -> int:
    return len(name)


async def price_of(order: Order, times: int = 1) -> Receipt:
    return Receipt(times)


class Payments:
    async def refund(self, receipt: Receipt) -> str:
        return str(receipt.number)


refund = activity(Payments().refund)

assert_type(pack.function("lamp"), int)
pack.function(5)  # type: ignore[arg-type]


def tenant_of(order: Order) -> str:
    return repr(order)


urgent = charge.with_options(timeout=timedelta(seconds=5), retry=None)
activity(concurrency=5, limit=Limit(10, per=timedelta(seconds=1)), key=tenant_of)
activity(concurrency="5")  # type: ignore[call-overload]
activity(limit=10)  # type: ignore[call-overload]
charge.with_options(timeout=5)  # type: ignore[arg-type]
charge.with_options(retry=3)  # type: ignore[arg-type]
charge.with_options(raises=[ValueError])  # type: ignore[call-arg]
activity(timeout=30)(pack.__call__)  # type: ignore[call-overload]
activity(retry=3)  # type: ignore[call-overload]


# -- deferreds and channels --

approval = Deferred("expected.approval", bool)
verdict = Deferred("expected.verdict", Order | None)
lines = Deferred("expected.lines", list[tuple[int, str]])
gate = Deferred("expected.gate", Literal["open", "shut"])
signal = Deferred("expected.signal", None)
anything = Deferred("expected.anything")
orders = Channel("expected.orders", Order)
mixed = Channel("expected.mixed", Order | Receipt | None)
loose = Channel("expected.loose")

assert_type(approval, Deferred[bool])
assert_type(verdict, Deferred[Order | None])
assert_type(lines, Deferred[list[tuple[int, str]]])
assert_type(gate, Deferred[Literal["open", "shut"]])
assert_type(signal, Deferred[None])
assert_type(anything, Deferred[Any])
assert_type(approval["legal"], Deferred[bool])
assert_type(orders, Channel[Order])
assert_type(mixed, Channel[Order | Receipt | None])
assert_type(loose, Channel[Any])


# -- workflows --


@workflow(idempotency_key=lambda order: order.id)
async def fulfil(order: Order) -> Receipt:
    return await charge(order, 100)


@workflow
async def evolves(order: Order) -> Receipt:
    assert_type(workflow.patched("one charge"), bool)
    workflow.patched(5)  # type: ignore[arg-type]
    assert_type(workflow.deprecate_patch("an older one"), None)
    workflow.deprecate_patch()  # type: ignore[call-arg]
    return await charge(order)


@workflow(tags=lambda order: {"customer": order.id})
async def is_tagged(order: Order) -> None: ...


@workflow(tags=lambda: {"team": "post"})
async def is_tagged_too() -> None: ...


workflow(tags=5)  # type: ignore[call-overload]
workflow(tags={"team": 5})  # type: ignore[dict-item]


@workflow
async def speaks_to_others(order: Order) -> None:
    other = fulfil.handle(key=order.id)
    assert_type(other, Peer)
    assert_type(fulfil.handle("0" * 32).execution_id, str)
    assert_type(await other.send(orders, order), None)
    await other.send(mixed, None)
    await other.send(orders, "lamp")  # type: ignore[misc]
    await other.send("orders", order)  # type: ignore[arg-type]
    assert_type(await other.resolve(approval, True), None)
    await other.resolve(signal)
    await other.resolve(approval, "yes")  # type: ignore[misc]
    await other.resolve(approval)  # type: ignore[arg-type]
    assert_type(await other.interrupt(reason="late"), None)
    await other.interrupt("late")  # type: ignore[call-arg]


@workflow(idempotency_key=lambda: "tonight", time_limit=timedelta(hours=1), tags={"team": "post"})
async def tidy() -> int:
    return 1


@workflow
async def page(limit: int | None = 50) -> list[str]:
    return [str(limit)]


def key_of_order(order: Order) -> str:
    return order.id


@workflow(idempotency_key=key_of_order)
async def audit(order: Order) -> None: ...


def wrong_key(order: Order) -> int:
    return 1


workflow(idempotency_key=wrong_key)  # type: ignore[arg-type]
workflow(time_limit=60)  # type: ignore[call-overload]


@workflow
async def parent(order: Order) -> str:
    assert_type(await charge(order), Receipt)
    assert_type(await charge(order, cents=5), Receipt)
    assert_type(await pack("lamp"), int)
    assert_type(await refund(Receipt(1)), str)
    await charge("lamp")  # type: ignore[arg-type]
    await charge(order, dollars=5)  # type: ignore[call-arg]
    await pack()  # type: ignore[call-arg]
    assert_type(await urgent(order), Receipt)
    assert_type(await charge.with_options(retry=Retry(max_attempts=2))(order, 5), Receipt)
    assert_type(await pack.with_options(timeout=None)("lamp"), int)
    assert_type(pack.with_options(timeout=None).function("lamp"), int)
    await urgent("lamp")  # type: ignore[arg-type]
    pack("lamp") + 1  # type: ignore[operator]
    assert_type(await asyncio.gather(charge(order), pack("lamp")), tuple[Receipt, int])

    assert_type(await step("pack", pack.function, "lamp"), int)
    assert_type(await step("refund", Payments().refund, Receipt(1)), str)
    assert_type(await step("price", price_of, order, times=2), Receipt)
    assert_type(await step("lambda", lambda: order.id), str)
    assert_type(await step.with_options(retry=None, raises=[ValueError])("price", price_of, order), Receipt)
    assert_type(await asyncio.gather(step("a", price_of, order), step("b", len, "lamp")), tuple[Receipt, int])
    await step("price", price_of, "lamp")  # type: ignore[call-overload]
    await step("price", price_of)  # type: ignore[call-overload]
    await step(price_of, order)  # type: ignore[call-overload]
    await step("price", price_of, order, dollars=5)  # type: ignore[call-arg]
    step.with_options(timeout=5)  # type: ignore[arg-type]
    compensate(step, "undo", price_of, order)

    assert_type(await fulfil(order), Receipt)
    assert_type(await fulfil.child(order), Receipt)
    assert_type(await fulfil.start(order), str)
    assert_type(await tidy(), int)
    await fulfil("lamp")  # type: ignore[arg-type]
    await fulfil.child()  # type: ignore[call-arg]
    await tidy.start(order)  # type: ignore[call-arg]

    assert_type(await approval, bool)
    assert_type(await verdict, Order | None)
    assert_type(await asyncio.create_task(approval["legal"].wait()), bool)
    assert_type(approval.token(), str)
    assert_type(await orders.receive(), Order)
    async for one in mixed:
        assert_type(one, Order | Receipt | None)

    compensate(refund, Receipt(1))
    compensate(refund, order)  # type: ignore[arg-type]
    compensate(pack("lamp"))  # type: ignore[arg-type]

    async def last(outcome: Outcome) -> None: ...

    async def wrong_last(outcome: str) -> None: ...

    finalizer(last)
    finalizer(wrong_last)  # type: ignore[arg-type]
    assert_type(workflow.execution_id(), str)
    return "done"


def takes_any_step(step: Activity[[str], int]) -> None: ...


def takes_any_workflow(started: Workflow[[Order], Receipt]) -> None: ...


def passed_on() -> None:
    takes_any_step(pack)
    takes_any_step(charge)  # type: ignore[arg-type]
    takes_any_workflow(fulfil)
    takes_any_workflow(tidy)  # type: ignore[arg-type]


assert_type(approval.token_for(fulfil, Order(id="1")), str)


# -- the client --


async def starts(client: Client, order: Order) -> None:
    assert_type(await client.start(fulfil, order), Handle[Receipt])
    assert_type(await client.start(fulfil, order, key="7"), Handle[Receipt])
    assert_type(await client.start(tidy), Handle[int])
    assert_type(await client.start(page), Handle[list[str]])
    assert_type(await client.start(page, None), Handle[list[str]])
    assert_type(await client.start("fulfil", {"id": "1"}), Handle[Any])
    await client.start(fulfil)  # type: ignore[arg-type]
    await client.start(fulfil, "lamp")  # type: ignore[misc]
    await client.start(tidy, order)  # type: ignore[arg-type]
    await client.start(fulfil, order, "7")  # type: ignore[call-overload]
    await client.start(charge, order)  # type: ignore[call-overload]

    assert_type(await client.execute(fulfil, order), Receipt)
    assert_type(await client.execute(tidy, timeout=5), int)
    assert_type(await client.execute(fulfil, order, timeout=timedelta(seconds=5)), Receipt)
    await client.execute(fulfil, "lamp")  # type: ignore[misc]
    await client.execute(fulfil, order, timeout="5")  # type: ignore[call-overload]

    assert_type(client.handle(fulfil, "id"), Handle[Receipt])
    assert_type(client.handle(fulfil, key="7"), Handle[Receipt])
    assert_type(client.handle("fulfil", "id"), Handle[Any])
    client.handle(fulfil)  # type: ignore[call-overload]
    client.handle(fulfil, "id", key="7")  # type: ignore[call-overload]


async def speaks(client: Client, handle: Handle[Receipt]) -> None:
    assert_type(await handle.result(timeout=60), Receipt)
    assert_type(await handle.result(timedelta(minutes=1)), Receipt)
    assert_type(handle.execution_id, str)
    await handle.result(timeout="60")  # type: ignore[arg-type]

    assert_type(await handle.resolve(approval, True), Status)
    assert_type(await handle.resolve(approval["legal"], False), Status)
    assert_type(await handle.resolve(verdict, None), Status)
    assert_type(await handle.resolve(signal), Status)
    assert_type(await handle.resolve("by name", object()), Status)
    await handle.resolve(approval, "yes")  # type: ignore[misc]
    await handle.resolve(approval)  # type: ignore[arg-type]
    await handle.resolve(verdict, Receipt(1))  # type: ignore[misc]
    await handle.resolve(orders, Order(id="1"))  # type: ignore[call-overload]

    assert_type(await handle.reject(approval, Refused(why="late")), Status)
    await handle.reject(approval, ValueError("late"))  # type: ignore[arg-type]

    assert_type(await handle.send(orders, Order(id="1")), Status)
    assert_type(await handle.send(mixed, Receipt(1), key="1"), Status)
    assert_type(await handle.send(mixed, None), Status)
    await handle.send(orders, "lamp")  # type: ignore[misc]
    await handle.send(orders)  # type: ignore[call-overload]
    await handle.send(approval, True)  # type: ignore[call-overload]

    assert_type(await handle.interrupt(), Status)
    assert_type(await handle.interrupt(reason="late"), Status)
    await handle.interrupt("late")  # type: ignore[call-arg]
    await handle.interrupt(reason=5)  # type: ignore[arg-type]
    assert_type(await handle.resume(), Status)
    assert_type(await handle.terminate(), Status)
    assert_type(await handle.purge(), None)
    assert_type(await handle.wait(5), Status)

    status = await handle.status()
    assert_type(status.status, Literal["running", "complete"])
    assert_type(status.outcome, Literal["completed", "failed", "interrupted", "terminated"] | None)
    assert_type(status.is_complete, bool)
    assert_type(status.interrupt_reason, str | None)
    status.etag  # type: ignore[attr-defined]
    status.lease_expires_at  # type: ignore[attr-defined]

    await client.resolve(handle, approval, True)
    await client.resolve(handle.execution_id, approval, "yes")  # type: ignore[misc]
    await client.send(handle, mixed, Receipt(1))
    await client.send(handle, mixed, "lamp")  # type: ignore[misc]


async def is_tested(env: Environment, order: Order) -> None:
    handle = await env.start(fulfil, order)
    assert_type(handle, Handle[Receipt])
    assert_type(await env.start(tidy, key="7"), Handle[int])
    assert_type(await env.run(fulfil, order), Status)
    assert_type(await env.finish(handle), Status)
    assert_type(await env.finish(handle.execution_id), Status)
    await env.resolve(handle, approval, True)
    await env.resolve(handle, signal)
    assert_type(await env.timeline(handle), str)
    assert_type(await env.why(handle.execution_id), str)
    env.fail("charge#2", ConnectionError(), times=2)
    env.fail_activity(charge, ConnectionError())
    await env.start(fulfil, "lamp")  # type: ignore[misc]
    await env.run(tidy, order)  # type: ignore[arg-type]
    await env.resolve(handle, approval, "yes")  # type: ignore[misc]
    env.fail_activity(fulfil, ConnectionError())  # type: ignore[arg-type]


@asynccontextmanager
async def opens() -> AsyncGenerator[Payments, None]:
    yield Payments()


Runtime.from_environment([fulfil], {}, lifespan=opens)
Environment([fulfil], lifespan=opens)
Environment([fulfil], lifespan=opens())  # type: ignore[arg-type]


async def serves(runtime: Runtime) -> None:
    assert_type(runtime.client, Client)
    assert_type(await runtime.client.list(Filter(workflow="fulfil")), Page)
