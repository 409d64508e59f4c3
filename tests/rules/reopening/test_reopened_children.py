"""P4: a parent that failed by its children, or was interrupted, runs again, and its children run again with it."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any, ClassVar
from unittest import mock

import pytest

from engine import Deferred, Failure, NotReopened, Workflow, compensate, workflow
from engine.driving.child_requests import drop_child
from engine.ground.errors import Unavailable
from engine.store.wrapper import Call
from engine.testing import Environment
from tests.support.mortal import assert_at_rest, do, everywhere, executions, journal, rest
from tests.support.processes import Process

pytestmark = pytest.mark.usefixtures("every_store")

go = Deferred("reopened_children.go", str)


class Bank:
    is_open: ClassVar[bool] = False


class Closed(Failure):
    pass


@pytest.fixture(autouse=True)
def _closed() -> None:
    Bank.is_open = False


@workflow
async def pays(what: str) -> str:
    await do(f"reserve {what}")
    if not Bank.is_open:
        raise Closed
    return await do(f"pay {what}")


@workflow
async def pays_or_undoes(what: str) -> str:
    compensate(do, await do("undone"))
    return await pays(what)


@workflow(idempotency_key=lambda key: key)
async def keyed(key: str) -> str:
    if key == "waits":
        return await go
    if not Bank.is_open:
        raise Closed
    return await do(f"pay {key}")


@workflow
async def waits(what: str) -> str:
    return f"{what} {await go}"


@workflow
async def orders(what: str) -> str:
    first = await do("first")
    return f"{first}, {await pays(what)}"


@workflow
async def orders_orders(what: str) -> str:
    return await orders(what)


@workflow
async def orders_undone(what: str) -> str:
    return await pays_or_undoes(what)


@workflow
async def orders_many(what: str) -> str:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(waits("waited"))
        kids = [group.create_task(pays(f"{what} {number}")) for number in range(2)]
    return ", ".join([waiting.result(), *(kid.result() for kid in kids)])


@workflow
async def orders_shared(key: str) -> str:
    return await keyed(key)


@workflow
async def orders_shared_and_own(key: str) -> list[str]:
    return list(await asyncio.gather(keyed(key), pays("own")))


ALL: list[Workflow[Any, Any]] = [pays, pays_or_undoes, keyed, waits, orders, orders_orders, orders_undone, orders_many]
ALL += [orders_shared, orders_shared_and_own]


async def test_a_child_that_failed_runs_again_and_its_recorded_steps_do_not() -> None:
    """Wherever a process dies."""

    async def scenario(env: Environment) -> None:
        Bank.is_open = False
        parent = (await env.start(orders_orders, "tea")).execution_id
        await rest(env)
        assert (await env.status(parent)).outcome == "failed"
        Bank.is_open = True
        await env.client.retry(parent)
        await rest(env)
        assert (await env.status(parent)).value() == "first, pay tea"
        assert len(await executions(env)) == 3
        assert set(journal.counts()) == {"first", "reserve tea", "pay tea"}
        await assert_at_rest(env)

    assert await everywhere(ALL, scenario) > 10


async def test_a_child_runs_again_once_for_each_retry_of_its_parent() -> None:
    """The parent's process dies right after the child began to run again. The child fails once more, and the next
    driver of the parent asks for it before the exit has arrived."""
    async with Environment(ALL) as env:
        parent = (await env.start(orders, "tea")).execution_id
        await env.finish(parent)
        await env.client.retry(parent)
        await (await _failing(env, "commit", parent)).worker.drive(await env.store.inner.read(parent))
        (child,) = await executions(env, pays)
        assert not child.is_complete
        with contextlib.suppress(Unavailable):
            await (await _failing(env, "signal")).worker.drive(child)
        assert (await env.store.inner.read(child.execution_id)).owes
        env.clock.advance(env.settings.lease + env.settings.skew + timedelta(seconds=1))
        await env.drive(parent)
        await rest(env)
        assert (await env.status(parent)).outcome == "failed"
        assert [one.reopenings for one in await executions(env)] == [1, 1]


async def _failing(env: Environment, method: str, partition: str | None = None) -> Process:
    """A process whose calls of this method don't reach the store, or not this partition of it."""
    process = Process(env)

    async def fail(call: Call) -> None:
        if call.method == method and partition in (None, call.arguments[0].execution_id):
            raise Unavailable(f"{method} can't reach the store")

    process.store.before = fail
    return process


