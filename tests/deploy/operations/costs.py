"""What executions ask of Cosmos DB, counted: requests, request units by the double's model, and bytes that stay."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from engine import Handle, activity, workflow
from engine.ground.names import execution_id
from engine.ground.settings import Settings
from engine.store.base import Filter
from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.store import CosmosStore
from engine.testing import Environment
from engine.testing.environment import TEST_SETTINGS
from tests.cosmos_double import CosmosDouble
from tests.stores.cosmos.support import set_up
from tests.support import documents
from workflows.orders import Approval, Item, Order, approval, fulfil

Story = Callable[[Environment], Awaitable[None]]
NEVER = 1e12
PAGE = 100
SETTINGS = replace(TEST_SETTINGS, retention=Settings.retention)
ORDER = Order(
    id="order-1",
    customer="Ada",
    amount=Decimal("120.50"),
    items=[Item(sku="lamp", quantity=1), Item(sku="chair", quantity=4)],
)


@dataclass(frozen=True)
class Cost:
    """What a story cost."""

    requests: int
    units: float
    bytes: int


@activity(name="costs_step")
async def step(text: str) -> str:
    """A step that brings something."""
    return text


@workflow(name="costs_one")
async def one(text: str) -> str:
    """One step."""
    return await step(text)


@workflow(name="costs_ten")
async def ten(text: str) -> str:
    """Ten steps, one after the other."""
    for _ in range(10):
        text = await step(text)
    return text


@workflow(name="costs_five")
async def five(text: str) -> str:
    """Five steps, one after the other."""
    for _ in range(5):
        text = await step(text)
    return text


@workflow(name="costs_five_at_once")
async def five_at_once(text: str) -> list[str]:
    """Five steps at once."""
    return await asyncio.gather(*(step(text) for _ in range(5)))


async def _driven(env: Environment, handle: Handle[Any]) -> None:
    """Drive as the feed does, which brings the document along: reading the document isn't counted."""
    usage = env.store.inner.usage  # type: ignore[attr-defined]
    counted = copy.deepcopy(usage.operations)
    execution = await env.store.inner.read(handle.execution_id)
    usage.operations = counted
    await env.worker.drive(execution)


async def one_step(env: Environment) -> None:
    """Start to end."""
    await _driven(env, await env.client.start(one, "x"))


async def ten_steps(env: Environment) -> None:
    """Start to end."""
    await _driven(env, await env.client.start(ten, "x"))


async def order(env: Environment) -> None:
    """Charged and reserved, approved by a person, shipped in two parcels."""
    handle = await env.client.start(fulfil, ORDER)
    await _driven(env, handle)
    decision = Approval(approved=True, by="Grace")
    await handle.resolve(approval, decision)
    await _driven(env, handle)


async def expired_order(env: Environment) -> None:
    """Nobody approves it: a sweep finds that its day is over, and the money goes back."""
    await _driven(env, await env.client.start(fulfil, ORDER))
    env.clock.advance(timedelta(days=1, seconds=1))
    await env.worker.sweep()


async def refused_start(env: Environment) -> None:
    """An order that has been started before."""
    await env.client.start(fulfil, ORDER)


async def poll(env: Environment) -> None:
    """How it stands."""
    await env.client.status(execution_id("fulfil", ORDER.id))


async def heartbeat(env: Environment) -> None:
    """A claim that is extended."""
    execution = await env.store.inner.read(execution_id("fulfil", ORDER.id))
    env.store.inner.usage.clear()  # type: ignore[attr-defined]
    await env.store.replace(documents.extended(execution, env.clock.now(), lease=env.settings.lease))


async def retention_ends(env: Environment) -> None:
    """What was kept for as long as it should be is deleted by a sweep."""
    env.clock.advance(env.settings.retention)
    assert await env.worker.sweep() == 1


async def five_steps(env: Environment) -> None:
    """Start to end."""
    await _driven(env, await env.client.start(five, "x"))


async def five_steps_at_once(env: Environment) -> None:
    """Start to end."""
    await _driven(env, await env.client.start(five_at_once, "x"))


async def deletion(env: Environment) -> None:
    """The one execution that there is, read before."""
    usage = env.store.inner.usage  # type: ignore[attr-defined]
    (execution,) = (await env.store.list(Filter(), 1)).executions
    usage.clear()
    await env.store.purge(execution)


async def sweep(env: Environment) -> None:
    """Nothing is due."""
    await env.worker.sweep()


class FedOrders:
    """So many orders at once, brought to their end by the change feed alone, with a checkpoint after each page."""

    def __init__(self, orders: int) -> None:
        self.orders = orders

    async def begin(self, env: Environment) -> None:
        """Take the feed's one range, and find it empty."""
        self._feed = env.store.inner.change_feed()
        (lease,) = await self._feed.leases()
        self._lease = await self._feed.renew(lease, "me", NEVER, None)
        await self._feed.read(lease.range, None, PAGE)

    async def run(self, env: Environment) -> None:
        """The orders, from start to end."""
        orders = [ORDER.model_copy(update={"id": f"order-{number}"}) for number in range(self.orders)]
        ids = [(await env.client.start(fulfil, each)).execution_id for each in orders]
        await self._read(env)
        for id in ids:
            await env.client.resolve(id, approval, Approval(approved=True, by="Grace"))
        await self._read(env)

    async def _read(self, env: Environment) -> None:
        while True:
            documents, behind = await self._feed.read(self._lease.range, self._lease.continuation, PAGE)
            if not documents:
                return
            await env.worker.drive_changes(documents)
            self._lease = await self._feed.renew(self._lease, "me", NEVER, behind)


async def count(story: Story, before: Story | None = None) -> Cost:
    """Tell a story in a container of its own, after another one that isn't counted, and add up."""
    async with CosmosDouble() as double:
        container = set_up(double)
        store = CosmosStore(CosmosAccount(double.endpoint, double.key))
        async with Environment([fulfil, one, ten, five, five_at_once], store, SETTINGS) as env:
            await sweep(env)  # the first request of a process asks for more
            if before is not None:
                await before(env)
            store.usage.clear()
            await story(env)
            size = sum(len(json.dumps(document)) for document in container.documents())
            return Cost(store.usage.requests, round(store.usage.request_units), size)
