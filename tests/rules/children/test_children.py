"""Children in good and in bad: results, failures, attachment, starting, and what a crash may do to any of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from engine import (
    ActivityError,
    Deferred,
    Failure,
    Workflow,
    activity,
    compensate,
    workflow,
)
from engine.ground.names import execution_id
from engine.store.wrapper import Call
from engine.testing import Environment
from tests.support.mortal import assert_at_rest, assert_replays, do, everywhere, executions, journal
from tests.support.processes import nothing

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

answer = Deferred("children.answer", int)


class OutOfStock(Failure):
    sku: str


class Job(BaseModel):
    key: str
    fail: bool = False


@activity
async def breaks() -> None:
    raise ValueError("the deepest cause")


@workflow(idempotency_key=lambda job: job.key)
async def named(job: Job) -> str:
    if job.fail:
        try:
            await breaks()
        except ActivityError as error:
            raise OutOfStock(sku=job.key) from error
    return await do(job.key)


@workflow
async def anonymous(number: int) -> int:
    await do(f"kid {number}")
    return number * 10


@workflow(idempotency_key=lambda job: job.key)
async def waits(job: Job) -> int:
    return await answer


@workflow
async def one(job: Job) -> str:
    return await named(job)


@workflow
async def two_in_a_row() -> list[int]:
    return [await anonymous(1), await anonymous(2)]


@workflow
async def many(count: int) -> list[int]:
    return await asyncio.gather(*(anonymous(number) for number in range(count)))


@workflow
async def in_a_group() -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(waits(Job(key="sibling")))
            group.create_task(named(Job(key="bad", fail=True)))
    except* OutOfStock as errors:
        failed = errors.exceptions
    return str(failed[0])


@workflow
async def reads_the_chain(job: Job) -> list[str]:
    try:
        await named(job)
    except OutOfStock as error:
        cause = error.__cause__
        return [error.sku, cause.type_name, cause.message] if isinstance(cause, ActivityError) else []
    return []


@workflow
async def lets_it_through(job: Job) -> str:
    return await named(job)


@workflow
async def attaches(job: Job) -> int:
    return await waits(job)


@workflow
async def starts_only(job: Job) -> str:
    return await waits.start(job)


@workflow(idempotency_key=lambda text: text)
async def itself(text: str) -> str:
    try:
        await (itself if text == "own" else between)(text)
    except ValueError as error:
        return str(error)
    return "no error"


@workflow(idempotency_key=lambda text: text)
async def between(text: str) -> str:
    return await (itself if text == "grand" else deeper)("grand" if text == "grand" else text)


@workflow
async def deeper(text: str) -> str:
    return await itself(text)


@workflow
async def undoes(job: Job) -> str:
    compensate(do, "undone")
    return await named(job)


@workflow(idempotency_key=lambda left: f"hand-over-{left}")
async def hands_over(left: int) -> None:
    if left:
        await hands_over.start(left - 1)


ALL: list[Workflow[Any, Any]] = [
    named,
    anonymous,
    waits,
    one,
    two_in_a_row,
    many,
    in_a_group,
    reads_the_chain,
    lets_it_through,
    attaches,
    starts_only,
    itself,
    between,
    deeper,
    undoes,
]


@SLOW
async def test_a_result_survives_every_crash() -> None:
    """One child, its activity once if recorded, and the parent's result: at every store call."""

    async def scenario(env: Environment) -> None:
        status = await env.run(one, Job(key="k"), key="p")
        assert status.value() == "k"
        assert len(await executions(env, named)) == 1
        await assert_at_rest(env)

    await everywhere(ALL, scenario)


@SLOW
async def test_parallel_children_survive_every_crash() -> None:
    """gather over children without a key: each call is a child of its own, results in order."""

    async def scenario(env: Environment) -> None:
        assert (await env.run(many, 3, key="p")).value() == [0, 10, 20]
        assert len(await executions(env, anonymous)) == 3
        await assert_at_rest(env)

    await everywhere(ALL, scenario)


@SLOW
async def test_a_childs_failure_survives_every_crash() -> None:
    """It fails the parent, which is compensated: once each."""

    async def scenario(env: Environment) -> None:
        status = await env.run(undoes, Job(key="k", fail=True), key="p")
        assert status.error is not None
        assert status.error.type == "OutOfStock"
        assert journal.counts()["undone"] >= 1
        await assert_at_rest(env)

    await everywhere(ALL, scenario)


async def test_ids_come_from_the_key_or_from_the_parents_step() -> None:
    """A child with a key is the execution of that key; one without belongs to that step of that run of its parent."""
    async with Environment(ALL) as env:
        await env.run(one, Job(key="k"))
        assert [e.execution_id for e in await executions(env, named)] == [execution_id("named", "k")]
        parent = (await env.start(two_in_a_row)).execution_id
        await env.finish(parent)
        run = (await env.store.inner.read(parent)).run_id
        expected = {execution_id("anonymous", f"{parent}/{run}/{step}") for step in ("anonymous", "anonymous#2")}
        assert {e.execution_id for e in await executions(env, anonymous)} == expected
        assert all(e.creator == parent and e.ancestors == (parent,) for e in await executions(env, anonymous))


def test_ids_of_different_workflows_never_meet() -> None:
    """An id is of one workflow: no name holds the dash that parts it from the key."""
    assert execution_id("a", "b-c") == execution_id("a-b", "c")
    with pytest.raises(ValueError, match="letters, digits"):
        workflow(name="a-b")(deeper.function)


