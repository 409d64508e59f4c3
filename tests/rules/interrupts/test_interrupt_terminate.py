"""Interrupt, terminate, purge and retention, with their races."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from engine import Deferred, Workflow, activity, compensate, workflow
from engine.ground.errors import NotEnded, UnknownExecution
from engine.store.documents import Chunk
from engine.testing import Environment
from tests.support.gates import Gate
from tests.support.mortal import assert_at_rest, do, everywhere, journal, rest
from tests.support.processes import Process
from tests.support.stored import purge

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

answer = Deferred("interrupt.answer", str)


class Stage:
    """What the test lets activities do."""

    working = Gate()
    cancelled: list[str]

    @classmethod
    def set(cls) -> None:
        journal.clear()
        cls.working.close()
        cls.cancelled = []


@activity
async def works() -> str:
    try:
        await Stage.working.passed()
    except asyncio.CancelledError:
        Stage.cancelled.append("works")
        raise
    return "late"


@workflow
async def acts() -> str:
    compensate(do, "undone")
    return await works()


@workflow
async def cleans_up() -> str:
    first = await do("first")
    try:
        return await answer
    except asyncio.CancelledError:
        await do(f"undo {first}")
        raise


@workflow
async def shields() -> str:
    try:
        return await answer
    finally:
        await asyncio.shield(cleanup())


async def cleanup() -> None:
    await do("one")
    await asyncio.sleep(3_600)
    await do("two")


@workflow(retention=timedelta(hours=1))
async def is_kept_an_hour() -> str:
    return await do("x")


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]


async def events(env: Environment, id: str) -> list[Any]:
    return [event for chunk in (await env.store.inner.load(id)).chunks for event in chunk.decoded()]


async def test_interrupted_before_it_began() -> None:
    """The interrupt lands between start and the first claim: the body sees it at its first wait; at every crash."""

    async def scenario(env: Environment) -> None:
        id = await env.start(cleans_up, key="k")
        await env.client.interrupt(id)
        assert (await env.finish(id)).outcome == "interrupted"
        assert journal.effects == []

    await everywhere(ALL, scenario)


@SLOW
async def test_interrupted_while_parked_and_not_in_memory() -> None:
    """E5: the body's own cleanup runs once, by a driver that never saw the beginning; at every crash."""

    async def scenario(env: Environment) -> None:
        id = await env.start(cleans_up, key="k")
        await rest(env)
        await env.client.interrupt(id)
        assert (await env.finish(id)).outcome == "interrupted"
        assert list(dict.fromkeys(journal.effects)) == ["first", "undo first"]
        await assert_at_rest(env)

    await everywhere(ALL, scenario)


@SLOW
async def test_shield_keeps_a_cleanup_going() -> None:
    """A second interrupt, and one more, leave it alone; it takes an hour and each step is done once; every crash."""

    async def scenario(env: Environment) -> None:
        id = await env.start(shields, key="k")
        await rest(env)
        for _ in range(3):
            assert (await env.client.interrupt(id)).interrupted
            await rest(env)
        assert (await env.finish(id)).outcome == "interrupted"
        assert list(dict.fromkeys(journal.effects)) == ["one", "two"]

    await everywhere(ALL, scenario)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in process", "from outside"])
async def test_terminate_loads_nothing_and_stops_the_drive(elsewhere: bool) -> None:
    """In mid-activity: that is cancelled, the driver writes nothing more, no compensation runs. A driver in another
    process hears of it at its heartbeat: its next write of the exec document is refused."""
    async with Environment(ALL) as env:
        Stage.set()
        id = (await env.start(acts)).execution_id
        driving = asyncio.create_task(env.drive(id))
        await Stage.working.reached.wait()
        calls = len(env.store.calls)
        client = Process(env, store=env.store).client if elsewhere else env.client
        assert (await client.terminate(id)).outcome == "terminated"
        assert {call.method for call in env.store.calls[calls:]} <= {"read", "replace"}
        ended = await env.store.inner.read(id)
        calls = len(env.store.calls)
        if elsewhere:
            env.clock.advance(env.settings.heartbeat)
        await driving
        assert {call.method for call in env.store.calls[calls:]} <= ({"read", "replace"} if elsewhere else {"read"})
        assert Stage.cancelled == ["works"]
        assert journal.effects == []
        assert await env.store.inner.read(id) == ended


async def broken(env: Environment, how: str) -> str:
    """An execution that nothing can be done with any more."""
    id = (await env.start(cleans_up)).execution_id
    if how == "history":
        await env.settle()
        await env.store.inner.append(Chunk(id="history::00000007", execution_id=id, events=[{"kind": "from later"}]))
    elif how == "workflow":
        env.deploy([acts])
    elif how == "code":
        await env.settle()
        env.deploy([acts, workflow(name="cleans_up")(acts.function)])
        await env.resolve(id, answer, "x")
        assert (await env.drive(id)).cause is not None
    return id


@pytest.mark.parametrize("how", ["history", "workflow", "code"])
async def test_terminate_works_on_what_is_broken(how: str) -> None:
    """A history that can't be read, an unknown workflow, code that doesn't fit: no `load`, and it ends."""
    async with Environment(ALL) as env:
        Stage.set()
        id = await broken(env, how)
        calls = len(env.store.calls)
        assert (await env.client.terminate(id)).outcome == "terminated"
        assert "load" not in [call.method for call in env.store.calls[calls:]]
        await env.settle()
        await assert_at_rest(env)
        await purge(env, id)
        with pytest.raises(UnknownExecution):
            await env.client.status(id)


async def test_what_is_kept_for_a_time_is_purged_by_the_sweep() -> None:
    """Retention runs from the end; not a document is left then, and not one goes before."""
    async with Environment(ALL) as env:
        kept, forever = (await env.start(is_kept_an_hour)).execution_id, (await env.start(cleans_up)).execution_id
        await env.drive(kept)
        await env.client.terminate(forever)
        env.clock.advance(timedelta(minutes=59))
        await env.worker.sweep()
        assert (await env.status(kept)).value() == "x"
        env.clock.advance(timedelta(minutes=2))
        await env.worker.sweep()
        with pytest.raises(UnknownExecution):
            await env.client.status(kept)
        loaded = await env.store.inner.load(kept)
        assert (loaded.chunks, loaded.inbox) == ([], [])
        env.clock.advance(timedelta(days=4_000))
        await env.worker.sweep()
        assert (await env.status(forever)).is_complete


async def test_what_runs_is_not_purged() -> None:
    """NotEnded, and nothing is deleted; unknown is unknown; purged and started again it is fresh (H5)."""
    async with Environment(ALL) as env:
        Stage.set()
        id = (await env.start(cleans_up, key="k")).execution_id
        await env.settle()
        with pytest.raises(NotEnded):
            await env.client.purge(id)
        await env.resolve(id, answer, "old")
        assert (await env.finish(id)).value() == "old"
        await purge(env, id)
        with pytest.raises(UnknownExecution):
            await env.client.purge(id)
        assert (await env.start(cleans_up, key="k")).execution_id == id
        assert not (await env.finish(id)).is_complete
        await env.resolve(id, answer, "new")
        assert (await env.finish(id)).value() == "new"
