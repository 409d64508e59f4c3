"""A schedule starts each occurrence once, in its zone, over crashes and deployments (`engine.core.schedules`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from engine import Channel, Filter, Handle, Plan, PlanChange, Runtime, Workflow, activity, schedule, workflow
from engine.core.plans import Overlap
from engine.core.registry import Registry
from engine.core.schedules import plan_changes
from engine.ground.errors import InvalidInput
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment, survives
from engine.values.codec import Codec

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")
BERLIN = ZoneInfo("Europe/Berlin")
gate = Channel("schedules.gate", str)


@activity
async def note(what: str) -> str:
    return what


@schedule("30 2 * * *", tz="Europe/Berlin", payload=lambda at: at.isoformat())
@workflow
async def nightly(day: str) -> str:
    return await note(day)


def hourly(overlap: Overlap, catch_up: timedelta = timedelta(hours=1)) -> Workflow[[str], str]:
    """A workflow that starts every hour and waits for its gate. A payload of a bad hour can't be made."""

    def hour(at: datetime) -> str:
        if at.hour == 13:
            raise ValueError("an unlucky hour")
        return f"{at:%H}"

    @schedule("0 * * * *", payload=hour, overlap=overlap, catch_up=catch_up)
    @workflow(name="hourly")
    async def job(hour: str) -> str:
        await gate.receive()
        return hour

    return job


async def payloads(env: Environment, name: str) -> list[Any]:
    """The payloads of the executions of a workflow, the oldest first."""
    page = await env.client.list(Filter(workflow=name))
    stored = [await env.client.read(one.execution_id) for one in page.executions]
    return [one.payload for one in sorted(stored, key=lambda one: (one.created_at, one.payload))]


async def plan_of(env: Environment, handle: Handle[None]) -> Plan:
    payload = (await env.client.read(handle)).payload
    assert payload is not None
    return Codec(Plan, "a plan").decode(payload)


async def pass_time(env: Environment, until: datetime, step: timedelta = timedelta(minutes=30)) -> None:
    """Move the clock in steps, with all that is due at each."""
    while env.clock.now() < until:
        env.clock.jump(min(env.clock.now() + step, until))
        await env.settle()


async def open_gates(env: Environment) -> None:
    for one in (await env.client.list(Filter(workflow="hourly", status="running"))).executions:
        await env.client.send(one.execution_id, gate, "open")
    await env.settle()


async def test_a_declared_schedule_starts_its_workflow_at_each_time_and_goes_on_for_ever() -> None:
    """The clock change in March skips 02:30; the one in October has it twice. Each night has one occurrence."""
    async with Environment([nightly]) as env:
        env.clock.jump(datetime(2026, 3, 28, tzinfo=UTC))
        [handle] = await env.start_schedules()
        await env.settle()
        assert (await env.why(handle)).startswith("it waits for timer until 2026-03-28 01:30:00")
        await pass_time(env, datetime(2026, 3, 30, 12, tzinfo=UTC))
        assert await payloads(env, "nightly") == [
            '"2026-03-28T02:30:00+01:00"',
            '"2026-03-29T03:00:00+02:00"',
            '"2026-03-30T02:30:00+02:00"',
        ]
        env.clock.jump(datetime(2026, 10, 24, 12, tzinfo=UTC))
        await pass_time(env, datetime(2026, 10, 26, 12, tzinfo=UTC))
        assert (await payloads(env, "nightly"))[3:] == ['"2026-10-25T02:30:00+02:00"', '"2026-10-26T02:30:00+01:00"']


@SLOW
async def test_each_occurrence_starts_once_whatever_dies() -> None:
    @schedule("0 * * * *", payload=lambda at: f"{at:%H}")
    @workflow
    async def survivor(hour: str) -> str:
        return await note(hour)

    async def play(env: Environment) -> Any:
        await env.start_schedules()
        await pass_time(env, datetime(2026, 1, 1, 3, 5, tzinfo=UTC), timedelta(minutes=20))
        return await payloads(env, "survivor")

    assert await survives([survivor], play) == ['"01"', '"02"', '"03"']


@pytest.mark.parametrize(
    ("overlap", "while_it_runs", "afterwards"),
    [("skip", ["01"], ["01", "05"]), ("queue", ["01"], ["01", "03", "04"]), ("allow", ["01", "02", "03"], None)],
)
async def test_an_occurrence_whose_predecessor_runs(
    overlap: Overlap, while_it_runs: list[str], afterwards: list[str] | None
) -> None:
    """The first execution runs until 04:10. The queue then starts those that are no later than `catch_up`."""
    async with Environment([hourly(overlap, catch_up=timedelta(minutes=90))]) as env:
        await env.start_schedules()
        await pass_time(env, datetime(2026, 1, 1, 3, 30, tzinfo=UTC))
        assert await payloads(env, "hourly") == [f'"{hour}"' for hour in while_it_runs]
        if afterwards is not None:
            await pass_time(env, datetime(2026, 1, 1, 4, 10, tzinfo=UTC))
            await open_gates(env)
            await open_gates(env)
            await pass_time(env, datetime(2026, 1, 1, 5, 10, tzinfo=UTC))
            assert await payloads(env, "hourly") == [f'"{hour}"' for hour in afterwards]


