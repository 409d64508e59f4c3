"""What is too large for a document or a transaction of Cosmos DB, on the engine's way there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine import ActivityError, Deferred, Failure, TooLarge, Workflow, activity, workflow
from engine.store.cosmos.schema import MAX_BATCH_BYTES, MAX_BATCH_OPERATIONS, MAX_DOCUMENT_BYTES
from engine.store.cosmos.store import CosmosStore
from engine.testing import Environment
from tests.cosmos_double import Call, CosmosDouble, Request

ran: list[int] = []
answer = Deferred("cosmos.sizes.answer", str)


@activity
async def text_of(size: int) -> str:
    ran.append(size)
    return "é" * size


@workflow
async def gathers(sizes: list[int]) -> list[int]:
    return [len(text) for text in await asyncio.gather(*(text_of(size) for size in sizes))]


@workflow
async def gathers_all(sizes: list[int]) -> list[str]:
    results = await asyncio.gather(*(text_of(size) for size in sizes), return_exceptions=True)
    return [f"{r.type_name}: {r.message}" if isinstance(r, ActivityError) else str(len(r)) for r in results]  # type: ignore[arg-type]


@workflow
async def returns(size: int) -> str:
    return "é" * size


@workflow
async def waits() -> str:
    return await answer


class Told(Failure):
    text: str


@activity
async def fails(number: int) -> str:
    raise Told(text="語" * 60_000)


@workflow
async def gathers_failures(count: int) -> int:
    failures = await asyncio.gather(*(fails(number) for number in range(count)), return_exceptions=True)
    return sum(len(failure.text) for failure in failures if isinstance(failure, Told))


WORKFLOWS: list[Workflow[Any, Any]] = [gathers, gathers_all, gathers_failures, returns, waits]


def check_sizes(double: CosmosDouble) -> list[Request]:
    """See to it that nothing above a limit is sent. Returns the writes, as they come."""
    writes: list[Request] = []

    def check(request: Request) -> None:
        writes.append(request)
        assert len(request.raw) <= (MAX_BATCH_BYTES if request.kind == "batch" else MAX_DOCUMENT_BYTES) + 20_000
        assert request.kind != "batch" or len(request.body) <= MAX_BATCH_OPERATIONS

    double.faults.add(Call(check), when=lambda r: r.kind == "batch" or r.operation in ("create", "replace"), times=None)
    return writes


@pytest.mark.parametrize(
    "sizes", [[800_000, 800_000], [400_000] * 6, [1_000] * 250, [10, 890_000, 10, 890_000, 10]], ids=len
)
async def test_what_ends_together_is_split_into_chunks_that_fit(
    store: CosmosStore, double: CosmosDouble, sizes: list[int]
) -> None:
    ran.clear()
    writes = check_sizes(double)
    async with Environment(WORKFLOWS, store=store) as env:
        id = (await env.start(gathers, sizes)).execution_id
        assert (await env.finish(id)).value() == sizes
        numbers = [chunk.number for chunk in (await store.load(id)).chunks]
        assert numbers == list(range(len(numbers)))
    assert sorted(ran) == sorted(sizes)
    assert double.log.count(status=413) == 0
    assert len(writes) >= 3


async def test_a_step_that_can_not_fit_is_named_and_nothing_beside_it_is_lost(
    store: CosmosStore, double: CosmosDouble
) -> None:
    ran.clear()
    check_sizes(double)
    async with Environment(WORKFLOWS, store=store) as env:
        first, second, third = (await env.run(gathers_all, [700_000, 1_000_000, 5])).value()
        assert (first, third) == ("700000", "5")
        assert second.startswith("TooLarge: the result of ")
        assert "text_of" in second
        assert "2,000,006 bytes" in second
    assert sorted(ran) == [5, 700_000, 1_000_000]


async def test_a_result_that_can_not_fit_fails_the_workflow_by_name(store: CosmosStore, double: CosmosDouble) -> None:
    check_sizes(double)
    async with Environment(WORKFLOWS, store=store) as env:
        assert len((await env.run(returns, 850_000)).value()) == 850_000
        status = await env.run(returns, 1_000_000)
        assert status.error is not None
        assert status.error.type == "TooLarge"
        assert "returns" in status.error.message
        assert "2,000,006 bytes" in status.error.message


async def test_what_comes_from_outside_and_can_not_fit_is_refused_before_anything_is_sent(
    store: CosmosStore, double: CosmosDouble
) -> None:
    async with Environment(WORKFLOWS, store=store) as env:
        id = await env.start(waits)
        await env.settle()
        writes = check_sizes(double)
        with pytest.raises(TooLarge, match="2,000,006 bytes"):
            await env.resolve(id, answer, "é" * 1_000_000)
        with pytest.raises(TooLarge, match="bytes"):
            await env.start(gathers, [1] * 1_000_000)
        assert writes == []
        await env.resolve(id, answer, "é" * 890_000)
        assert len((await env.finish(id)).value()) == 890_000


async def test_failures_that_come_together_are_split_by_their_bytes(store: CosmosStore, double: CosmosDouble) -> None:
    """In letters they would fit into one chunk."""
    check_sizes(double)
    async with Environment(WORKFLOWS, store=store) as env:
        assert (await env.run(gathers_failures, 12)).value() == 12 * 60_000
