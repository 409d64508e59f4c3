"""What crosses between parents and children: large, absent and wrong values, and many at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine import Workflow, workflow
from engine.store.base import Loaded
from engine.testing import Environment
from tests.support.mortal import assert_replays, executions
from tests.support.processes import ImpatientClock


@workflow
async def big(size: int) -> str:
    return "é" * size


@workflow
async def takes_big() -> int:
    return len(await big(500_000))


@workflow
async def gives_none() -> None:
    return None


@workflow
async def takes_none() -> str:
    return repr([await gives_none(), await gives_none()])  # type: ignore[func-returns-value]


@workflow
async def wrong_payload() -> str:
    try:
        await big(lambda: 1)  # type: ignore[arg-type]
    except TypeError as error:
        return type(error).__name__
    return ""


@workflow
async def number(value: int) -> int:
    return value


@workflow
async def many(count: int) -> list[int]:
    return await asyncio.gather(*(number(value) for value in range(count)))


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]


async def test_a_big_result_crosses_whole() -> None:
    """G1: 1 MB from a child to its parent, which lives in an output document of its own."""
    async with Environment(ALL) as env:
        assert (await env.run(takes_big)).value() == 500_000
        await assert_replays(env)


async def test_an_output_that_cannot_be_read_yet_is_never_told_as_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A replica that lags shows the child's end without its output: the parent is told later, not told `null`. The
    child's driver says so, and fails nobody else."""
    async with Environment(ALL) as env:
        env.clock = ImpatientClock()
        env.worker = env.new_worker()
        lags = True
        load = env.store.inner.load

        async def lagging(execution_id: str, from_chunk: int = 0) -> Loaded:
            loaded = await load(execution_id, from_chunk)
            return Loaded(loaded.chunks, loaded.inbox, loaded.input, None) if lags else loaded

        env.store.inner.load = lagging  # type: ignore[method-assign]
        parent = (await env.start(takes_big)).execution_id
        await env.drive(parent)
        (child,) = await executions(env, big)
        for _ in range(4):
            await env.worker.drive(await env.store.inner.read(child.execution_id))
            assert (await env.store.inner.load(parent)).inbox == []
        assert "can't be driven" in caplog.text
        lags = False
        assert (await env.finish(parent)).value() == 500_000


async def test_none_is_a_result() -> None:
    """K1: None from a child is None in its parent."""
    async with Environment(ALL) as env:
        assert (await env.run(takes_none)).value() == "[None, None]"


async def test_a_childs_payload_is_checked_before_anything_is_asked() -> None:
    """D6: a payload that can't be stored is an error at the call; no child is created."""
    async with Environment(ALL) as env:
        status = await env.run(wrong_payload)
        assert "EncodingError" in status.value()
        assert await executions(env, big) == []


async def test_a_hundred_children_take_a_linear_number_of_calls() -> None:
    """G4: twice the children, about twice the store calls; each child once."""
    calls = {}
    for count in (50, 100):
        async with Environment(ALL) as env:
            assert len((await env.run(many, count)).value()) == count
            assert len(await executions(env, number)) == count
            calls[count] = env.store.count()
    assert calls[100] < 2.5 * calls[50]
    assert calls[100] < 100 * 12
