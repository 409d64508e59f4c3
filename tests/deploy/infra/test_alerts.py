"""The alerts see what the engine really writes, each what it is for; and they watch functions that there are."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from engine import Deferred, Settings, activity, workflow
from engine.testing import Environment
from tests.deploy.infra.bicep import INFRA, Each, read
from tests.deploy.infra.code import ROOT, trigger
from tests.deploy.infra.kql import select
from tests.support import documents

ALERTS = read(INFRA / "modules/alerts.bicep")
QUERIES: dict[str, str] = {alert["name"]: alert["query"] for alert in ALERTS.of("var")["lookFor"].value}
MAX_OVERDUE = ALERTS.of("param")["maxOverdueSeconds"].value
OF_TRACES = {name for name, query in QUERIES.items() if query.startswith("traces")}

signal = Deferred("alerts.signal", str)


@activity(name="alerts_step")
async def step() -> str:
    """A step."""
    return "done"


@activity(name="alerts_broken_step")
async def broken_step() -> str:
    """A step that fails."""
    raise ConnectionError("suspended: by nobody")


@workflow(name="alerts_waits")
async def waits() -> str:
    """A step, then a value from outside."""
    workflow.logger.error("the shop is suspended: times in a row")
    return await step() + await signal


@workflow(name="alerts_waits")
async def changed() -> str:
    """The same, without the step."""
    return await signal


@workflow(name="alerts_holds", suspend_on_failure=True)
async def holds() -> str:
    """Waits for someone to mend what it needs."""
    return await broken_step()


@workflow(name="alerts_fails")
async def fails() -> str:
    """Ends as failed: an answer, not an alarm."""
    return await broken_step()


async def _killed(env: Environment) -> None:
    """Its drivers die, again and again."""
    id = (await env.start(waits)).execution_id
    for _ in range(env.settings.max_claims):
        execution, now = await env.store.read(id), env.clock.now()
        await env.store.replace(documents.claimed(execution, now, "dies", env.settings.lease, env.settings.skew))
        env.clock.advance(env.settings.lease + 2 * env.settings.skew)
    assert (await env.drive(id)).suspended


async def _changed(env: Environment) -> None:
    """Its code no longer fits its history."""
    id = await env.start(waits)
    await env.drive(id)
    env.deploy([changed, fails])
    await env.resolve(id, signal, "go")
    assert (await env.drive(id)).cause is not None


async def _held(env: Environment) -> None:
    """A step failed for good, and its workflow is one that waits then."""
    assert (await env.drive(await env.start(holds))).cause is not None


async def _late(env: Environment) -> None:
    """Nobody swept for a while."""
    await env.start(waits)
    env.clock.advance(env.settings.sweep_new_after + timedelta(seconds=MAX_OVERDUE + 1))
    await env.worker.sweep()


async def _unknown(env: Environment) -> None:
    """This deployment has no such workflow."""
    id = await env.start(waits)
    env.deploy([fails])
    await env.drive(id)


async def _unreadable(env: Environment) -> None:
    """A document that is no execution of ours."""
    await env.worker.drive_changes([{"id": "exec", "executionId": "x"}])


async def _blocked(env: Environment) -> None:
    """An async activity that lets nothing else run, until somebody notices."""
    noticed = threading.Event()

    class Noticing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            noticed.set()

    @activity(name="alerts_blocking_step")
    async def blocking_step() -> bool:
        return noticed.wait(30)

    @workflow(name="alerts_blocks")
    async def blocks() -> bool:
        return await blocking_step()

    handler, log = Noticing(logging.WARNING), logging.getLogger("engine")
    log.addHandler(handler)
    try:
        async with Environment([blocks], settings=Settings(blocked_after=timedelta(milliseconds=20))) as watched:
            assert (await watched.run(blocks)).value() is True
    finally:
        log.removeHandler(handler)


async def _poison(_: Environment) -> None:
    """The host's own line, when a message has failed too often."""
    logging.getLogger("engine").info(
        "Message has reached MaxDequeueCount of 5. Moving message to queue 'hints-poison'."
    )


async def _ordinary(env: Environment) -> None:
    """A failure, a wait, a sweep that is in time."""
    await env.drive(await env.start(fails))
    await env.start(waits)
    env.clock.advance(env.settings.sweep_new_after + timedelta(seconds=10))
    await env.worker.sweep()


@pytest.mark.parametrize(
    ("story", "raised"),
    [
        (_killed, {"quarantined"}),
        (_changed, {"suspended-by-fault"}),
        (_held, {"suspended-by-fault"}),
        (_late, {"overdue"}),
        (_unknown, {"left-alone"}),
        (_unreadable, {"left-alone"}),
        (_blocked, {"blocked"}),
        (_poison, {"poison"}),
        (_ordinary, set()),
    ],
)
async def test_each_alert_sees_what_it_is_for(
    story: Callable[[Environment], Awaitable[None]], raised: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "engine")
    async with Environment([waits, holds, fails]) as env:
        await story(env)
    messages = [record.getMessage() for record in caplog.records]
    assert messages
    queries = {name: QUERIES[name].replace("MAX_OVERDUE", str(MAX_OVERDUE)) for name in OF_TRACES}
    assert {name for name, query in queries.items() if select(query, messages)} == raised


def test_every_alert_on_messages_has_a_story() -> None:
    assert {"quarantined", "suspended-by-fault", "overdue", "left-alone", "blocked", "poison"} == OF_TRACES


def test_alerts_watch_functions_that_there_are() -> None:
    queries = " ".join(QUERIES[name] for name in QUERIES.keys() - OF_TRACES)
    named = set(re.findall(r"name == '(\w+)'", queries))
    for names in re.findall(r"name in \(([^)]+)\)", queries):
        named |= set(re.findall(r"'(\w+)'", names))
    assert named == {"drive_changes", "sweep", "drive_one"}
    for name in named:
        trigger(name)


def test_every_alert_tells_the_people() -> None:
    queries = ALERTS.of("resource")["queries"].value
    assert isinstance(queries, Each)
    assert queries.body["properties"]["actions"] == {"actionGroups": ["people.id"]}
    assert ALERTS.of("resource")["throttling"].value["properties"]["actions"] == [{"actionGroupId": "people.id"}]


@pytest.mark.parametrize(("environment", "kept"), [("", "a warning\nan error\n"), ("Development", "")])
def test_warnings_also_go_to_stderr_where_the_platform_keeps_them(environment: str, kept: str) -> None:
    """A drive that outlives its invocation logs for nobody otherwise. The local host has a log of its own."""
    source = (
        "import function_app, logging, sys; logging.basicConfig(stream=sys.stdout, level=0); "
        "log = logging.getLogger('engine'); log.info('a detail'); log.warning('a warning'); log.error('an error')"
    )
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("COSMOS", "ENGINE_"))}
    ran = subprocess.run(
        [sys.executable, "-c", source],
        cwd=ROOT,
        env=settings | {"AZURE_FUNCTIONS_ENVIRONMENT": environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == kept
    assert "a detail" in ran.stdout