async def test_the_chain_of_causes_arrives_intact() -> None:
    """The child's typed Failure is raised in the parent with what caused it, and passes on to the parent's end."""
    async with Environment(ALL) as env:
        chain = ["k", "ValueError", "the deepest cause"]
        assert (await env.run(reads_the_chain, Job(key="k", fail=True))).value() == chain
        error = (await env.run(lets_it_through, Job(key="k", fail=True))).error
        assert error is not None
        assert error.cause is not None
        assert (error.type, error.data, error.cause.message) == ("OutOfStock", '{"sku":"k"}', "the deepest cause")
        await assert_replays(env)


async def test_a_failing_sibling_of_a_task_group_interrupts_the_others() -> None:
    """The group's abort gives the waiting child up: it ends as interrupted, though the parent completes."""
    async with Environment(ALL) as env:
        assert (await env.run(in_a_group)).value() == "sku='bad'"
        await env.settle()
        assert [e.outcome for e in await executions(env, waits)] == ["interrupted"]
        await assert_at_rest(env)
        await assert_replays(env)


async def test_two_parents_attach_to_one_running_child() -> None:
    """J2: the second parent attaches, and both get the one result."""
    async with Environment(ALL) as env:
        parents = [(await env.start(attaches, Job(key="s"))).execution_id for _ in range(2)]
        await env.settle()
        (child,) = await executions(env, waits)
        assert {parent.execution_id for parent in child.parents} == set(parents)
        await env.resolve(child.execution_id, answer, 7)
        assert [(await env.finish(parent)).value() for parent in parents] == [7, 7]
        await assert_at_rest(env)


async def test_a_parent_attaches_to_a_finished_child_and_to_a_failed_one() -> None:
    """J2: it has its exit at once, without a wait for anybody."""
    async with Environment(ALL) as env:
        assert (await env.run(named, Job(key="s"))).value() == "s"
        await env.run(named, Job(key="f", fail=True))
        journal.clear()
        assert (await env.run(one, Job(key="s"))).value() == "s"
        assert (await env.run(one, Job(key="f", fail=True))).outcome == "failed"
        assert journal.effects == []


async def test_attaching_races_with_the_childs_end() -> None:
    """J2: the child ends between the parent's look at it and its attachment: the parent has the exit all the same."""
    async with Environment(ALL) as env:
        child = (await env.start(waits, Job(key="s"))).execution_id
        await env.settle()
        raced = False

        async def before(call: Call) -> None:
            nonlocal raced
            if call.method == "replace" and call.arguments[0].parents and not raced:
                raced = True
                other = env.new_worker(env.store.inner)
                await env.client.resolve(child, answer, 5)
                await other.drive(await env.store.inner.read(child))

        env.store.before = before
        parent = await env.start(attaches, Job(key="s"))
        assert (await env.finish(parent)).value() == 5
        assert raced


async def test_attaching_races_with_a_purge() -> None:
    """The child that the parent found is gone when it looks at it: it starts one of its own, at once."""
    async with Environment(ALL) as env:
        child = (await env.start(named, Job(key="s"))).execution_id
        await env.finish(child)
        raced = False

        async def before(call: Call) -> None:
            nonlocal raced
            if call.method == "read" and call.arguments[0] == child and not raced:
                raced = True
                await env.store.inner.purge(await env.store.inner.read(child))

        journal.clear()
        parent = await env.start(one, Job(key="s"))
        env.store.before = before
        await env.drive(parent)
        assert raced
        env.store.before = nothing
        await env.settle()
        assert (await env.status(parent)).value() == "s"
        assert journal.effects == ["s"]


@pytest.mark.sqlite_only("nothing of it depends on the store")
@pytest.mark.parametrize("text", ["own", "through a parent", "grand"])
async def test_an_ancestor_is_refused_at_the_call(text: str) -> None:
    """J1: own id, the parent's, the grandparent's: an error that the body can catch, and its history is intact."""
    async with Environment(ALL) as env:
        status = await env.run(itself, text)
        if text == "own":
            assert "ancestor" in status.value()
        else:
            assert status.error is not None
            assert status.error.type == "ValueError"
            assert "ancestor" in status.error.message
        assert len(await executions(env, itself)) == 1
        await assert_at_rest(env)
        await assert_replays(env)


async def test_starting_does_not_wait_and_the_child_lives_on() -> None:
    """start() gives the id; the parent's end, even by interrupt, leaves the child alone."""
    async with Environment(ALL) as env:
        status = await env.run(starts_only, Job(key="s"))
        assert status.value() == execution_id("waits", "s")
        await env.settle()
        (child,) = await executions(env, waits)
        assert not child.is_complete
        assert child.parents == ()
        await env.resolve(child.execution_id, answer, 1)
        assert (await env.finish(child.execution_id)).value() == 1


async def test_a_chain_of_hand_overs_does_not_grow() -> None:
    """Each execution starts the next one and ends: what each knows of those before it stays small."""
    async with Environment([hands_over]) as env:
        await env.run(hands_over, 30)
        await env.settle()
        chain = sorted(await executions(env, hands_over), key=lambda one: int(one.payload or ""))
        assert len(chain) == 31
        assert all(one.is_complete and len(one.ancestors) <= 1 for one in chain)
        assert [one.ancestors[0] for one in chain[:-1]] == [one.execution_id for one in chain[1:]]


@SLOW
async def test_starting_survives_every_crash() -> None:
    """One child, and its id, at every store call."""

    async def scenario(env: Environment) -> None:
        assert (await env.run(starts_only, Job(key="s"), key="p")).value() == execution_id("waits", "s")
        assert len(await executions(env, waits)) == 1

    await everywhere(ALL, scenario)