@pytest.mark.parametrize(("overlap", "caught_up"), [("skip", ["03"]), ("allow", ["03", "04", "05"])])
async def test_after_a_time_without_processes_late_occurrences_start_up_to_catch_up(
    overlap: Overlap, caught_up: list[str]
) -> None:
    """Nothing ran from 02:30 to 05:10. With `skip`, the first late one stands for all."""
    async with Environment([hourly(overlap, catch_up=timedelta(hours=3))]) as env:
        env.clock.jump(datetime(2026, 1, 1, 2, 30, tzinfo=UTC))
        await env.start_schedules()
        await env.settle()
        env.clock.jump(datetime(2026, 1, 1, 5, 10, tzinfo=UTC))
        await env.settle()
        assert await payloads(env, "hourly") == [f'"{hour}"' for hour in caught_up]


async def test_what_is_too_late_is_left_out() -> None:
    async with Environment([hourly("allow", catch_up=timedelta(minutes=5))]) as env:
        await env.start_schedules()
        await env.settle()
        env.clock.jump(datetime(2026, 3, 1, 0, 10, tzinfo=UTC))
        await env.settle()
        await pass_time(env, datetime(2026, 3, 1, 1, 0, tzinfo=UTC))
        assert await payloads(env, "hourly") == ['"01"']


async def test_a_failure_leaves_the_schedule_as_it_is() -> None:
    """A payload that can't be made, and an execution that was terminated."""
    async with Environment([hourly("skip")]) as env:
        env.clock.jump(datetime(2026, 1, 1, 11, 30, tzinfo=UTC))
        [handle] = await env.start_schedules()
        await pass_time(env, datetime(2026, 1, 1, 12, 10, tzinfo=UTC))
        [one] = (await env.client.list(Filter(workflow="hourly"))).executions
        await env.client.terminate(one.execution_id)
        await pass_time(env, datetime(2026, 1, 1, 14, 0, tzinfo=UTC))
        assert await payloads(env, "hourly") == ['"12"', '"14"']
        assert not (await handle.status()).is_complete


async def test_a_schedule_is_paused_changed_and_ended_while_it_runs() -> None:
    async with Environment([hourly("allow")]) as env:
        [handle] = await env.start_schedules()
        await env.settle()
        await handle.send(plan_changes, PlanChange(paused=True))
        await pass_time(env, datetime(2026, 1, 1, 5, 30, tzinfo=UTC))
        assert await payloads(env, "hourly") == []
        await handle.send(plan_changes, PlanChange(paused=False, cron="45 * * * *"))
        await env.settle()
        await pass_time(env, datetime(2026, 1, 1, 6, 0, tzinfo=UTC), timedelta(minutes=15))
        assert await payloads(env, "hourly") == ['"05"']
        with pytest.raises(InvalidInput, match="Bad minute"):
            await env.client.send_json(handle.execution_id, "schedule.changes", '{"cron": "99 * * * *"}')
        await handle.interrupt()
        await pass_time(env, datetime(2026, 1, 1, 9, 0, tzinfo=UTC))
        [same] = await env.start_schedules()
        status = await same.status()
        assert (status.outcome, status.leftovers) == ("interrupted", ())
        assert await payloads(env, "hourly") == ['"05"']


async def test_a_schedule_that_is_always_late_is_paused() -> None:
    """Each execution takes longer than the time to the next occurrence, so the schedule never waits for a time."""
    async with Environment([hourly("queue", catch_up=timedelta(days=1))]) as env:
        [handle] = await env.start_schedules()
        await pass_time(env, datetime(2026, 1, 1, 5, 30, tzinfo=UTC))
        await open_gates(env)
        assert await payloads(env, "hourly") == ['"01"', '"02"']
        await handle.send(plan_changes, PlanChange(paused=True))
        await open_gates(env)
        await pass_time(env, datetime(2026, 1, 1, 6, 30, tzinfo=UTC))
        assert await payloads(env, "hourly") == ['"01"', '"02"']


async def test_a_deployment_brings_the_plan_up_to_date_and_keeps_the_pause() -> None:
    """Before the first restart, and after it. Each process of the app asks, and one change suffices."""

    def app(cron: str) -> Workflow[[], None]:
        @schedule(cron)
        @workflow(name="deployed")
        async def job() -> None: ...

        return job

    async with Environment([app("0 1 * * *")]) as env:
        for cron in ("0 2 * * *", "0 3 * * *", "0 4 * * *"):
            env.deploy([app(cron)])
            [handle] = await env.start_schedules()
            await env.start_schedules()
            await env.settle()
            plan = await plan_of(env, handle)
            assert (plan.cron, plan.due, plan.paused) == (cron, plan.next(env.clock.now()), False)
        await handle.send(plan_changes, PlanChange(paused=True))
        env.deploy([app("0 5 * * *")])
        await env.settle()
        await env.start_schedules()
        await env.settle()
        plan = await plan_of(env, handle)
        assert (plan.cron, plan.paused) == ("0 5 * * *", True)


