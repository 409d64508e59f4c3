"""Spans and metrics: which there are, how they hang together, and what they must not tell."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import azure.functions as func
import pytest
from opentelemetry import trace

from engine import Deferred, Retry, Runtime, activity, workflow
from engine.boundary.functions import blueprint
from engine.ground import telemetry
from engine.store.base import Filter
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment
from tests.deploy.infra.code import ROOT
from tests.support.processes import fed
from tests.support.telemetry import Recorded, record

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECRET = "a card number"

answer = Deferred("telemetry.answer", str)
seen: list[int] = []


@activity(name="telemetry_look")
async def look(secret: str) -> str:
    """Says which span it runs in."""
    seen.append(trace.get_current_span().get_span_context().span_id)
    return secret


@activity(name="telemetry_look_sync")
def look_sync() -> None:
    """The same, in a thread."""
    seen.append(trace.get_current_span().get_span_context().span_id)


@activity(name="telemetry_flaky", retry=Retry(max_attempts=3, first_delay=timedelta(seconds=1)))
async def flaky(secret: str) -> None:
    """Fails twice."""
    seen.append(0)
    if len(seen) < 3:
        raise ConnectionError(secret)


@workflow(name="telemetry_child")
async def child() -> None:
    """A child that does a step."""
    await look("x")


@workflow(name="telemetry_parent")
async def parent(secret: str) -> str:
    """Does steps, waits for a child and then for the outside."""
    await look(secret)
    await look_sync()
    await child()
    return await answer


@workflow(name="telemetry_retries")
async def retries(secret: str) -> None:
    """Does a step that needs three attempts."""
    await flaky(secret)


@workflow(name="telemetry_stuck")
async def stuck() -> None:
    """Waits for nothing."""
    await asyncio.get_running_loop().create_future()


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    seen.clear()
    return record(monkeypatch)


async def test_a_callers_trace_goes_into_the_execution_its_steps_and_its_children(recorded: Recorded) -> None:
    """The first segment belongs to it; a segment after a suspension has a trace of its own, linked to it."""
    async with Environment([parent, child]) as env:
        with telemetry.continued(CALLER):
            id = (await env.start(parent, SECRET)).execution_id
        await env.settle()
        first, *later = recorded.spans("drive telemetry_parent")
        assert (first.trace_id, first.parent) == (int(CALLER[3:35], 16), int(CALLER[36:52], 16))
        steps = [*recorded.spans("activity telemetry_look"), *recorded.spans("activity telemetry_look_sync")]
        mine = [span for span in steps if span.attributes["durable.execution_id"] == id]
        assert {span.parent for span in mine} == {first.span_id}
        assert {span.span_id for span in steps} == set(seen), "activities run inside of their spans"
        (of_child,) = recorded.spans("drive telemetry_child")
        assert (of_child.trace_id, of_child.parent) == (first.trace_id, first.span_id)
        await env.resolve(id, answer, "yes")
        await env.finish(id)
        (*_, last) = recorded.spans("drive telemetry_parent")
        assert later or last is not first
        assert last.trace_id != first.trace_id
        assert last.parent is None
        assert last.links == (int(CALLER[36:52], 16),)
        assert last.attributes["durable.status"] == "complete"


async def test_each_attempt_is_a_span_and_is_counted(recorded: Recorded) -> None:
    async with Environment([retries]) as env:
        await env.finish(await env.start(retries, SECRET))
    spans = recorded.spans("activity telemetry_flaky")
    assert [span.attributes["durable.attempt"] for span in spans] == [1, 2, 3]
    assert [span.attributes.get("error.type") for span in spans] == ["ConnectionError", "ConnectionError", None]
    assert [span.is_error for span in spans] == [True, True, False]
    assert recorded.totals("durable.activity.attempts", "outcome") == {("failed",): 2, ("completed",): 1}
    assert recorded.totals("durable.activity.retries", "activity") == {("telemetry_flaky",): 2}


async def test_executions_are_counted_by_how_they_end_and_why_they_stand_still(recorded: Recorded) -> None:
    async with Environment([parent, child, retries, stuck]) as env:
        await env.finish(await env.start(retries, SECRET))
        waiting, hopeless = (await env.start(parent, SECRET)).execution_id, (await env.start(stuck)).execution_id
        await env.settle()
        await env.client.terminate(waiting)
        await env.client.interrupt(hopeless)
        await env.settle()
    ended = recorded.totals("durable.executions.ended", "workflow", "outcome")
    assert ended == {
        ("telemetry_retries", "completed"): 1,
        ("telemetry_child", "completed"): 1,
        ("telemetry_parent", "terminated"): 1,
        ("telemetry_stuck", "interrupted"): 1,
    }
    assert recorded.totals("durable.executions.suspended", "workflow", "cause") == {("telemetry_stuck", "Stuck"): 1}
    assert recorded.totals("durable.drives") == {(): 0}


async def test_the_feed_and_the_sweep_tell_how_late_they_are(recorded: Recorded) -> None:
    async with Environment([retries]) as env:
        await env.worker.sweep()
        id = (await env.start(retries, SECRET)).execution_id
        batch = await fed(env, id)
        env.clock.advance(timedelta(seconds=90))
        await env.worker.sweep()
        await env.worker.drive_changes(batch)
        (overdue,), (lag,) = recorded.points("durable.sweep.overdue"), recorded.points("durable.feed.lag")
        assert (overdue.count, overdue.min, overdue.max) == (2, 0, 85)
        assert (lag.count, lag.max) == (1, 90)


async def test_no_value_no_key_and_no_message_is_told(recorded: Recorded) -> None:
    async with Environment([retries, parent, child]) as env:
        await env.start(retries, SECRET)
        await env.start(parent, SECRET, key=SECRET)
        await env.settle()
    told = [span.to_json() for span in recorded.exporter.get_finished_spans()]
    assert told
    assert SECRET not in "".join(told)


@pytest.mark.parametrize("header", [CALLER, "", "00-zz-1-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 9_000])
async def test_a_start_over_http_takes_the_header(recorded: Recorded, header: str) -> None:
    """What can't be read is no trace, and no error."""
    runtime = Runtime([parent, child], lambda: SqliteStore(":memory:"))
    app = func.FunctionApp()
    app.register_functions(blueprint(runtime))
    functions = {f.get_function_name(): f.get_user_function() for f in app.get_functions()}
    request = func.HttpRequest(
        method="POST",
        url="https://app.example/api/workflows/telemetry_parent",
        headers={"traceparent": header},
        route_params={"name": "telemetry_parent"},
        body=b'"x"',
    )
    assert (await functions["start"](request)).status_code == 202
    (found,) = (await runtime.client.list(Filter(), 1)).executions
    stored = (await runtime.client.read(found.execution_id)).traceparent
    assert stored == (CALLER if header == CALLER else None)
    await runtime.close(timedelta(0))


