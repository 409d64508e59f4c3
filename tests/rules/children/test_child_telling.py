"""How a child's end reaches its parent: at least once, as one event, whatever the parent is doing."""

from __future__ import annotations

import asyncio

import pytest

from engine import ChildStopped, activity, workflow
from engine.store.wrapper import Call
from engine.testing import Environment
from engine.values.events import StepResolved
from tests.support.families import FAMILY, answer, leaf, leaves_it, only, root
from tests.support.gates import Gate
from tests.support.mortal import assert_at_rest, assert_replays, everywhere, executions, rest
from tests.support.processes import nothing
from tests.support.stored import purge

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")


working = Gate()


@activity
async def held() -> None:
    await working.passed()


@workflow
async def is_busy(key: str) -> int:
    value, _ = await asyncio.gather(leaf(key), held())
    return value


ALL = [*FAMILY, is_busy]


async def test_told_twice_is_one_event() -> None:
    """Two sweeps on one view of the finished child: the parent's history has its end once."""
    async with Environment(ALL) as env:
        parent = (await env.start(leaves_it, "s")).execution_id
        await env.settle()
        (child,) = await executions(env, leaf)
        await env.resolve(child.execution_id, answer, 3)
        seen = []  # type: ignore[var-annotated]

        async def before(call: Call) -> None:
            if call.method == "signal" and not seen:
                seen.append(await env.store.inner.read(child.execution_id))
                await env.new_worker(env.store.inner).drive(seen[0])

        env.store.before = before
        assert (await env.finish(parent)).value() == 3
        assert seen[0].owes
        loaded = await env.store.inner.load(parent)
        events = [event for chunk in loaded.chunks for event in chunk.decoded()]
        assert [e.kind for e in events if isinstance(e, StepResolved)] == ["child"]


async def test_a_stopped_child_says_how() -> None:
    """A child that is terminated under its parent: ChildStopped, which names it."""
    async with Environment(ALL) as env:
        parent = await env.start(leaves_it, "s")
        await env.settle()
        (child,) = await executions(env, leaf)
        await env.client.terminate(child.execution_id)
        status = await env.finish(parent)
        with pytest.raises(ChildStopped) as stopped:
            status.value()
        assert (stopped.value.outcome, stopped.value.execution_id) == ("terminated", child.execution_id)


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=SLOW)])
async def test_the_end_of_a_child_is_told_at_least_once(after: bool) -> None:
    """The process dies as the child's end is committed, or before its parent is told: the sweep finds the debt."""

    async def scenario(env: Environment) -> None:
        parent = await env.start(root, "k", key="p")
        await rest(env)
        for child in await executions(env, leaf):
            await env.resolve(child.execution_id, answer, 4)
        assert (await env.finish(parent)).value() == 8
        await assert_at_rest(env)
        assert all(e.parents_notified for e in await executions(env) if e.parents)

    if after:
        await everywhere(ALL, scenario)
        return
    async with Environment(ALL) as env:  # the feed hands over nothing of the child: only sweeps
        parent = (await env.start(leaves_it, "k")).execution_id
        await env.worker.sweep()
        await env.drive(parent)
        child = await only(env, leaf)
        await env.client.resolve(child.execution_id, answer, 1)
        told: list[Call] = []

        async def before(call: Call) -> None:
            if call.method == "signal" and not told:
                told.append(call)
                raise ConnectionError

        env.store.before = before
        await env.worker.sweep()
        assert (await only(env, leaf)).owes
        await env.worker.sweep()
        await env.worker.sweep()
        assert (await env.status(parent)).value() == 1


@pytest.mark.parametrize(
    ("moment", "number"), [*(("before", n) for n in range(5)), *(("after", n) for n in (0, 2, 3, 4))]
)
async def test_a_childs_end_in_any_moment_of_its_parents_drive(number: int, moment: str) -> None:
    """A1 for children: around each store call of the parent's driver, the suspend write above all; nobody delivers it
    afterwards but the sweep."""
    async with Environment(ALL) as env:
        child = (await env.start(leaf, "k")).execution_id
        await env.settle()
        parent = await env.start(leaves_it, "k")
        first = len(env.store.calls)

        async def end(call: Call) -> None:
            if call.number == first + number:
                other = env.new_worker(env.store.inner)
                await env.resolve(child, answer, 9)
                await other.drive(await env.store.inner.read(child))

        setattr(env.store, moment, end)
        await env.drive(parent)
        setattr(env.store, moment, nothing)
        assert (await env.status(child)).is_complete
        assert (await env.finish(parent)).value() == 9
        await assert_at_rest(env)
        await assert_replays(env)


async def test_a_childs_end_while_its_parent_works() -> None:
    """A drive that is under way takes it in at once, beside a long activity."""
    async with Environment(ALL) as env:
        working.close()
        parent = await env.start(is_busy, "k")
        driving = asyncio.create_task(env.drive(parent))
        await working.reached.wait()
        child = await only(env, leaf)
        await env.worker.drive(child)
        await env.resolve(child.execution_id, answer, 6)
        await env.worker.drive(await env.store.inner.read(child.execution_id))
        working.open()
        await driving
        assert (await env.finish(parent)).value() == 6


async def test_a_childs_end_after_its_parents() -> None:
    """The parent was terminated, or is gone: the child's debt is settled, and nothing is written there."""
    for purged in (False, True):
        async with Environment(ALL) as env:
            parent = (await env.start(leaves_it, "k")).execution_id
            await env.settle()
            await env.client.terminate(parent)
            if purged:
                await purge(env, parent)
            child = await only(env, leaf)
            await env.resolve(child.execution_id, answer, 1)
            assert (await env.finish(child.execution_id)).value() == 1
            await assert_at_rest(env)
            loaded = await env.store.inner.load(parent)
            assert loaded.inbox == []
            if purged:
                assert loaded.chunks == []