async def test_a_schedule_that_cannot_be_read_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Its plan has a field of a later version. The sweep, which starts schedules, goes on."""

    @schedule("0 0 * * *")
    @workflow(name="another")
    async def another() -> None: ...

    async with Environment([another, nightly]) as env:
        [first, _] = await env.start_schedules()
        stored = await env.store.inner.read(first.execution_id)
        later = (stored.payload or "").replace('"cron"', '"jitter":5,"cron"', 1)
        await env.store.inner.replace(stored.model_copy(update={"payload": later}).with_write_id())
        _, second = await env.start_schedules()
        assert (await second.status()).workflow == "nightly.schedule"
        [line] = [one for one in caplog.records if "schedule of workflow" in one.getMessage()]
        assert (line.__dict__["notice"], "jitter" in line.getMessage()) == ("left_alone", True)


async def test_a_schedule_of_ones_own_is_started_as_any_workflow() -> None:
    """One for each customer, by the keeper that the declaration made."""
    async with Environment([nightly]) as env:
        assert nightly.schedule is not None
        for customer, zone in (("ada", "Asia/Tokyo"), ("bob", "America/New_York")):
            await env.client.start(nightly.schedule.keeper, Plan(cron="0 0 6 * * *", tz=zone), key=customer)
        await pass_time(env, datetime(2026, 1, 2, 0, 0, tzinfo=UTC), timedelta(hours=1))
        assert await payloads(env, "nightly") == ['"2026-01-01T06:00:00-05:00"', '"2026-01-02T06:00:00+09:00"']


@pytest.mark.sqlite_only("it is about the process")
async def test_a_process_starts_the_schedules_once() -> None:
    calls = list[str]()

    class Counting(SqliteStore):
        async def create(self, *args: Any) -> Any:
            calls.append("create")
            return await super().create(*args)

    runtime = Runtime([nightly], Counting)
    await runtime.start_schedules()
    await runtime.start_schedules()
    await runtime.close()
    assert calls == ["create"]


@pytest.mark.sqlite_only("nothing is stored")
@pytest.mark.parametrize(
    ("cron", "tz", "message"),
    [
        ("* * *", "UTC", "Wrong number of fields in .* five fields"),
        ("61 * * * *", "UTC", "Bad minute"),
        ("0 0 30 2 *", "UTC", "day-of-month"),
        ("99 0 0 * * *", "UTC", "Bad second"),
        ("0 0 * * *", "Berlin", "there is no time zone 'Berlin'"),
        ("0 0 * * *", "", "there is no time zone ''"),
        ("0 0 * * *", "../etc/passwd", "there is no time zone"),
    ],
)
async def test_a_bad_plan_is_refused_where_it_is_declared(cron: str, tz: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schedule(cron, tz=tz)


@pytest.mark.sqlite_only("nothing is stored")
async def test_a_bad_declaration_is_refused() -> None:
    @workflow
    async def needy(order: str) -> None: ...

    async def plain() -> None: ...

    with pytest.raises(TypeError, match="needs a payload: give @schedule payload="):
        schedule("0 0 * * *")(needy)
    with pytest.raises(TypeError, match="stands above @workflow"):
        schedule("0 0 * * *")(plain)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="two schedules"):
        schedule("0 0 * * *", payload=str)(nightly)

    @workflow(name="nightly.schedule")
    async def clash() -> None: ...

    with pytest.raises(ValueError, match=r"workflow 'nightly.schedule'"):
        Registry([nightly, clash])


@pytest.mark.sqlite_only("nothing is stored")
@pytest.mark.parametrize(
    ("cron", "start", "expected"),
    [
        ("15 30 2 * * *", datetime(2026, 3, 29, tzinfo=BERLIN), "2026-03-29T03:00:15+02:00"),
        ("15 30 2 * * *", datetime(2026, 3, 28, 2, 30, 14, tzinfo=BERLIN), "2026-03-28T02:30:15+01:00"),
        ("15 30 2 * * *", datetime(2026, 3, 28, 2, 30, 15, tzinfo=BERLIN), "2026-03-29T03:00:15+02:00"),
        ("*/20 * * * * *", datetime(2026, 3, 29, 1, 59, 45, tzinfo=BERLIN), "2026-03-29T03:00:00+02:00"),
        ("*/30 * * * *", datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), "2026-10-25T02:00:00+01:00"),
        ("0 0 29 2 *", datetime(2026, 3, 1, tzinfo=BERLIN), "2028-02-29T00:00:00+01:00"),
    ],
)
async def test_the_next_occurrence(cron: str, start: datetime, expected: str) -> None:
    assert Plan(cron=cron, tz="Europe/Berlin").next(start.astimezone(UTC)).isoformat() == expected
