"""The alerts see what the engine really writes, each what it is for; and they watch functions that there are.

No query names a word of a message: the platform hands the alerts fields, as JSON on stderr or as custom dimensions.
"""

from __future__ import annotations

import io
import json
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
from engine.boundary.hints import MAX_DELIVERIES, noticing_poison
from engine.boundary.json_lines import MAX_CHARACTERS, JsonLines, keep_on_stderr
from engine.driving.hand_overs import Hint
from engine.driving.notices import Notice
from engine.ground.errors import Unavailable
from engine.testing import Environment
from tests.deploy.infra.bicep import INFRA, Each, read
from tests.deploy.infra.code import ROOT, trigger
from tests.deploy.infra.kql import fields_asked, select
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
    """The last delivery of a hint fails."""
    with pytest.raises(Unavailable), noticing_poison(Hint("0" * 32), MAX_DELIVERIES):
        raise Unavailable("nobody answers")


async def _ordinary(env: Environment) -> None:
    """A failure, a wait, a sweep that is in time, a hint that comes again, and sentences that look like a notice."""
    logging.getLogger("engine").error("execution x: suspended: the event loop has stood still and is left alone")
    with pytest.raises(Unavailable), noticing_poison(Hint("0" * 32), MAX_DELIVERIES - 1):
        raise Unavailable("nobody answers")
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
    story: Callable[[Environment], Awaitable[None]],
    raised: set[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On stderr, as the Functions host keeps it; and as custom dimensions, as OpenTelemetry exports them."""
    caplog.set_level(logging.INFO, "engine")
    kept = io.StringIO()
    monkeypatch.setattr(sys, "stderr", kept)
    monkeypatch.setattr(logging.getLogger("engine"), "handlers", [])
    keep_on_stderr(logging.getLogger("engine"))
    async with Environment([waits, holds, fails]) as env:
        await story(env)
    lines = kept.getvalue().splitlines()
    plain = [record.getMessage() for record in caplog.records]
    assert lines
    platform = [{"message": message, "customDimensions": {}} for message in [*lines, *plain]]
    exported = [{"message": r.getMessage(), "customDimensions": _dimensions(r)} for r in caplog.records]
    queries = {name: QUERIES[name].replace("MAX_OVERDUE", str(MAX_OVERDUE)) for name in OF_TRACES}
    assert {name for name, query in queries.items() if select(query, platform)} == raised
    assert {name for name, query in queries.items() if select(query, exported)} == raised


def _dimensions(record: logging.LogRecord) -> dict[str, str]:
    if not hasattr(record, "notice"):
        return {}
    line = json.loads(JsonLines().format(record))
    return {name: str(value) for name, value in line.items() if name not in ("message", "level", "logger")}


def test_every_alert_on_log_lines_asks_for_a_notice_and_has_a_story() -> None:
    assert {"quarantined", "suspended-by-fault", "overdue", "left-alone", "blocked", "poison"} == OF_TRACES
    asked = {notice for name in OF_TRACES for notice in re.findall(r"fields\.notice == '(\w+)'", QUERIES[name])}
    assert asked == set(Notice)
    assert {field for name in OF_TRACES for field in fields_asked(QUERIES[name])} == {"cause", "overdue_seconds"}
    for query in QUERIES.values():
        assert not re.search(r"\bmessage\b(?!\))", query), "an alert looks at a sentence"


def test_the_last_delivery_is_that_of_host_json() -> None:
    host = json.loads((ROOT / "host.json").read_text("utf-8"))
    assert host["extensions"]["queues"]["maxDequeueCount"] == MAX_DELIVERIES


def test_a_kept_line_is_short_enough_to_be_read_and_tells_its_error() -> None:
    """Application Insights cuts a message at 32,768 characters."""
    try:
        raise ValueError("x" * 50_000)
    except ValueError as error:
        record = logging.LogRecord("engine", logging.ERROR, "", 0, "%s\nsecond line", ("é" * 50_000,), None)
        record.__dict__ |= {"left_alone": "z" * 50_000, "overdue_seconds": 1.5, "level": "mine", "odd": float("nan")}
        record.exc_info = (type(error), error, error.__traceback__)
    text = JsonLines().format(record)
    assert len(text) < 32_768
    assert len(text.splitlines()) == 1
    line = json.loads(text, parse_constant=pytest.fail)
    assert (line["level"], line["logger"], line["overdue_seconds"]) == ("ERROR", "engine", 1.5)
    half = MAX_CHARACTERS // 2
    assert line["message"] == f"{'é' * half} … {'é' * (half - 12)}\nsecond line"
    assert "ValueError" in line["exception"]


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


@pytest.mark.parametrize(("environment", "kept"), [("", ["a warning", "an error", "a notice"]), ("Development", [])])
def test_warnings_and_notices_go_to_stderr_where_the_platform_keeps_them(environment: str, kept: list[str]) -> None:
    """As JSON, with their fields, once each. A drive that outlives its invocation logs for nobody otherwise. The local
    host has a log of its own."""
    source = (
        "import function_app, logging, sys; logging.basicConfig(stream=sys.stdout, level=0); "
        "log = logging.getLogger('engine'); log.info('a detail'); log.warning('a warning', extra={'step': 's'}); "
        "log.error('an error', extra={'step': 's'}); log.info('a notice', extra={'notice': 'n', 'step': 's'}); "
        "from engine.boundary.functions import blueprint; blueprint(function_app.runtime); log.info('a detail')"
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
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [(line["message"], line["step"]) for line in lines] == [(message, "s") for message in kept]
    assert "a detail" in ran.stdout
