"""A rolling update: an old and a new deployment at work on one store, each with what it knows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from engine import Deferred, Workflow, activity, workflow
from engine.boundary.client import Client
from engine.core.registry import Registry
from engine.driving.worker import Worker
from engine.store.base import Filter
from engine.testing import Environment

go = Deferred("two_versions.go", str)
last = Deferred("two_versions.last", str)
runs: list[str] = []


@activity(name="two_versions_step")
async def step(text: str) -> str:
    """A step, written down."""
    runs.append(text)
    return text


@workflow(name="two_versions", version="1")
async def first() -> str:
    """As it was."""
    return f"{await step('a')} {await go}"


@workflow(name="two_versions", version="2")
async def second() -> str:
    """As it is now, beside the other."""
    return f"{await go} {await step('b')}"


@workflow(name="two_versions", version="1")
async def first_and_more() -> str:
    """The old version with one more step behind what is recorded: compatible forwards, not backwards."""
    return f"{await step('a')} {await go} {await step('c')} {await last}"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    runs.clear()


class Deployment:
    """A process of one version of the code, on the store of an environment."""

    def __init__(self, env: Environment, workflows: Sequence[Workflow[Any, Any]]) -> None:
        self._env = env
        registry = Registry(workflows)
        self.worker = Worker(env.store, registry, env.settings, env.clock)
        self.client = Client(env.store, registry, env.settings, env.clock, self.worker)

    async def drive(self, id: str) -> Any:
        """Drive it as far as it goes. Returns its exec document."""
        await self.worker.drive(await self._env.store.read(id))
        return await self._env.store.read(id)


async def test_each_execution_goes_on_with_the_version_it_began_with() -> None:
    """New starts take the new version. The old deployment leaves those alone; the new one drives both."""
    async with Environment([]) as env:
        old, new = Deployment(env, [first]), Deployment(env, [first, second])
        begun = (await old.client.start("two_versions", key="begun before")).execution_id
        fresh = (await new.client.start("two_versions", key="begun after")).execution_id
        before = (await env.store.read(fresh)).etag
        assert (await old.drive(fresh)).etag == before
        assert (await new.drive(begun)).suspended
        assert (await new.drive(fresh)).suspended
        for id in (begun, fresh):
            await new.client.resolve(id, go, "go")
        assert (await old.drive(begun)).completed_result == '"a go"'
        assert (await new.drive(fresh)).completed_result == '"go b"'
        assert runs == ["a", "b"]


async def test_an_old_version_has_drained_when_none_of_it_runs() -> None:
    """What the runbook says to look for before the old code is taken away; and what happens if nobody looked."""
    async with Environment([]) as env:
        both, new_alone = Deployment(env, [first, second]), Deployment(env, [second])
        id = (await Deployment(env, [first]).client.start("two_versions")).execution_id
        await both.drive(id)
        running = (await both.client.list(Filter("two_versions", "running"))).executions
        assert [(execution.execution_id, execution.version) for execution in running] == [(id, "1")]
        await new_alone.client.resolve(id, go, "go")
        waiting = await new_alone.drive(id)
        assert (waiting.status, waiting.cause, waiting.worker) == ("running", None, None)
        assert (await both.drive(id)).outcome == "completed"
        assert not (await both.client.list(Filter("two_versions", "running"))).executions


async def test_old_code_after_new_suspends_and_the_new_carries_on() -> None:
    """A step that the old code doesn't have: nothing of the history changes, and `resume` on the new code cures it."""
    async with Environment([]) as env:
        old, new = Deployment(env, [first]), Deployment(env, [first_and_more])
        id = (await old.client.start("two_versions")).execution_id
        await old.drive(id)
        await new.client.resolve(id, go, "go")
        await new.drive(id)
        history = [chunk.events for chunk in (await env.store.load(id)).chunks]
        await new.client.resume(id)  # anything that wakes it
        fallen_back = await old.drive(id)
        assert fallen_back.suspended
        assert fallen_back.cause.type == "NonDeterminism"
        assert [chunk.events for chunk in (await env.store.load(id)).chunks] == history
        await new.client.resume(id)
        await new.client.resolve(id, last, "end")
        assert (await new.drive(id)).completed_result == '"a go c end"'
        assert runs == ["a", "c"]


async def test_both_deployments_awake_at_once_drive_it_once() -> None:
    """A claim excludes the other, whatever its version."""
    async with Environment([]) as env:
        old, new = Deployment(env, [first]), Deployment(env, [first, second])
        id = (await old.client.start("two_versions")).execution_id
        await asyncio.gather(old.drive(id), new.drive(id))
        assert runs == ["a"]
        await new.client.resolve(id, go, "go")
        await asyncio.gather(old.drive(id), new.drive(id))
        assert (await env.store.read(id)).completed_result == '"a go"'
