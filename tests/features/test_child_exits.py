"""How a child's end reaches its parent, and its parent's end the child: at least once, at every level, in any race."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from engine import ChildStopped, Deferred, Workflow, activity, workflow
from engine.documents import Execution
from engine.events import StepResolved
from engine.store.wrapper import Call
from engine.testing import Environment
from tests.support.mortal import Journal, assert_at_rest, assert_replays, everywhere, executions, rest

journal = Journal()
answer = Deferred("child_exits.answer", int)
gate = Deferred("child_exits.gate", int)


class Gate:
    """An activity that has begun, and may end when the test says so."""

    begun: asyncio.Event
    may_end: asyncio.Event


@activity
async def do(what: str) -> str:
    journal.note(what)
    return what


@activity
async def held() -> None:
    Gate.begun.set()
    await Gate.may_end.wait()


@activity
async def breaks() -> None:
    raise ValueError("no")


@workflow(idempotency_key=lambda key: key)
async def leaf(key: str) -> int:
    try:
        return await answer
    except asyncio.CancelledError:
        await do(f"leaf {key} cleaned")
        raise


@workflow(idempotency_key=lambda key: key)
async def middle(key: str) -> int:
    one, two = await asyncio.gather(leaf(f"{key} 1"), leaf(f"{key} 2"))
    return one + two


@workflow
async def root(key: str) -> int:
    return await middle(key)


@workflow
async def root_that_fails(key: str) -> int:
    child = asyncio.create_task(middle(key))
    await gate
    await breaks()
    return await child


@workflow
async def leaves_it(key: str) -> int:
    return await leaf.child(key)


@workflow
async def then_acts(key: str) -> None:
    await leaf(key)
    await do("after the child")


@workflow
async def both(key: str) -> None:
    await asyncio.gather(do("beside the child"), leaf(key))


@workflow
async def is_busy(key: str) -> int:
    value, _ = await asyncio.gather(leaf(key), held())
    return value


@workflow
async def gives_up(key: str) -> str:
    try:
        async with asyncio.timeout(60):
            await leaf(key)
    except TimeoutError:
        return "gave up"
    return "has it"


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]


async def only(env: Environment, one: Workflow[Any, Any]) -> Execution:
    """The one execution of a workflow."""
    (found,) = await executions(env, one)
    return found


async def test_told_twice_is_one_event() -> None:
    """Two sweeps on one view of the finished child: the parent's history has its end once."""
    async with Environment(ALL) as env:
        parent = await env.start(leaves_it, "s")
        await env.settle()
        (child,) = await executions(env, leaf)
        await env.complete(child.execution_id, answer, 3)
        seen = []

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


@pytest.mark.parametrize("after", [False, True])
async def test_the_end_of_a_child_is_told_at_least_once(after: bool) -> None:
    """The process dies as the child's end is committed, or before its parent is told: the sweep finds the debt."""

    async def scenario(env: Environment) -> None:
        parent = await env.start(root, "k", key="p")
        await rest(env)
        for child in await executions(env, leaf):
            await env.complete(child.execution_id, answer, 4)
        assert (await env.finish(parent)).value() == 8
        await assert_at_rest(env)
        assert all(e.told for e in await executions(env) if e.parents)

    if after:
        await everywhere(ALL, journal, scenario)
        return
    async with Environment(ALL) as env:  # the feed hands over nothing of the child: only sweeps
        parent = await env.start(leaves_it, "k")
        await env.worker.sweep()
        await env.drive(parent)
        child = await only(env, leaf)
        await env.client.complete(child.execution_id, answer, 1)
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
        child = await env.start(leaf, "k")
        await env.settle()
        parent = await env.start(leaves_it, "k")
        first = len(env.store.calls)

        async def end(call: Call) -> None:
            if call.number == first + number:
                other = env.new_worker(env.store.inner)
                await env.complete(child, answer, 9)
                await other.drive(await env.store.inner.read(child))

        setattr(env.store, moment, end)
        await env.drive(parent)
        setattr(env.store, moment, nothing)
        assert (await env.status(child)).is_complete
        assert (await env.finish(parent)).value() == 9
        await assert_at_rest(env)
        await assert_replays(env)


async def nothing(_: Call) -> None:
    return None


async def test_a_childs_end_while_its_parent_works() -> None:
    """A drive that is under way takes it in at once, beside a long activity."""
    async with Environment(ALL) as env:
        Gate.begun, Gate.may_end = asyncio.Event(), asyncio.Event()
        parent = await env.start(is_busy, "k")
        driving = asyncio.create_task(env.drive(parent))
        await Gate.begun.wait()
        child = await only(env, leaf)
        await env.worker.drive(child)
        await env.complete(child.execution_id, answer, 6)
        await env.worker.drive(await env.store.inner.read(child.execution_id))
        Gate.may_end.set()
        await driving
        assert (await env.finish(parent)).value() == 6


async def test_a_childs_end_after_its_parents() -> None:
    """The parent was terminated, or is gone: the child's debt is settled, and nothing is written there."""
    for purged in (False, True):
        async with Environment(ALL) as env:
            parent = await env.start(leaves_it, "k")
            await env.settle()
            await env.client.terminate(parent)
            if purged:
                await env.client.purge(parent)
            child = await only(env, leaf)
            await env.complete(child.execution_id, answer, 1)
            assert (await env.finish(child.execution_id)).value() == 1
            await assert_at_rest(env)
            loaded = await env.store.inner.load(parent)
            assert loaded.inbox == []
            if purged:
                assert loaded.chunks == []


