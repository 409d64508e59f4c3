"""A start that is driven where it is made is created as claimed: one request fewer, and a lease like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from engine import Deferred, workflow
from engine.boundary.client import Client
from engine.ground.errors import Taken, Unavailable
from engine.store.documents import INLINE_BYTES, Execution
from engine.testing import Call, Environment
from tests.support.crashes import check_history, echo, ledger
from tests.support.gates import Gate, nth
from tests.support.mortal import Death, deaths, dying_store
from tests.support.processes import PAST_LEASE, Process, fed, until

pytestmark = pytest.mark.usefixtures("every_store")

driven_answer = Deferred("driven.answer", str)
LARGE = "x" * INLINE_BYTES


@workflow(idempotency_key=lambda text: "the order")
async def driven_order(text: str) -> str:
    """Two steps, and a third one after a value if the text says so."""
    done = await echo(text[:5]) + await echo("!")
    return await driven_answer + done if text == "waits" else done


async def _newest(env: Environment) -> Execution:
    return await env.store.inner.read(env.client.handle(driven_order, key="the order").execution_id)


async def _die_at(env: Environment, text: str, death: Death | None) -> tuple[list[Call], bool]:
    """One process starts and drives the order, and dies in that call. Returns its calls, and whether it died."""
    store, dead = dying_store(env.store.inner, death, lambda _: None)
    worker = env.new_worker(store)
    client = Client(store, env.registry, env.settings, env.clock, worker)
    asking, dying = asyncio.create_task(client.execute(driven_order, text)), asyncio.create_task(dead.wait())
    await asyncio.wait([asking, dying], return_when=asyncio.FIRST_COMPLETED)
    worker.die()
    for task in (asking, dying):
        task.cancel()
    await asyncio.wait([asking, dying])
    return store.calls, dead.is_set()


@pytest.mark.sqlite_only("each store call would be a request")
@pytest.mark.parametrize("text", ["small", LARGE], ids=["small", "large"])
async def test_a_creator_may_die_at_every_call(text: str) -> None:
    """Whoever comes after it, by the sweep or by the same start, brings the execution to the same end."""
    async with Environment([driven_order]) as env:
        calls, _ = await _die_at(env, text, None)
    assert [call.method for call in calls if call.method != "load"] == ["create", "append", "commit", "read"]
    for death in deaths(len(calls)):
        ledger.ran.clear()
        async with Environment([driven_order]) as env:
            _, died = await _die_at(env, text, death)
            assert died, death
            env.clock.advance(PAST_LEASE)
            await env.worker.sweep()
            assert await env.client.execute(driven_order, text) == text[:5] + "!", death
            ended = await _newest(env)
            assert (ended.outcome, ended.worker, ended.claims) == ("completed", None, 0)
            assert len(ledger.ran) <= 3, "more than the step under way ran again"
            await check_history(env, ended.execution_id)


async def test_a_new_execution_is_held_like_any_other() -> None:
    """Its claim counts, and its dueAt is the lease's end: the feed and the sweep leave it alone until then, and then
    one of them takes over."""
    async with Environment([driven_order]) as env:
        creator, other = Process(env), Process(env)
        gate = creator.store.after = Gate(nth("create"))
        asking = asyncio.create_task(creator.client.execute(driven_order, "small"))
        await gate.reached.wait()
        born = await _newest(env)
        assert born.claims == 1
        assert born.worker is not None
        assert born.lease_expires_at == env.clock.now() + env.settings.lease
        assert born.due_at == env.clock.now() + env.settings.lease + env.settings.skew
        await other.worker.drive_changes(await fed(env, born.execution_id))
        env.clock.advance(env.settings.lease)
        await other.worker.sweep()
        assert await _newest(env) == born
        assert ledger.ran == []
        env.clock.advance(PAST_LEASE)
        await other.worker.sweep()
        assert ledger.ran == ["echo", "echo#2"]
        gate.open()
        assert await asking == "small!"
        assert ledger.ran == ["echo", "echo#2"], "the creator found that it has lost its lease"
        await check_history(env, born.execution_id)


@pytest.mark.parametrize("first", ["created", "starts its step"])
async def test_a_second_start_finds_it_held(first: str) -> None:
    """H4: two processes start the same and drive it: whoever comes second waits for the first one's end."""
    async with Environment([driven_order]) as env:
        creator, other = Process(env), Process(env)
        gate = Gate(nth("create" if first == "created" else "append"))
        creator.store.after = gate
        asking = asyncio.create_task(creator.client.execute(driven_order, "small"))
        await gate.reached.wait()
        held = await _newest(env)
        again = asyncio.create_task(other.client.execute(driven_order, "small"))
        await until(lambda: other.store.count("read") > 1)
        assert await _newest(env) == held
        assert other.worker.running(held.execution_id) is None
        gate.open()
        assert await asking == "small!"
        env.clock.advance(timedelta(seconds=1))
        assert await again == "small!"
        assert ledger.ran == ["echo", "echo#2"]


