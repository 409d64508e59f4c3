"""How a parent's end reaches its children: at every level, in any race, also one that is only just being created."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from engine import ChildStopped, Deferred, Workflow, activity, workflow
from engine.store.wrapper import Call
from engine.testing import Environment
from tests.support.families import FAMILY, answer, leaf, leaves_it, middle, only, root
from tests.support.mortal import assert_at_rest, assert_replays, do, everywhere, executions, journal, rest

gate = Deferred("child_exits.gate", int)


@activity
async def breaks() -> None:
    raise ValueError("no")


@workflow
async def root_that_fails(key: str) -> int:
    child = asyncio.create_task(middle(key))
    await gate
    await breaks()
    return await child


@workflow
async def then_acts(key: str) -> None:
    await leaf(key)
    await do("after the child")


@workflow
async def both(key: str) -> None:
    await asyncio.gather(do("beside the child"), leaf(key))


@workflow
async def gives_up(key: str) -> str:
    try:
        async with asyncio.timeout(60):
            await leaf(key)
    except TimeoutError:
        return "gave up"
    return "has it"


ALL = [*FAMILY, root_that_fails, then_acts, both, gives_up]


@pytest.mark.parametrize("workflow", [root, root_that_fails])
async def test_a_parents_end_reaches_every_level(workflow: Workflow[Any, Any]) -> None:
    """J4: interrupt or failure of the root ends all three levels, each of which cleans up once; at every crash."""

    async def scenario(env: Environment) -> None:
        top = await env.start(workflow, "k", key="top")
        await rest(env)
        if workflow is root:
            await env.client.interrupt(top)
        else:
            await env.resolve(top, gate, 1)
        assert (await env.finish(top)).outcome == ("interrupted" if workflow is root else "failed")
        await rest(env)
        assert [e.outcome for e in await executions(env, middle)] == ["interrupted"]
        assert [e.outcome for e in await executions(env, leaf)] == ["interrupted"] * 2
        assert set(journal.effects) == {"leaf k 1 cleaned", "leaf k 2 cleaned"}
        await assert_at_rest(env)

    await everywhere(ALL, scenario, limit=100)


async def test_an_interrupt_overtakes_the_creation_of_a_child() -> None:
    """E4: it has been delivered and recorded, and only then does the child's creation land: it is interrupted still."""
    async with Environment(ALL) as env:
        top = (await env.start(then_acts, "k")).execution_id
        recorded = asyncio.Event()

        async def before(call: Call) -> None:
            if call.method == "create":
                env.worker.notify(await env.store.inner.interrupt(top, env.clock.now()))
                await recorded.wait()

        async def after(call: Call) -> None:
            if call.method == "append":
                recorded.set()

        env.store.before, env.store.after = before, after
        assert (await env.drive(top)).outcome == "interrupted"
        assert (await only(env, leaf)).interrupted
        await rest(env)
        assert (await only(env, leaf)).outcome == "interrupted"


@pytest.mark.parametrize("workflow", [then_acts, both])
async def test_an_interrupt_at_any_store_call_of_a_parent(workflow: Workflow[Any, Any]) -> None:
    """E2, E4: before and after each call: it ends as interrupted, nothing of it runs after, no child is left."""
    for number in range(12):
        for moment in ("before", "after"):
            journal.clear()
            async with Environment(ALL) as env:
                top = (await env.start(workflow, "k")).execution_id
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
                    assert not status.interrupted
                    await env.client.interrupt(top)
                    await env.settle()
                assert (await env.status(top)).outcome == "interrupted"
                assert "after the child" not in journal.effects
                assert {e.outcome for e in await executions(env)} == {"interrupted"}
                await assert_at_rest(env)
                await assert_replays(env)


async def test_a_child_that_is_given_up_is_interrupted() -> None:
    """A timeout around a child ends the child; its late exit changes nothing; at every crash."""

    async def scenario(env: Environment) -> None:
        top = await env.start(gives_up, "k", key="top")
        assert (await env.finish(top)).value() == "gave up"
        await rest(env)
        assert (await only(env, leaf)).outcome == "interrupted"
        await assert_at_rest(env)

    await everywhere(ALL, scenario)


async def test_an_abandoned_child_lives_on() -> None:
    """child(): waited for while the parent lives, left alone when it ends; at every crash."""

    async def scenario(env: Environment) -> None:
        top = await env.start(leaves_it, "k", key="k")
        await rest(env)
        await env.client.interrupt(top)
        assert (await env.finish(top)).outcome == "interrupted"
        child = await only(env, leaf)
        assert not child.is_complete
        assert not child.interrupted
        await env.resolve(child.execution_id, answer, 2)
        assert (await env.finish(child.execution_id)).value() == 2
        await assert_at_rest(env)

    await everywhere(ALL, scenario)


async def test_only_the_creator_interrupts_a_child() -> None:
    """A parent that attached to it gives up its own wait only."""
    async with Environment(ALL) as env:
        child = await env.start(leaf, "k")
        await env.settle()
        top = await env.start(then_acts, "k")
        await env.settle()
        await env.client.interrupt(top)
        assert (await env.finish(top)).outcome == "interrupted"
        assert not (await env.status(child)).interrupted


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