@pytest.mark.parametrize("workflow", [root, root_that_fails])
async def test_a_parents_end_reaches_every_level(workflow: Workflow[Any, Any]) -> None:
    """J4: interrupt or failure of the root ends all three levels, each of which cleans up once; at every crash."""

    async def scenario(env: Environment) -> None:
        top = await env.start(workflow, "k", key="top")
        await rest(env)
        if workflow is root:
            await env.client.interrupt(top)
        else:
            await env.complete(top, gate, 1)
        assert (await env.finish(top)).execution.outcome == ("interrupted" if workflow is root else "failed")
        await rest(env)
        assert [e.outcome for e in await executions(env, middle)] == ["interrupted"]
        assert [e.outcome for e in await executions(env, leaf)] == ["interrupted"] * 2
        assert set(journal.effects) == {"leaf k 1 cleaned", "leaf k 2 cleaned"}
        await assert_at_rest(env)

    await everywhere(ALL, journal, scenario, limit=100)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("level", [0, 1, 2])
async def test_an_interrupt_while_a_child_is_only_just_being_created(moment: str, level: int) -> None:
    """E2, E4: the root is interrupted around the creation of its child, of its grandchild, of the second of these."""

    async def scenario(env: Environment) -> None:
        top = await env.start(root, "k", key="top")
        created: list[str] = []

        async def interrupt(call: Call) -> None:
            if call.method == "create" and (call.arguments[0].execution_id not in created):
                created.append(call.arguments[0].execution_id)
                if len(created) == level + 1:
                    env.worker.notify(await env.store.inner.interrupt(top, env.clock.now()))

        setattr(env.store, moment, interrupt)
        assert (await env.finish(top)).execution.outcome == "interrupted"
        await rest(env)
        assert {e.outcome for e in await executions(env)} == {"interrupted"}
        await assert_at_rest(env)

    journal.clear()
    async with Environment(ALL) as env:
        await scenario(env)
        await assert_replays(env)


@pytest.mark.parametrize("workflow", [then_acts, both])
async def test_an_interrupt_at_any_store_call_of_a_parent(workflow: Workflow[Any, Any]) -> None:
    """E2, E4: before and after each call: it ends as interrupted, nothing of it runs after, no child is left."""
    for number in range(12):
        for moment in ("before", "after"):
            journal.clear()
            async with Environment(ALL) as env:
                top = await env.start(workflow, "k")
                first = len(env.store.calls)

                async def interrupt(
                    call: Call, at: int = first + number, env: Environment = env, top: str = top
                ) -> None:
                    if call.number == at:
                        env.worker.notify(await env.store.inner.interrupt(top, env.clock.now()))

                setattr(env.store, moment, functools.partial(interrupt, env=env, top=top, at=first + number))
                await env.settle()
                status = await env.status(top)
                if not status.is_complete:  # there were fewer calls
                    assert not status.execution.interrupted
                    await env.client.interrupt(top)
                    await env.settle()
                assert (await env.status(top)).execution.outcome == "interrupted"
                assert "after the child" not in journal.effects
                assert {e.outcome for e in await executions(env)} == {"interrupted"}
                await assert_at_rest(env)
                await assert_replays(env)


async def test_a_parents_interrupt_survives_every_crash() -> None:
    """E4: interrupted before anything was driven, or as it waits: at every store call of either."""

    async def scenario(env: Environment) -> None:
        top = await env.start(then_acts, "k", key="top")
        await rest(env)
        await env.client.interrupt(top)
        assert (await env.finish(top)).execution.outcome == "interrupted"
        await rest(env)
        assert (await only(env, leaf)).outcome == "interrupted"
        assert set(journal.effects) == {"leaf k cleaned"}

    await everywhere(ALL, journal, scenario)


async def test_a_child_that_is_given_up_is_interrupted() -> None:
    """A timeout around a child ends the child; its late exit changes nothing; at every crash."""

    async def scenario(env: Environment) -> None:
        top = await env.start(gives_up, "k", key="top")
        assert (await env.finish(top)).value() == "gave up"
        await rest(env)
        assert (await only(env, leaf)).outcome == "interrupted"
        await assert_at_rest(env)

    await everywhere(ALL, journal, scenario)


async def test_an_abandoned_child_lives_on() -> None:
    """child(): waited for while the parent lives, left alone when it ends."""
    async with Environment(ALL) as env:
        top = await env.start(leaves_it, "k")
        await env.settle()
        await env.client.interrupt(top)
        assert (await env.finish(top)).execution.outcome == "interrupted"
        child = await only(env, leaf)
        assert not child.is_complete
        assert not child.interrupted
        await env.complete(child.execution_id, answer, 2)
        assert (await env.finish(child.execution_id)).value() == 2
        await assert_at_rest(env)


async def test_only_the_creator_interrupts_a_child() -> None:
    """A parent that attached to it gives up its own wait only."""
    async with Environment(ALL) as env:
        child = await env.start(leaf, "k")
        await env.settle()
        top = await env.start(then_acts, "k")
        await env.settle()
        await env.client.interrupt(top)
        assert (await env.finish(top)).execution.outcome == "interrupted"
        assert not (await env.status(child)).execution.interrupted


async def test_interrupting_a_child_is_its_parents_to_handle() -> None:
    """A child that somebody interrupts fails its parent with ChildStopped."""
    async with Environment(ALL) as env:
        top = await env.start(root, "k")
        await env.settle()
        await env.client.interrupt((await executions(env, leaf))[0].execution_id)
        with pytest.raises(ChildStopped) as stopped:
            (await env.finish(top)).value()
        assert stopped.value.workflow == "leaf"
        await assert_replays(env)
