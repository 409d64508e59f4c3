"""A patch is decided once for each run, where the code first asks for it, and is the same in every replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from engine import Channel, NonDeterminism, Workflow, activity, restart, workflow
from engine.testing import Environment, export, replay, survives
from engine.values.events import Patched, effective

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

rounds = Channel("patches.rounds", str)


@activity
async def patches_old(what: str) -> str:
    return f"old {what}"


@activity
async def patches_new(what: str) -> str:
    return f"new {what}"


@activity
async def patches_first(what: str) -> str:
    return what


def _order(says: Callable[[str], Awaitable[str]]) -> Workflow[Any, Any]:
    @workflow(name="patches.order")
    async def order(what: str) -> str:
        await patches_first(what)
        await asyncio.sleep(60)
        said = await says(what)
        await asyncio.sleep(60)
        return said

    return order


async def _either(what: str) -> str:
    return await (patches_new(what) if workflow.patched("new words") else patches_old(what))


async def _new_alone(what: str) -> str:
    workflow.deprecate_patch("new words")
    return await patches_new(what)


def _before() -> Workflow[Any, Any]:
    return _order(patches_old)


def _patched() -> Workflow[Any, Any]:
    return _order(_either)


def _deprecated() -> Workflow[Any, Any]:
    return _order(_new_alone)


def _after() -> Workflow[Any, Any]:
    return _order(patches_new)


async def _patches(env: Environment, id: str) -> list[tuple[str, int, bool]]:
    stored = await env.store.inner.read(id)
    loaded = await env.store.inner.load(id, stored.history_start)
    events = effective(event for chunk in loaded.chunks for event in chunk.decoded())
    return [(e.patch, e.turn, e.deprecated) for e in events if isinstance(e, Patched)]


@pytest.mark.parametrize(("sleeps", "said"), [(0, "new tea"), (1, "old tea")])
async def test_a_run_goes_the_old_way_if_it_had_passed_the_point(sleeps: int, said: str) -> None:
    """N9: what had got as far as the changed place stays with the code of then; what comes to it later doesn't."""
    async with Environment([_before()]) as env:
        id = (await env.start("patches.order", "tea")).execution_id
        await env.settle()
        for _ in range(sleeps):
            env.clock.advance(timedelta(seconds=61))
            await env.settle()
        env.deploy([_patched()])
        assert (await env.finish(id)).value() == said
        assert len(await _patches(env, id)) == 1 - sleeps
        replay(await export(env.store.inner, id), [_patched()])


@SLOW
async def test_a_patch_survives_every_crash() -> None:
    async def play(env: Environment) -> Any:
        id = (await env.start("patches.order", "tea")).execution_id
        return (await env.finish(id)).value()

    assert await survives([_patched()], play) == "new tea"


@SLOW
async def test_a_patch_in_the_first_turn_survives_every_crash() -> None:
    """Turn 0 has no event of its own: the patch alone is recorded, before the activity begins."""

    @workflow(name="patches.begins")
    async def begins() -> str:
        return await (patches_new("tea") if workflow.patched("a") else patches_old("tea"))

    async def play(env: Environment) -> Any:
        id = (await env.start("patches.begins")).execution_id
        env.crash_at("patches_new")
        status = await env.finish(id)
        return status.value(), await _patches(env, id), env.ran(id)[-1]

    assert await survives([begins], play) == ("new tea", [("a", 0, False)], "patches_new")


async def test_a_run_that_waits_in_its_first_turn_goes_the_old_way() -> None:
    """Nothing is recorded of it yet. But a driver let it go: the code has run up to there."""

    def code(is_patched: bool) -> Workflow[Any, Any]:
        @workflow(name="patches.waits")
        async def waits() -> float:
            seconds = 5 if is_patched and workflow.patched("shorter") else 3600
            await asyncio.sleep(seconds)
            return seconds

        return waits

    async with Environment([code(False)]) as env:
        id = (await env.start("patches.waits")).execution_id
        await env.settle()
        env.deploy([code(True)])
        assert (await env.finish(id)).value() == 3600
        assert await _patches(env, id) == []
        assert (await env.run("patches.waits", key="later")).value() == 5


