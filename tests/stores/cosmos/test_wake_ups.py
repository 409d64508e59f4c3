"""A driver that the feed woke, and whose replicas lag: it never concludes that there is nothing to do.

What the feed hands over is newer than what a read of this process may show: its etag is claimed, and its `wake` and
counts say what there is to be read. The sweep is never needed here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine import Deferred, activity, workflow
from engine.store.cosmos.store import CosmosStore
from engine.store.documents import Document
from engine.testing import Environment, WatchedStore
from tests.cosmos_double import Call, CosmosDouble, StaleRead
from tests.cosmos_double.state import Container
from tests.support.gates import Gate
from tests.support.processes import ImpatientClock, Process, until

first = Deferred("cosmos.wakeups.first", str)
second = Deferred("cosmos.wakeups.second", str)
working = Gate()
LEVELS = pytest.mark.parametrize("consistency", ["Session", "Eventual"])


@workflow
async def waits_for_both() -> str:
    return await first + await second


@workflow
async def works_and_waits() -> str:
    return await work() + await first


@activity
async def work() -> str:
    await working.passed()
    return "worked "


def lag(double: CosmosDouble, behind: int, times: int | None) -> None:
    """The next answers to reads come from replicas that are so many commits behind."""
    for kind in ("item", "query"):
        double.faults.add(StaleRead(behind=behind), kind=kind, times=times, when=lambda r: r.operation in READS)


READS = ("read", "query")


def fed(container: Container) -> list[Document]:
    """The exec document as the feed hands it over at this moment."""
    return [dict(document) for document in container.documents() if document["id"] == "exec"]


@LEVELS
@pytest.mark.parametrize("behind", [1, 2, 100])
@pytest.mark.parametrize("reads", [1, 4])
async def test_news_that_only_the_feed_has_seen(
    store: CosmosStore,
    new_store: Callable[..., CosmosStore],
    double: CosmosDouble,
    container: Container,
    behind: int,
    reads: int,
) -> None:
    """The value was sent by another process; ours, whose session knows nothing of it, reads what was before it."""
    async with Environment([waits_for_both], store=store) as env:
        env.clock = ImpatientClock()
        outside = Process(env, store=WatchedStore(new_store()))
        driver = Process(env)
        id = await env.start(waits_for_both)
        await driver.worker.drive_changes(fed(container))
        await outside.client.resolve(id, first, "a")
        await outside.client.resolve(id, second, "b")
        lag(double, behind, reads)
        await driver.worker.drive_changes(fed(container))
        double.faults.clear()
        assert (await env.status(id)).value() == "ab"


@LEVELS
@pytest.mark.parametrize("reads", [1, 2, 4])
async def test_an_event_that_is_old_itself_costs_a_conflict_and_the_next_one_is_driven(
    store: CosmosStore,
    new_store: Callable[..., CosmosStore],
    double: CosmosDouble,
    container: Container,
    reads: int,
) -> None:
    """Between the event and the claim there is more news. Whatever ours reads after its conflict, the newer version
    makes an event of its own."""
    async with Environment([waits_for_both], store=store) as env:
        env.clock = ImpatientClock()
        outside = Process(env, store=WatchedStore(new_store()))
        driver = Process(env)
        id = await env.start(waits_for_both)
        await driver.worker.drive_changes(fed(container))
        await outside.client.resolve(id, first, "a")
        old = fed(container)
        await outside.client.resolve(id, second, "b")
        lag(double, 1, reads)
        await driver.worker.drive_changes(old)
        await driver.worker.drive_changes(fed(container))
        double.faults.clear()
        assert (await env.status(id)).value() == "ab"


@LEVELS
@pytest.mark.parametrize("reads", [1, 3])
async def test_news_for_a_drive_that_is_under_way(
    store: CosmosStore,
    new_store: Callable[..., CosmosStore],
    double: CosmosDouble,
    container: Container,
    reads: int,
) -> None:
    """It reads until it sees the version that the feed told it of."""
    working.close()
    async with Environment([works_and_waits], store=store) as env:
        env.clock = ImpatientClock()
        outside = Process(env, store=WatchedStore(new_store()))
        driver = Process(env)
        id = (await env.start(works_and_waits)).execution_id
        driving = await driver.drive(id)
        await until(lambda: driver.worker.running(id) is not None)
        await outside.client.resolve(id, first, "a")
        lag(double, 1, reads)
        await driver.worker.drive_changes(fed(container))
        working.open()
        await driving
        double.faults.clear()
        assert (await env.status(id)).value() == "worked a"


@LEVELS
async def test_news_that_comes_as_a_drive_lets_go(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble, container: Container
) -> None:
    """The suspension has landed, its answer is under way; the feed already has what came after it."""
    async with Environment([waits_for_both], store=store) as env:
        env.clock = ImpatientClock()
        outside = Process(env, store=WatchedStore(new_store()))
        driver = Process(env)
        id = (await env.start(waits_for_both)).execution_id
        gate = Gate()
        double.faults.add(Call(gate, after_effect=True), kind="item", operation="replace", nth=2)
        driving = await driver.drive(id)
        await gate.reached.wait()
        await outside.client.resolve(id, first, "a")
        await outside.client.resolve(id, second, "b")
        lag(double, 2, 1)
        await driver.worker.drive_changes(fed(container))
        gate.open()
        await driving
        double.faults.clear()
        assert (await env.status(id)).value() == "ab"
