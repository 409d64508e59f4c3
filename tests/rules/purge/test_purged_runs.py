"""An execution is terminated, purged and started again under its id, while a driver of the run before still writes."""

from __future__ import annotations

import contextvars
from dataclasses import replace
from datetime import timedelta

import pytest

from engine import Deferred, Workflow, activity, workflow
from engine.store.base import Filter, Loaded
from engine.store.documents import Chunk, InboxItem, of_run
from engine.testing import Environment, export, replay
from tests.support.gates import Gate, nth
from tests.support.processes import PAST_LEASE, Process

RUN = contextvars.ContextVar("RUN", default="")
"""Which run's driver an activity works for."""
STEPS = 5
purged_answer = Deferred("purged.answer", str)


@activity
async def purged_step(number: int) -> str:
    return f"{RUN.get()} {number}"


@workflow(idempotency_key=lambda: "one")
async def purged_steps() -> list[str]:
    return [await purged_step(number) for number in range(STEPS)]


@workflow
async def purged_ships(item: str) -> str:
    return f"{item} {await purged_answer}"


@workflow(idempotency_key=lambda item: item)
async def purged_ships_keyed(item: str) -> str:
    return f"{item} {await purged_answer}"


@workflow(idempotency_key=lambda item: "order")
async def purged_order(item: str) -> str:
    return await purged_ships(item)


@workflow(idempotency_key=lambda item: "order")
async def purged_order_keyed(item: str) -> str:
    return await purged_ships_keyed(item)


ORDERS = [purged_ships, purged_ships_keyed, purged_order, purged_order_keyed]


async def answer_children(env: Environment, item: str) -> None:
    """Every shipment of that item is sent; its parents hear of it."""
    for child in (await env.store.inner.list(Filter(status="running"), 10)).executions:
        if child.workflow.startswith("purged_ships") and child.payload == f'"{item}"':
            await env.resolve(child.execution_id, purged_answer, "sent")
    await env.settle()


@pytest.mark.parametrize("order", [purged_order, purged_order_keyed], ids=lambda w: w.name)
async def test_a_fresh_run_has_children_of_its_own(order: Workflow[[str], str]) -> None:
    """Without a key a child belongs to the run of its parent: it isn't the one that an earlier run had in that step."""
    async with Environment(ORDERS) as env:
        id = (await env.start(order, "apples")).execution_id
        await env.settle()
        await answer_children(env, "apples")
        assert (await env.status(id)).value() == "apples sent"
        await env.client.purge(id)
        assert (await env.start(order, "pears")).execution_id == id
        await env.settle()
        await answer_children(env, "pears")
        assert (await env.status(id)).value() == "pears sent"


@pytest.mark.parametrize("first", ["apples", "pears"])
@pytest.mark.parametrize("order", [purged_order, purged_order_keyed], ids=lambda w: w.name)
async def test_a_child_of_a_purged_run_is_no_answer_to_the_next(order: Workflow[[str], str], first: str) -> None:
    """It ends before or after the fresh run's own child, in the same step."""
    async with Environment(ORDERS) as env:
        id = await env.start(order, "apples")
        await env.settle()
        await env.client.terminate(id)
        await env.client.purge(id)
        await env.start(order, "pears")
        await env.settle()
        for item in (first, {"apples": "pears", "pears": "apples"}[first]):
            await answer_children(env, item)
        assert (await env.status(id)).value() == "pears sent"