async def test_a_loop_takes_the_patch_with_its_next_round_and_each_restart_asks_anew() -> None:
    """False in the rounds that are replayed, true from the first one that is new, and that is what a replay sees."""

    def code(is_patched: bool) -> Workflow[Any, Any]:
        @workflow(name="patches.loop")
        async def loop(before: list[str]) -> list[str]:
            said = list(before)
            async for what in rounds:
                if what == "stop":
                    return said
                if what == "again":
                    restart(said)
                new = is_patched and workflow.patched("new words")
                said.append(await (patches_new(what) if new else patches_old(what)))
            return said

        return loop

    async with Environment([code(False)]) as env:
        handle = await env.start("patches.loop", [])
        await env.client.send(handle, rounds, "a")
        await env.settle()
        env.deploy([code(True)])
        for what in ("b", "c"):
            await env.client.send(handle, rounds, what)
            await env.settle()
        await env.crash()
        [(_, turn, _)] = await _patches(env, handle.execution_id)
        assert turn > 2
        for what in ("again", "d", "stop"):
            await env.client.send(handle, rounds, what)
        assert (await env.finish(handle)).value() == ["old a", "new b", "new c", "new d"]
        assert len(await _patches(env, handle.execution_id)) == 1


async def test_deprecated_code_replays_what_has_the_patch_and_refuses_what_has_not() -> None:
    """The cure that the message names works: both ways again, and a resume."""
    async with Environment([_before()]) as env:
        old = (await env.start("patches.order", "tea")).execution_id
        await env.settle()
        env.clock.advance(timedelta(seconds=61))
        await env.settle()
        env.deploy([_patched()])
        new = (await env.start("patches.order", "milk")).execution_id
        await env.settle()
        env.clock.advance(timedelta(seconds=30))
        await env.settle()
        env.deploy([_deprecated()])
        status = await env.finish(old)
        assert status.cause is not None
        assert status.cause.type == "NonDeterminism"
        assert "deprecate_patch('new words')" in status.cause.message
        assert (await env.finish(new)).value() == "new milk"
        assert (await _patches(env, new)) == [("new words", 2, True)]
        env.deploy([_patched()])
        await env.client.resume(old)
        assert (await env.finish(old)).value() == "old tea"


async def test_what_a_deprecating_code_recorded_replays_with_the_patch_and_without() -> None:
    async with Environment([_deprecated()]) as env:
        status = await env.run("patches.order", "tea")
        recording = await export(env.store.inner, status.execution_id)
        for code in (_patched(), _deprecated(), _after()):
            assert replay(recording, [code]).outcome is not None


async def test_code_that_forgets_a_recorded_patch_is_told_to_deprecate_it() -> None:
    async with Environment([_patched()]) as env:
        status = await env.run("patches.order", "tea")
        recording = await export(env.store.inner, status.execution_id)
        replay(recording, [_deprecated()])
        with pytest.raises(NonDeterminism, match=r"deprecate_patch\('new words'\)"):
            replay(recording, [_after()])


async def test_a_patch_of_the_last_turn_outlives_the_failure_of_that_turn() -> None:
    """A retry replays the turn that failed: the patch that it recorded is kept."""

    class Till:
        is_broken = True

    @workflow(name="patches.fails")
    async def fails() -> str:
        await patches_first("tea")
        new = workflow.patched("a")
        if Till.is_broken:
            raise KeyError("price")
        return await (patches_new("tea") if new else patches_old("tea"))

    async with Environment([fails]) as env:
        id = (await env.start("patches.fails")).execution_id
        await env.settle()
        Till.is_broken = False
        await env.client.retry(id)
        assert (await env.finish(id)).value() == "new tea"


@pytest.mark.parametrize("id", ["", "a#1", "a" * 201, 5, "a\nb"])
async def test_an_id_that_cannot_be_recorded_is_refused(id: Any) -> None:
    @workflow(name="patches.odd")
    async def odd() -> bool:
        return workflow.patched(id)

    async with Environment([odd]) as env:
        status = await env.run("patches.odd")
        assert status.error is not None
        assert (status.error.type, "name of a patch" in status.error.message) == ("ValueError", True)


def test_outside_of_a_workflow_there_is_no_patch() -> None:
    for ask in (workflow.patched, workflow.deprecate_patch):
        with pytest.raises(RuntimeError, match="for the code of a workflow"):
            ask("a")


async def test_the_history_shows_a_patch() -> None:
    async with Environment([_patched()]) as env:
        id = (await env.run("patches.order", "tea")).execution_id
        data = json.loads(await export(env.store.inner, id))
        [event] = [e for chunk in data["history"] for e in chunk["events"] if e["kind"] == "patched"]
        assert event | {"at": ""} == {"kind": "patched", "patch": "new words", "turn": 2, "deprecated": False, "at": ""}
