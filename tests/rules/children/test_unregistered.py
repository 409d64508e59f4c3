"""A child that no app runs and an execution whose workflow is gone are shown: nobody waits for them without a word."""

from __future__ import annotations

import functools
import json
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine import Filter, Runtime, activity, workflow
from engine.boundary.answers import describe
from engine.boundary.history import pending
from engine.boundary.http import health
from engine.boundary.inspection import Inspections
from engine.core.registry import Registry
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment


@activity
async def unregistered_step() -> str:
    return "done"


@workflow
async def unregistered_child() -> str:
    return "the child's"


@workflow
async def calls_by_name(how: str) -> str:
    """The walk over the code can't see which child it will be."""
    child = globals()[how]
    return await unregistered_step() + " " + await child()


@workflow
async def calls_child() -> str:
    return await unregistered_child()


@workflow(name="unregistered_child", version="2")
async def later_child() -> str:
    return "the later child's"


@workflow(name="calls_child")
async def calls_later_child() -> str:
    return await later_child()


async def told(env: Environment) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((await health(cast(Runtime, SimpleNamespace(client=env.client)))).body)
    return body


async def test_a_child_that_no_app_runs_suspends_its_parent(caplog: pytest.LogCaptureFixture) -> None:
    """The cause names the step, the child and its place. No child is created. Deployed with it, the parent goes on."""
    async with Environment([calls_by_name]) as env:
        execution = await env.start(calls_by_name, "unregistered_child")
        status = await env.finish(execution)
        assert status.suspended
        assert status.cause is not None
        assert status.cause.type == "NotRegistered"
        words = f"step unregistered_child starts workflow 'unregistered_child' version '1' ({unregistered_child.place})"
        assert words in status.cause.message
        assert f"suspended: {words}" in caplog.text
        assert (await told(env))["stuck"] == {"NotRegistered": 1}
        assert len((await env.client.list(Filter(status="running"))).executions) == 1
        env.deploy([calls_by_name, unregistered_child])
        await env.client.resume(execution)
        assert (await env.finish(execution)).value() == "done the child's"
        assert env.ran() == ["unregistered_step"]


async def test_an_execution_whose_workflow_is_gone_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    """In its status, in a list, in health, and once in the log, with fields."""
    async with Environment([calls_child, unregistered_child]) as env:
        parent = await env.start(calls_child)
        await env.drive(parent)
        assert (await told(env))["leftAlone"] == {}
        env.deploy([calls_by_name])
        assert (
            await env.client.status(parent)
        ).left_alone == "this deployment lacks workflow 'calls_child' version '1'"
        env.clock.advance(env.settings.sweep_new_after)
        with caplog.at_level(logging.WARNING, "engine"):
            await env.worker.sweep()
            await env.worker.sweep()
        shown = await told(env)
        assert (shown["status"], shown["leftAlone"]) == ("attention", {"unregistered_child version 1": 1})
        (warned,) = caplog.records
        assert vars(warned)["workflow"] == "unregistered_child"
        assert vars(warned)["left_alone"] == "this deployment lacks workflow 'unregistered_child' version '1'"
        page = await env.client.list(Filter(status="running"))
        assert {describe(status)["leftAlone"] for status in page.executions} == {
            "this deployment lacks workflow 'unregistered_child' version '1'",
            "this deployment lacks workflow 'calls_child' version '1'",
        }
        env.deploy([calls_child, unregistered_child])
        ended = await env.finish(parent)
        assert (ended.value(), ended.left_alone) == ("the child's", None)


async def test_a_child_whose_version_is_gone_is_shown_where_its_parent_waits() -> None:
    """The parent's code calls a later version by now. What was begun stays with its own."""
    async with Environment([calls_child, unregistered_child]) as env:
        parent = (await env.start(calls_child)).execution_id
        await env.drive(parent)
        for workflows, why in (
            ([calls_child, unregistered_child], None),
            ([calls_later_child, later_child], "this deployment lacks workflow 'unregistered_child' version '1'"),
        ):
            env.deploy(workflows)
            look = functools.partial(Inspections().of, env.store, env.registry)
            app = SimpleNamespace(client=env.client, store=env.store, registry=env.registry, inspect=look)
            (step,) = (await pending(cast(Runtime, app), parent))["pending"]
            assert step["child"].get("leftAlone") == why
        env.deploy([calls_later_child, later_child, unregistered_child])
        assert (await env.finish(parent)).value() == "the child's"


async def test_a_child_may_be_run_by_another_app_on_the_same_store(caplog: pytest.LogCaptureFixture) -> None:
    """Declared so, it is created and waited for, and nobody is warned. Its own app has no part of the parent's."""
    store = SqliteStore(":memory:")
    async with Environment([calls_child], store, declares=[unregistered_child]) as env:
        parent = await env.start(calls_child)
        await env.drive(parent)
        env.clock.advance(env.settings.sweep_new_after)
        await env.worker.sweep()
        assert not caplog.records
        assert (await told(env))["leftAlone"] == {}
        other = Registry([unregistered_child], declares=[calls_child])
        env.registry, ours = other, env.registry
        worker = env.new_worker()
        await worker.sweep()
        await worker.close()
        env.registry = ours
        assert (await env.finish(parent)).value() == "the child's"
        assert not caplog.records