async def test_children_of_a_group_run_again_those_that_were_interrupted_too() -> None:
    async with Environment(ALL) as env:
        parent = await env.start(orders_many, "tea")
        assert (await env.finish(parent)).outcome == "failed"
        (sibling,) = await executions(env, waits)
        assert sibling.outcome == "interrupted"
        await env.client.retry(parent)
        assert (await env.finish(parent)).outcome == "failed"
        Bank.is_open = True
        await env.client.retry(parent)
        await env.settle()
        await env.resolve(sibling.execution_id, go, "long")
        assert (await env.finish(parent)).value() == "waited long, pay tea 0, pay tea 1"


async def test_an_interrupted_parent_goes_on_with_the_children_that_it_interrupted() -> None:
    async with Environment(ALL) as env:
        parent = await env.start(orders_many, "tea")
        Bank.is_open = True
        await env.settle()
        await env.client.interrupt(parent)
        assert (await env.finish(parent)).outcome == "interrupted"
        await env.client.retry(parent)
        await env.settle()
        (sibling,) = await executions(env, waits)
        await env.resolve(sibling.execution_id, go, "again")
        assert (await env.finish(parent)).value() == "waited again, pay tea 0, pay tea 1"
        assert journal.counts()["pay tea 0"] == 1


async def test_a_child_whose_compensations_ran_fails_its_parent_again() -> None:
    async with Environment(ALL) as env:
        parent = await env.start(orders_undone, "tea")
        await env.finish(parent)
        Bank.is_open = True
        await env.client.retry(parent)
        status = await env.finish(parent)
        assert (status.outcome, status.error and status.error.type) == ("failed", "Closed")


async def test_a_child_whose_end_another_parent_knows_fails_its_parent_again() -> None:
    async with Environment(ALL) as env:
        first, second = await env.start(orders_shared, "tea"), await env.start(orders_shared, "tea", key="other")
        await env.settle()
        (child,) = await executions(env, keyed)
        assert {parent.execution_id for parent in child.parents} == {first.execution_id, second.execution_id}
        Bank.is_open = True
        await env.client.retry(first)
        assert (await env.finish(first)).outcome == "failed"
        with pytest.raises(NotReopened, match="is known to"):
            await env.client.retry(child.execution_id)


async def test_a_child_that_has_completed_since_gives_its_result() -> None:
    """Somebody else started it, so the parent's end doesn't interrupt it."""
    async with Environment(ALL) as env:
        shared = await env.start(keyed, "waits")
        parent = await env.start(orders_shared_and_own, "waits")
        assert (await env.finish(parent)).outcome == "failed"
        await env.resolve(shared, go, "done")
        assert (await env.finish(shared)).value() == "done"
        Bank.is_open = True
        await env.client.retry(parent)
        assert (await env.finish(parent)).value() == ["done", "pay own"]


async def test_an_exit_that_its_parent_lacks_is_sent_before_the_child_runs_again() -> None:
    """The parent has failed by its other child."""
    async with Environment(ALL) as env:
        parent = await env.start(orders_shared_and_own, "tea")
        await env.drive(parent.execution_id)
        (child,) = await executions(env, keyed)
        with contextlib.suppress(Unavailable):
            await (await _failing(env, "signal")).worker.drive(child)
        (own,) = await executions(env, pays)
        await env.drive(own.execution_id)
        await env.drive(parent.execution_id)
        assert (await env.status(parent)).outcome == "failed"
        assert (await env.store.inner.read(child.execution_id)).owes
        Bank.is_open = True
        await env.client.retry(parent)
        await env.drive(parent.execution_id)
        assert (await env.finish(parent)).value() == ["pay tea", "pay own"]


async def test_a_late_driver_of_the_earlier_time_interrupts_no_child_that_runs_again() -> None:
    dropped: list[Any] = []

    async def note(*args: Any) -> None:
        dropped.append(args)
        await drop_child(*args)

    async with Environment(ALL) as env:
        parent = await env.start(orders_many, "tea")
        with mock.patch("engine.driving.children.drop_child", note):
            await env.finish(parent)
        await env.client.retry(parent)
        Bank.is_open = True
        await env.settle()
        for args in dropped:
            await drop_child(*args)
        (child,) = await executions(env, waits)
        assert dropped
        assert not child.interrupted
        await env.resolve(child.execution_id, go, "long")
        assert (await env.finish(parent)).value() == "waited long, pay tea 0, pay tea 1"