def test_without_the_package_nothing_is_told_and_everything_runs() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import pytest\n"
        "from engine.ground import telemetry\n"
        "assert not telemetry.IS_PRESENT\n"
        "sys.exit(pytest.main(['-q', '-n', '0', '-p', 'no:cacheprovider', 'tests/rules/timers/test_sleeping.py']))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "spanning",
    [
        lambda: telemetry.continued(CALLER),
        lambda: telemetry.segment("e", "telemetry_free", None, is_first=True),
        lambda: telemetry.attempt("telemetry_free", "e", "s", 1),
        lambda: telemetry.request("free"),
    ],
    ids=["continued", "segment", "attempt", "request"],
)
def test_what_is_freed_half_way_leaves_no_complaint(
    spanning: Callable[[], AbstractContextManager[Any]], recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    """As when an event loop is dropped with its tasks: the coroutine is closed in another context than it ran in."""

    async def half_way() -> None:
        with spanning():
            await asyncio.sleep(0)

    coroutine = half_way()
    contextvars.Context().run(coroutine.send, None)
    coroutine.close()
    assert not caplog.records
    assert not trace.get_current_span().get_span_context().is_valid
    assert recorded.totals("durable.drives") in ({}, {(): 0})


async def test_what_is_cancelled_has_its_own_span_back(recorded: Recorded) -> None:
    """And so has what fails."""
    for error in (asyncio.CancelledError, ValueError, KeyboardInterrupt):
        with telemetry.continued(CALLER):
            around = trace.get_current_span()
            with pytest.raises(error), telemetry.request("fails"):
                raise error
            assert trace.get_current_span() is around
    assert [span.attributes["error.type"] for span in recorded.spans("store fails")] == [
        "CancelledError",
        "ValueError",
        "KeyboardInterrupt",
    ]
