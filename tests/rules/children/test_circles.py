"""Q1: executions that would wait for each other. The wait that closes a circle raises at its call, and names it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from engine import CircularWait, Deferred, workflow
from engine.ground.names import execution_id
from engine.store.wrapper import Call
from engine.testing import Environment
from tests.support.gates import Gate
from tests.support.processes import Process

pytestmark = pytest.mark.usefixtures("every_store")

go = Deferred("circles.go", str)
leave = Deferred("circles.leave", str)


@workflow(idempotency_key=lambda path: path.split(">")[0])
async def circle_node(path: str) -> str:
    """`a>b` is an execution called a, which waits for the one called b; `a` alone waits for nobody."""
    own, _, other = path.partition(">")
    if not other:
        return own
    await go
    try:
        return own + await circle_node(other)
    except CircularWait as error:
        return f"{own}: " + " > ".join(name.split()[1][:4] for name in error.circle)


@workflow(idempotency_key=lambda name: name)
async def circle_waits(name: str) -> str:
    return await leave


@workflow
async def circle_impatient(tries: int) -> str:
    """It waits for a shared child again and again, and gives up each time."""
    for _ in range(tries):
        try:
            async with asyncio.timeout(10):
                return await circle_waits("shared")
        except TimeoutError:
            pass
    return "gave up"


def id_of(name: str) -> str:
    return execution_id("circle_node", name)


async def _start(env: Environment, *paths: str) -> list[str]:
    ids = [(await env.start(circle_node, path)).execution_id for path in paths]
    await env.settle()
    return ids


def _at_its_look(process: Process, id: str) -> Gate:
    """Stops an execution that has written its wait and read its own document, before it confirms what it read."""
    has_written = False

    async def note(call: Call) -> None:
        nonlocal has_written
        has_written |= call.method == "replace" and call.arguments[0].execution_id != id

    gate = Gate(lambda call: has_written and call.method == "replace" and call.arguments[0].execution_id == id)
    process.store.before, process.store.after = gate, note
    return gate


async def _results(env: Environment, ids: list[str]) -> list[str]:
    for id in ids:
        await env.finish(id)
    return [(await env.status(id)).value() for id in ids]


@pytest.mark.parametrize("length", [2, 3, 5])
async def test_the_wait_that_closes_a_circle_raises_and_names_it(length: int) -> None:
    """Q1: the last one, however late it comes and wherever it runs. The others get their results through it."""
    names = [f"n{number}" for number in range(length)]
    async with Environment([circle_node]) as env:
        ids = await _start(env, *(f"{one}>{other}" for one, other in zip(names, names[1:] + names[:1], strict=True)))
        for id in ids[:-1]:
            await env.client.resolve(id, go, "")
            await env.settle()
            env.clock.advance(timedelta(days=1))
        late = Process(env)
        await late.client.resolve(ids[-1], go, "")
        await (await late.drive(ids[-1]))
        results = await _results(env, ids)
        around = [ids[-1], *ids]
        last = f"{names[-1]}: " + " > ".join(id[:4] for id in around)
        assert results == ["".join(names[number:-1]) + last for number in range(length)]


async def test_an_execution_that_only_shares_a_child_is_in_no_circle() -> None:
    """Two wait for a third, and one of the two for the other: there is a way round, but no circle."""
    async with Environment([circle_node]) as env:
        ids = await _start(env, "c>d", "b>c", "a>c", "d")
        for id in ids[:-1]:
            await env.client.resolve(id, go, "")
        assert await _results(env, ids) == ["cd", "bcd", "acd", "d"]


@pytest.mark.parametrize("first", ["both waits are written", "one looks, then the other writes"])
async def test_two_waits_at_the_same_moment_are_never_both_overlooked(first: str) -> None:
    """Q1: each of two processes adds its half of a circle. Whoever wrote last sees the other's wait, though it had read
    before that was written: its look is confirmed by a write."""
    async with Environment([circle_node]) as env:
        ids = await _start(env, "a>b", "b>a")
        for id in ids:
            await env.client.resolve(id, go, "")
        one, other = Process(env), Process(env)
        held = [_at_its_look(one, ids[0]), _at_its_look(other, ids[1])]
        drives = [await one.drive(ids[0])]
        await held[0].reached.wait()  # it has written its wait, and read its own document
        drives.append(await other.drive(ids[1]))
        if first == "both waits are written":
            await held[1].reached.wait()
        else:
            held[1].open()
            await asyncio.wait([drives[1]])
        held[0].open()
        held[1].open()
        await asyncio.wait(drives)
        results = await _results(env, ids)
        assert any(" > " in result for result in results)
        assert all(" > " in result for result in results) or results[0].startswith("ab: ") or "ba: " in results[1]


async def test_the_next_driver_looks_if_the_first_one_died_after_it_had_written() -> None:
    """Q1: the wait stands, and its writer is gone before it looked."""
    async with Environment([circle_node]) as env:
        ids = await _start(env, "a>b", "b>a")
        await env.client.resolve(ids[0], go, "")
        await env.settle()
        await env.client.resolve(ids[1], go, "")
        process = Process(env)
        gate = Gate(lambda call: call.method == "replace" and call.arguments[0].execution_id == ids[0])
        process.store.after = gate
        await process.drive(ids[1])
        await gate.reached.wait()
        await process.die(ids[1])
        env.clock.advance(timedelta(minutes=1))
        assert (await _results(env, ids))[1].startswith("b: ")


async def test_a_wait_that_was_given_up_is_taken_back() -> None:
    """Q1: `parents` of a shared child doesn't grow with the attempts of one that gives up each time. What waited before
    may be waited for."""
    async with Environment([circle_impatient, circle_waits, circle_node]) as env:
        shared = (await env.start(circle_waits, "shared")).execution_id
        id = (await env.start(circle_impatient, 5)).execution_id
        await env.settle()
        for number in range(5):
            child = await env.store.inner.read(shared)
            assert [one.execution_id for one in child.parents] == [id], number
            env.clock.advance(timedelta(seconds=11))
            await env.settle()
        assert (await env.status(id)).value() == "gave up"
        child = await env.store.inner.read(shared)
        assert (child.parents, child.interrupted) == ((), False)