@pytest.mark.parametrize("again_at", [None, 0, 1, 2])
@pytest.mark.parametrize("late_at", [0, 1, 3])
async def test_a_late_chunk_of_a_purged_run_is_no_part_of_the_next(late_at: int, again_at: int | None) -> None:
    """The late driver's chunks arrive before the fresh run begins (None), or as it is about to write its first, second
    or third. They are never replayed, and the fresh run ends with what its own steps brought."""
    async with Environment([purged_steps]) as env:
        id = (await env.start(purged_steps)).execution_id
        old, fresh = Process(env), Process(env)
        old.store.before = late = Gate(nth("append", late_at))
        RUN.set("old")
        late_driving = await old.drive(id)
        await late.reached.wait()
        await env.client.terminate(id)
        await env.client.purge(id)

        async def arrive() -> None:
            late.open()
            await late_driving
            assert old.store.count("append") > late_at

        RUN.set("fresh")
        if again_at is None:
            await arrive()
            assert (await env.start(purged_steps)).execution_id == id
        else:
            fresh.store.before = writing = Gate(nth("append", again_at))
            assert (await env.start(purged_steps)).execution_id == id
            driving = await fresh.drive(id)
            await writing.reached.wait()
            await arrive()
            writing.open()
            await driving
        for _ in range(3 * STEPS):
            await env.worker.sweep()
            env.clock.advance(PAST_LEASE)
        status = await env.status(id)
        assert status.value() == [f"fresh {number}" for number in range(STEPS)]
        assert replay(await export(env.store.inner, id), [purged_steps]).outcome
        await env.client.purge(id)
        assert (await env.store.inner.load(id)).chunks == []


def chunk(number: int, run: str | None) -> Chunk:
    return Chunk(id=f"history::{number:08d}", execution_id="0" * 32, events=[{"kind": "x"}], run_id=run)


@pytest.mark.parametrize(
    ("stored", "start", "read"),
    [
        ([(0, "a"), (1, "a")], 0, "0a 1a"),
        ([(0, "b"), (1, "a")], 0, "0- 1a"),
        ([(0, "a"), (1, "b"), (2, "b")], 0, "0a 1- 2-"),
        ([(0, "a"), (2, "b")], 0, "0a"),
        ([(0, "a"), (2, "b"), (3, "a")], 0, "0a 3a"),
        ([(5, "a"), (6, "b")], 5, "5a 6-"),
        ([(0, None), (1, "a")], 0, "0None 1a"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_of_a_partition_is_a_runs_history(stored: list[tuple[int, str | None]], start: int, read: str) -> None:
    """One that names another run takes up its number, or is left out behind the end; a gap stays one, to be read
    again. A version before runs had names wrote none."""
    history = of_run([chunk(*one) for one in stored], "a", start)
    assert " ".join(f"{one.number}{one.run_id if one.events else '-'}" for one in history) == read


@workflow(idempotency_key=lambda: "one")
async def purged_waits() -> str:
    return await purged_answer


@pytest.mark.parametrize("read_twice", [False, True])
async def test_a_value_that_was_sent_to_a_purged_run_is_not_read_by_the_next(read_twice: bool) -> None:
    """The driver looks again at an item that is older than its execution. Two old reads in a row are a limit, which the
    guide names."""
    async with Environment([purged_waits]) as env:
        handle = await env.start(purged_waits)
        await env.drive(handle)
        await env.resolve(handle, purged_answer, "old")
        (old,) = (await env.store.inner.load(handle.execution_id)).inbox
        await env.finish(handle)
        env.clock.advance(timedelta(minutes=2))
        await handle.purge()
        await env.start(purged_waits)
        await env.drive(handle)
        await env.resolve(handle, purged_answer, "fresh")
        inner, load, read, lags = env.store.inner, env.store.inner.load, env.store.inner.read_inbox, iter([True])

        async def lagging(execution_id: str, from_chunk: int = 0) -> Loaded:
            loaded = await load(execution_id, from_chunk)
            return replace(loaded, inbox=[old]) if next(lags, False) else loaded

        async def read_again(execution_id: str, id: str) -> InboxItem:
            return old if read_twice else await read(execution_id, id)

        inner.load, inner.read_inbox = lagging, read_again  # type: ignore[method-assign]
        assert (await env.drive(handle)).value() == ("old" if read_twice else "fresh")
        assert next(lags, None) is None
