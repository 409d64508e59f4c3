"""What the simulation found and no single seed keeps: each interleaving, forced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from engine import Deferred, UnknownExecution, activity, workflow
from engine.ground.errors import Missing
from engine.store import transitions
from engine.store.cosmos.items import Operation
from engine.store.cosmos.resend import Resend
from engine.testing import Call, Environment, ManualClock
from tests.stores.contract.executions import NOW, completed, execution
from tests.support.processes import until
from tests.verification.simulation.container import Container
from tests.verification.simulation.store import SimStore

T = TypeVar("T")


@activity
async def quick() -> None:
    pass


@workflow
async def sleeper() -> None:
    await asyncio.sleep(86_400)


@workflow
async def hasty() -> None:
    """It ends while a child and a timer of its own are under way."""
    child, timer = asyncio.create_task(sleeper()), asyncio.create_task(asyncio.sleep(1))
    await asyncio.sleep(0)
    await quick()
    del child, timer


class CountingClock(ManualClock):
    """Counts who waits."""

    waits = 0

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        self.waits += 1
        await super().wait(event, seconds)


async def test_a_driver_that_waits_for_a_child_to_be_told_does_not_spin_on_a_dead_timer() -> None:
    """The workflow has ended, so nobody listens to its timer; that it is due must not keep the driver busy."""
    clock, told = CountingClock(), asyncio.Event()
    async with Environment([hasty, sleeper]) as env:
        env.clock = clock
        env.worker = env.new_worker()
        reached = asyncio.Event()

        async def hold(call: Call) -> None:
            if call.method == "interrupt":
                reached.set()
                await told.wait()

        env.store.before = hold
        id = (await env.start(hasty)).execution_id
        driving = env.worker.start(await env.store.inner.read(id))
        await until(reached.is_set)
        clock.advance(timedelta(seconds=2))
        before = clock.waits
        for _ in range(200):
            await asyncio.sleep(0)
        assert clock.waits <= before + 2
        told.set()
        await driving
        assert (await env.status(id)).outcome == "completed"


signature = Deferred("simulation.signature", str)


@workflow(suspend_on_failure=True)
async def stuck() -> str:
    await signature
    await failing()
    return ""


@activity
async def failing() -> None:
    raise ConnectionError


Deed = Callable[[Environment, str], Awaitable[Any]]

DEEDS: dict[str, tuple[str, Deed]] = {
    "purge": ("purge", lambda env, id: env.client.purge(id)),
    "terminate": ("replace", lambda env, id: env.client.terminate(id)),
    "resume": ("replace", lambda env, id: env.client.resume(id)),
    "complete": ("read_inbox", lambda env, id: env.client.resolve(id, signature, "Ada")),
}
"""What the outside asks, and the call of the store before which the execution is purged by someone else."""


async def vanish(env: Environment, id: str) -> None:
    """Someone else ends the execution and purges it."""
    found = await env.store.inner.read(id)
    if not found.is_complete:
        found = await env.store.inner.replace(transitions.terminate(env.clock.now()).apply(found))
    await env.store.inner.purge(found)


def before_first(
    env: Environment, method: str, deed: Callable[[], Awaitable[None]]
) -> Callable[[Call], Awaitable[None]]:
    """A hook that does something before the next call of that method."""
    seen = env.store.count(method)

    async def hook(call: Call) -> None:
        if call.method == method and call.of_method == seen:
            await deed()

    return hook


@pytest.mark.parametrize("name", DEEDS)
async def test_what_is_purged_in_the_middle_of_a_request_is_unknown(name: str) -> None:
    """The outside is told so, and not that the store has a problem."""
    method, deed = DEEDS[name]
    async with Environment([stuck]) as env:
        id = (await env.start(stuck)).execution_id
        await env.resolve(id, signature, "Ada")
        assert (await env.drive(id)).suspended
        if name == "purge":
            await env.client.terminate(id)
        env.store.before = before_first(env, method, lambda: vanish(env, id))
        with pytest.raises(UnknownExecution):
            await deed(env, id)


async def test_a_start_finds_room_where_an_execution_was_purged_a_moment_ago() -> None:
    async with Environment([stuck]) as env:
        id = (await env.start(stuck, key="one")).execution_id
        env.clock.advance(timedelta(seconds=1))
        env.store.before = before_first(env, "read", lambda: vanish(env, id))
        fresh = await env.store.read((await env.client.start(stuck, key="one")).execution_id)
        assert (fresh.execution_id, fresh.created_at) == (id, env.clock.now())


class Meddling:
    """A network on which an execution is purged and started again around the look at what refused a write."""

    def __init__(self, container: Container, id: str) -> None:
        self.retry = Resend()
        self._container = container
        self._id = id

    async def send(self, operation: str, key: str, effect: Callable[[], T]) -> T:
        if operation != "read back":
            return effect()
        self._container.transact(self._id, [Operation.delete("exec")])
        found = effect()
        self._container.put(execution(self._id).to_document())
        return found

    def lag(self) -> float:
        return 0.0

    def forgets(self) -> bool:
        return False

    def cuts(self, ids: object) -> list[str]:
        return []


async def test_an_interrupt_does_not_answer_with_the_run_that_follows_a_purge() -> None:
    """Whoever interrupts an execution that has ended, and is purged and started again meanwhile, would be told of a
    running one that isn't interrupted: neither accepted nor too late."""
    container = Container(lambda: 0.0)
    new = execution()
    store = SimStore(container, Meddling(container, new.execution_id))
    await store.replace(completed(await store.create(new)))
    with pytest.raises(Missing):
        await store.interrupt(new.execution_id, NOW)
