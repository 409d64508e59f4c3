"""What the chaos run found in the ending of a process, each forced on its own."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from devhost.host import Host, Options
from devhost.settings import HostSettings
from engine import Workflow, activity, workflow
from engine.ground.errors import Unavailable
from engine.testing import Call, Environment
from engine.testing.environment import TEST_SETTINGS
from tests.devhost.support import FakeClock, load_app
from tests.support.gates import Gate
from tests.support.processes import Process, away, fed, until

HANGS = 20
"""Seconds after which what should have come to an end never will."""


working = Gate()
passed: list[str] = []
"""Which executions came past it."""


@pytest.fixture(autouse=True)
async def _nothing_has_passed() -> None:
    passed.clear()
    working.close()


@activity
async def draining_wait() -> str:
    await working.passed()
    return "waited"


@activity
async def draining_pass() -> str:
    passed.append(activity.info().execution_id)
    return "passed"


@workflow
async def draining_both() -> list[str]:
    return [await draining_wait(), await draining_pass()]


@workflow
async def draining_short() -> str:
    return await draining_pass()


WORKFLOWS: list[Workflow[Any, Any]] = [draining_both, draining_short]


async def test_a_worker_that_drains_ends_what_runs_and_claims_no_more() -> None:
    """Told to stop, and not yet closed: the result of the activity in hand is recorded, the execution is given back
    before its next step, and who waits for a place gets none."""
    settings = dataclasses.replace(TEST_SETTINGS, max_held=1)
    async with Environment(WORKFLOWS, settings=settings) as env:
        busy, queued = (await env.start(draining_both)).execution_id, (await env.start(draining_short)).execution_id
        first = Process(env)
        drives = [await first.drive(busy), await first.drive(queued)]
        await working.reached.wait()
        first.worker.drain()
        working.open()
        await asyncio.gather(*drives)
        given_back = await env.store.inner.read(busy)
        assert (given_back.worker, given_back.suspended, given_back.claims) == (None, False, 0)
        assert len((await env.store.inner.load(busy)).chunks) == 1
        assert first.store.count("replace") == 1
        assert passed == []
        assert (await env.drive(busy)).value() == ["waited", "passed"]
        assert (await env.drive(queued)).value() == "passed"


async def test_nobody_waits_for_the_end_in_a_process_that_drains() -> None:
    """`?wait=` answers how the execution stands: the caller asks another host."""
    async with Environment(WORKFLOWS) as env:
        id = (await env.start(draining_both)).execution_id
        first = Process(env)
        driving = await first.drive(id)
        await working.reached.wait()
        waiting = asyncio.ensure_future(first.client.wait(id, timedelta(days=1)))
        await asyncio.sleep(0)
        first.worker.drain()
        working.open()
        await driving
        async with asyncio.timeout(HANGS):
            assert not (await waiting).is_complete


async def _refuse_claims(call: Call) -> None:
    if call.method == "replace":
        raise away(call)


async def test_a_batch_that_the_store_refuses_is_one_error() -> None:
    """Each of its claims fails: one of the errors is raised, and none is left for asyncio to complain of."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    async with Environment(WORKFLOWS) as env:
        ids = [(await env.start(draining_short)).execution_id for _ in range(5)]
        first = Process(env)
        first.store.before = _refuse_claims
        with pytest.raises(Unavailable):
            await first.worker.drive_changes(await fed(env, *ids))
        assert first.store.count("replace") == len(ids)
        gc.collect()
        await asyncio.sleep(0)
        assert complaints == []


APP = """
import asyncio
from tests.support.gates import Gate

class Runtime:
    def __init__(self):
        self.events = []
        self.gate = asyncio.Event()
    def drain(self):
        self.events.append("drained")
        self.gate.set()
        {more}
    async def close(self):
        self.events.append("closed")

runtime = Runtime()

@app.timer_trigger(arg_name="timer", schedule="0 * * * * *", run_on_startup=True)
async def sweep(timer: func.TimerRequest) -> None:
    runtime.events.append("runs")
    await runtime.gate.wait()
    runtime.events.append("ran")
"""


@pytest.mark.parametrize("more", ["", "raise RuntimeError('its own fault')"], ids=["well", "raising"])
async def test_a_host_tells_the_engine_before_it_waits(
    more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs can come to an end because the engine knows; were it told only afterwards, this would wait for ever."""
    monkeypatch.syspath_prepend(str(tmp_path))
    app = load_app(tmp_path, APP.replace("{more}", more))
    host = Host(app, HostSettings(), Options(port=0, grace_seconds=3600), FakeClock())
    await host.start()
    runtime = app.module.runtime
    await until(lambda: bool(runtime.events))
    async with asyncio.timeout(HANGS):
        await host.stop()
    assert runtime.events == ["runs", "drained", "ran", "closed"]
