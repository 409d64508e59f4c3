"""The engine on CosmosStore: how many requests a workflow takes, and what single faults of requests do to it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from engine import Deferred, Status, Workflow, activity, workflow
from engine.ground.errors import NotEnded
from engine.store.base import Filter
from engine.store.cosmos.store import CosmosStore
from engine.testing import Environment
from tests.cosmos_double import Answer, Call, CosmosDouble, Drop, StaleRead
from tests.cosmos_double.faults import Action
from tests.cosmos_double.state import Container

approval = Deferred("cosmos.approval", str)
ran: list[str] = []


@activity
async def step(name: str) -> str:
    ran.append(name)
    return name


@workflow
async def sequence(count: int) -> int:
    for n in range(count):
        await step(f"step {n}")
    return count


@workflow
async def fan_out(count: int) -> int:
    return len(await asyncio.gather(*(step(f"step {n}") for n in range(count))))


@workflow
async def of_everything(name: str) -> list[str]:
    first = await step(name)
    both = await asyncio.gather(step("left"), step("right"))
    await asyncio.sleep(3600)
    said = await approval
    return [first, *both, said, await step("last")]


@workflow
async def cleans_up() -> None:
    await step("first")
    try:
        await approval
    finally:
        await step("clean")


@workflow
async def starts_children(count: int) -> list[int]:
    return list(await asyncio.gather(*(sequence(n) for n in range(1, count + 1))))


def sent(double: CosmosDouble) -> list[str]:
    """The requests about documents since the last look."""
    kinds = [e.operation if e.kind == "item" else e.kind for e in double.log]
    paths = {"account", "container", "pkranges", "database"}
    found = [what for what, e in zip(kinds, double.log, strict=True) if e.kind not in paths]
    double.log.clear()
    return found


async def start_and_drive(env: Environment, container: Container, workflow: Workflow[Any, Any], payload: Any) -> str:
    """As the change feed does it: with the document that the start wrote, without a read."""
    id = (await env.start(workflow, payload)).execution_id
    await env.worker.drive_changes([document for document in container.documents(id) if document["id"] == "exec"])
    return id


@pytest.mark.parametrize("count", [1, 2, 5, 20])
async def test_a_sequence_takes_two_requests_more_than_it_has_steps(
    store: CosmosStore, double: CosmosDouble, container: Container, count: int
) -> None:
    async with Environment([sequence], store=store) as env:
        id = await start_and_drive(env, container, sequence, count)
        assert sent(double) == ["create", "replace", *["create"] * (count - 1), "replace"]
        assert (await env.status(id)).value() == count


@pytest.mark.parametrize("count", [1, 2, 5, 20])
async def test_a_start_that_is_driven_where_it_is_made_takes_one_request_less(
    store: CosmosStore, double: CosmosDouble, container: Container, count: int
) -> None:
    """It is created as claimed. Who waits for the end reads it once, and needs no look before."""
    async with Environment([sequence], store=store) as env:
        assert await env.client.execute(sequence, count) == count
        claim = 11.3
        cost, entries = sum(entry.charge for entry in double.log.select(kind="item")), sent(double)
        assert entries == [*["create"] * count, "replace", "read"]
        id = await start_and_drive(env, container, sequence, count)
        cost_by_the_feed = sum(entry.charge for entry in double.log.select(kind="item"))
        assert cost == pytest.approx(cost_by_the_feed - claim + 1, abs=1), "a read of 1 RU in place of the claim"
        assert (await env.status(id)).value() == count


async def test_a_fan_out_records_together_what_ends_together(
    store: CosmosStore, double: CosmosDouble, container: Container
) -> None:
    async with Environment([fan_out], store=store) as env:
        id = await start_and_drive(env, container, fan_out, 50)
        requests = sent(double)
        assert requests[:2] == ["create", "replace"]
        assert requests[-1] == "batch"
        assert len(requests) <= 5
        assert (await env.status(id)).value() == 50


async def test_waiting_takes_a_read_of_the_partition_per_wake_up(
    store: CosmosStore, double: CosmosDouble, container: Container
) -> None:
    async with Environment([of_everything], store=store) as env:
        id = await start_and_drive(env, container, of_everything, "a")
        assert sent(double) == ["create", "replace", "create", "batch"]
        env.clock.advance(timedelta(hours=2))
        await env.worker.drive(await store.read(id))
        assert sent(double) == ["read", "replace", "query", "batch"]
        await env.resolve(id, approval, "yes")
        assert sent(double) == ["batch"]
        await env.worker.drive(await store.read(id))
        assert sent(double) == ["read", "replace", "query", "create", "replace"]
        assert (await env.status(id)).value() == ["a", "left", "right", "yes", "last"]


async def test_a_start_on_its_way_a_second_time_starts_nothing_again(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble
) -> None:
    """Its answer was lost. Before it is sent again, the execution ends, and somebody wants it purged: not yet."""
    ran.clear()
    refused: list[str] = []

    async def meanwhile() -> None:
        async with Environment([sequence], store=new_store()) as elsewhere:
            elsewhere.clock = env.clock
            elsewhere.worker = elsewhere.new_worker()
            (running,) = (await elsewhere.client.list(Filter())).executions
            ended = await elsewhere.drive(running.execution_id)
            assert ended.is_complete
            env.clock.advance(store.resend_window)
            with pytest.raises(NotEnded, match="may still arrive a second time"):
                await elsewhere.client.purge(running.execution_id)
            refused.append(running.execution_id)

    double.faults.add(Drop(after_effect=True), operation="create")
    double.faults.add(Call(lambda _: meanwhile()), operation="create", nth=2)
    async with Environment([sequence], store=store) as env:
        status = await env.client.start(sequence, 1)
        assert refused == [status.execution_id]
        assert (await env.finish(refused[0])).value() == 1
        assert ran == ["step 0"]
        env.clock.advance(env.settings.skew)
        await env.client.purge(refused[0])
        assert double.faults.unfired() == []


@pytest.mark.parametrize("what", ["value", "interrupt"])
async def test_a_request_on_its_way_a_second_time_reaches_no_run_that_follows(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble, what: str
) -> None:
    """Its answer was lost. Before it is sent again, the execution ends: it can't be purged and started anew yet."""

    async def meanwhile() -> None:
        async with Environment([cleans_up], store=new_store()) as elsewhere:
            elsewhere.clock = env.clock
            elsewhere.worker = elsewhere.new_worker()
            assert (await elsewhere.drive(id)).is_complete
            env.clock.advance(store.resend_window)
            with pytest.raises(NotEnded, match="may still arrive a second time"):
                await elsewhere.client.purge(id)

    async with Environment([cleans_up], store=store) as env:
        id = (await env.start(cleans_up)).execution_id
        await env.drive(id)
        env.clock.advance(timedelta(hours=1))
        kind = "batch" if what == "value" else "item"
        method = "PATCH" if what == "interrupt" else None
        double.faults.add(Drop(after_effect=True), kind=kind, method=method)
        double.faults.add(Call(lambda _: meanwhile()), kind=kind, method=method, nth=2)
        if what == "value":
            await env.resolve(id, approval, "yes")
        else:
            await env.client.interrupt(id)
        assert double.faults.unfired() == []
        env.clock.advance(env.settings.skew)
        await env.client.purge(id)


