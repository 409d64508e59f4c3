"""`@schedule`: a workflow that starts by itself, at the times of a plan.

A schedule is itself an execution. The engine makes its workflow, the keeper. Its payload is the plan with the next
occurrence. The keeper waits for that time, starts the execution of the occurrence as a child, and restarts.

Rules:
1. Each occurrence starts once: its child is a durable step, and the next occurrence is the payload of the next run.
2. A change of the plan takes effect between two occurrences, at once if the schedule waits for a time. It is received
   while an occurrence runs too: a schedule that is always late never waits for a time.
3. The execution of an occurrence lives on when the schedule ends. Its failure leaves the schedule as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from engine.core.authoring import restart, workflow
from engine.core.declarations import Channel, Schedule, Workflow
from engine.core.plans import Overlap, Plan, PlanChange

P = ParamSpec("P")
R = TypeVar("R")

MakePayload = Callable[[datetime], Any]
"""Makes the payload of an occurrence from its time, in the schedule's zone."""

plan_changes = Channel("schedule.changes", PlanChange)


def schedule(
    cron: str,
    *,
    tz: str = "UTC",
    payload: MakePayload | None = None,
    overlap: Overlap = "skip",
    catch_up: timedelta = timedelta(hours=1),
) -> Callable[[Workflow[P, R]], Workflow[P, R]]:
    """Start a workflow at the times of a plan. Write it above `@workflow`. The app starts the schedule by itself.

    cron: five fields (minute, hour, day, month, day of the week), or six with the seconds first: `30 2 * * *`.
    tz: the time zone in which the expression holds, such as Europe/Berlin.
    payload: makes the payload from the time of the occurrence. Leave it out if the workflow needs none.
    overlap: what happens to an occurrence while the execution of the one before runs. `skip` leaves it out, `queue`
        starts it afterwards, `allow` starts it at once.
    catch_up: how late an occurrence may start after a time in which no process ran. Later ones are left out.

    Raises ValueError for a bad plan, and TypeError for anything but a workflow.
    """
    try:
        plan = Plan(cron=cron, tz=tz, overlap=overlap, catch_up=catch_up)
    except ValidationError as error:
        raise ValueError("; ".join(str(one["msg"]).removeprefix("Value error, ") for one in error.errors())) from None

    def decorate(target: Workflow[P, R]) -> Workflow[P, R]:
        if not isinstance(target, Workflow):
            raise TypeError(f"@schedule stands above @workflow; it takes a workflow, not {target!r}")
        if target.schedule is not None:
            raise TypeError(f"{target!r} has two schedules: start the second one with client.start")
        if payload is None and target.takes_payload and not target.optional_payload:
            raise TypeError(f"{target!r} needs a payload: give @schedule payload=, a function of the occurrence's time")
        target.schedule = Schedule(_keeper(target, payload), plan)
        return target

    return decorate


def _keeper(target: Workflow[Any, Any], payload: MakePayload | None) -> Workflow[[Plan], None]:
    @workflow(name=f"{target.name}.schedule")
    async def keep(plan: Plan) -> None:
        if plan.due is None:
            restart(plan.after(workflow.now()))
        changing = asyncio.ensure_future(plan_changes.receive())
        try:
            resumes_after = await run_until_next(plan, plan.due, changing)
        finally:
            changing.cancel()
        changed = changing.result().of(plan) if changing.done() else plan
        restart(changed.after(resumes_after))

    async def run_until_next(plan: Plan, due: datetime, changing: asyncio.Future[PlanChange]) -> datetime:
        """Wait for `due` and start its execution, or return at a change. Later occurrences count from the time that
        this returns."""
        time_left = None if plan.paused else max(0.0, (due - workflow.now()).total_seconds())
        await asyncio.wait({changing}, timeout=time_left)
        if changing.done():
            return workflow.now()
        if workflow.now() - due <= plan.catch_up:
            await occur(plan, due)
        return max(due, workflow.now() if plan.overlap == "skip" else workflow.now() - plan.catch_up)

    async def occur(plan: Plan, due: datetime) -> None:
        try:
            arguments = () if payload is None else (payload(due.astimezone(ZoneInfo(plan.tz))),)
            await (target.start(*arguments) if plan.overlap == "allow" else target.child(*arguments))
        except Exception as error:  # noqa: BLE001 - rule 3
            workflow.logger.warning("schedule of %s: the execution for %s failed: %s", target.name, due, error)

    return keep