async def test_without_a_place_it_is_created_for_anybody() -> None:
    """A start never waits for a place with a lease that nobody extends: it is stored at once, and unclaimed."""
    async with Environment([driven_order]) as env:
        creator, other = Process(env), Process(env)
        taken = [await creator.worker._places.enter() for _ in range(env.settings.max_drives)]
        status = await creator.client.start_json(driven_order.name, '"small"', drive=True)
        born = await _newest(env)
        assert (born.worker, born.claims, status.is_complete) == (None, 0, False)
        await other.worker.drive_changes(await fed(env, born.execution_id))
        assert (await _newest(env)).is_complete
        for place in taken:
            place.leave()
        await asyncio.wait(list(creator.worker._tasks))  # it has waited for a place, and finds nothing to do
        assert ledger.ran == ["echo", "echo#2"]


async def _resolve(env: Environment, id: str) -> None:
    await env.client.resolve(id, driven_answer, "yes: ")


async def _interrupt(env: Environment, id: str) -> None:
    await env.client.interrupt(id)


async def _terminate(env: Environment, id: str) -> None:
    await env.client.terminate(id)


@pytest.mark.parametrize(
    ("deed", "outcome"),
    [(None, None), (_resolve, "completed"), (_interrupt, "interrupted"), (_terminate, "terminated")],
    ids=["nothing", "a value", "an interrupt", "a termination"],
)
async def test_a_creation_that_looks_like_another_start_is_known_by_its_token(
    deed: Callable[..., object] | None, outcome: str | None
) -> None:
    """H7: its answer was lost, others have changed the document since, and the store says Taken. Nobody has to wait for
    the lease to expire."""
    async with Environment([driven_order]) as env:
        creator = Process(env)

        async def lose(call: Call) -> None:
            if call.method == "create" and call.of_method == 0:
                if deed is not None:
                    await deed(env, (await _newest(env)).execution_id)  # type: ignore[misc]
                raise Taken("there is one")

        creator.store.after = lose
        await creator.client.start_json(driven_order.name, '"waits"', drive=True)
        await asyncio.wait(list(creator.worker._tasks))
        ended = await _newest(env)
        assert (ended.outcome, ended.worker) == (outcome, None)
        if outcome == "completed":
            assert ended.completed_result == '"yes: waits!"'
        await check_history(env, ended.execution_id)


async def test_a_caller_that_goes_away_leaves_it_driven() -> None:
    """The request is cancelled while the creation is under way."""
    async with Environment([driven_order]) as env:
        creator = Process(env)
        gate = creator.store.after = Gate(nth("create"))
        asking = asyncio.create_task(creator.client.execute(driven_order, "small"))
        await gate.reached.wait()
        asking.cancel()
        await asyncio.wait([asking])
        gate.open()
        await asyncio.wait(list(creator.worker._tasks))
        assert (await _newest(env)).completed_result == '"small!"'
        assert creator.worker._places.free == env.settings.max_drives


async def test_a_worker_that_is_closed_meanwhile_lets_go_at_once() -> None:
    """The next driver needs no takeover. A worker that is closed already creates it for anybody."""
    async with Environment([driven_order]) as env:
        creator = Process(env)
        gate = creator.store.after = Gate(nth("create"))
        asking = asyncio.create_task(creator.client.start_json(driven_order.name, '"small"', drive=True))
        await gate.reached.wait()
        creator.worker.drain()
        gate.open()
        await asking
        await asyncio.wait(list(creator.worker._tasks))
        released = await _newest(env)
        assert (released.worker, released.claims, released.suspended) == (None, 0, False)
        assert ledger.ran == []
        assert (await env.finish(released.execution_id)).value() == "small!"
        status = await creator.client.start_json(driven_order.name, '"small"', key="another", drive=True)
        assert (await env.store.inner.read(status.execution_id)).worker is None


async def test_a_worker_that_ends_before_the_answer_says_so() -> None:
    """The caller doesn't wait for ever, and may start it again."""
    async with Environment([driven_order]) as env:
        worker = env.new_worker()
        stuck = Gate(lambda call: call.method == "create")
        env.store.before = stuck
        client = Client(env.store, env.registry, env.settings, env.clock, worker)
        asking = asyncio.create_task(client.execute(driven_order, "small"))
        await stuck.reached.wait()
        worker.die()
        with pytest.raises(Unavailable, match="start it again"):
            await asking


async def test_a_client_without_a_worker_stores_nothing() -> None:
    """What can't be driven here isn't started."""
    async with Environment([driven_order]) as env:
        client = Client(env.store, env.registry, env.settings, env.clock, None)
        with pytest.raises(RuntimeError, match="no worker"):
            await client.execute(driven_order, "small")
        with pytest.raises(RuntimeError, match="no worker"):
            await client.start_json(driven_order.name, '"small"', drive=True)
        assert env.store.count("create") == 0