Scenario = Callable[[Environment], Awaitable[Status]]


async def runs_through(env: Environment) -> Status:
    id = await env.start(of_everything, "a")
    await env.finish(id)
    await env.resolve(id, approval, "yes")
    return await env.finish(id)


async def is_interrupted(env: Environment) -> Status:
    id = await env.start(cleans_up)
    await env.finish(id)
    await env.client.interrupt(id)
    return await env.finish(id)


async def has_children(env: Environment) -> Status:
    return await env.run(starts_children, 2)


WORKFLOWS: list[Workflow[Any, Any]] = [of_everything, cleans_up, starts_children, sequence]
MOST = 60
"""Writes of the longest scenario, at most: the loop over them ends by itself before."""


@pytest.mark.parametrize(
    "fault",
    [
        lambda: Drop(),
        lambda: Drop(after_effect=True),
        lambda: Answer(408, after_effect=True),
        lambda: Answer(429, retry_after_ms=10),
        lambda: Answer(449),
    ],
    ids=["lost request", "lost answer", "408 with the effect", "429", "449"],
)
@pytest.mark.parametrize("scenario", [runs_through, is_interrupted, has_children])
async def test_a_fault_of_any_one_write_changes_nothing(
    new_store: Callable[..., CosmosStore],
    double: CosmosDouble,
    container: Container,
    scenario: Scenario,
    fault: Callable[[], Action],
) -> None:
    """The store gets over it: the engine sees nothing, so no step runs twice."""
    outcomes = set()
    for nth in itertools.count(1):
        assert nth < MOST
        ran.clear()
        container.ranges["0"].documents.clear()
        rule = double.faults.add(fault(), when=lambda request: request.kind in ("item", "batch"), nth=nth)
        async with Environment(WORKFLOWS, store=new_store()) as env:
            status = await scenario(env)
        double.faults.clear()
        outcomes.add((status.outcome, status.result, tuple(sorted(ran))))
        assert len(outcomes) == 1, f"request {nth}"
        if not rule.fired:
            break
    (outcome, _, steps), *_ = outcomes
    assert outcome == ("interrupted" if scenario is is_interrupted else "completed")
    assert len(steps) == len(set(steps)) or scenario is has_children


@pytest.mark.parametrize("scenario", [runs_through, is_interrupted, has_children])
async def test_replicas_that_lag_change_nothing(
    store: CosmosStore, double: CosmosDouble, container: Container, scenario: Scenario
) -> None:
    """Each replica is far behind, but for what the store's sessions ask of it."""
    for kind in ("item", "query"):
        double.faults.add(StaleRead(behind=1_000), kind=kind, times=None, when=lambda r: r.partition_key is not None)
    ran.clear()
    async with Environment(WORKFLOWS, store=store) as env:
        status = await scenario(env)
    assert status.is_complete
    assert len(ran) == len(set(ran)) or scenario is has_children
