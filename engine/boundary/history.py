"""The routes that show what an execution did and waits for: its history, its steps, its family."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from math import inf
from typing import Any

from engine.boundary.answers import Request, Response, answered, check_query, continued, numbered
from engine.boundary.family import find_family
from engine.boundary.inspection import Inspection
from engine.boundary.runtime import Runtime
from engine.boundary.schemas import schema_of
from engine.boundary.shapes import (
    MAX_BRIEF,
    MAX_SHORT,
    ChildShape,
    ErrorShape,
    EventShape,
    HistoryShape,
    LineShape,
    Shape,
    StepShape,
    StepsShape,
    ValueShape,
)
from engine.core.steps import ActivityStep, ChannelStep, ChildStep, DeferredStep, Step, TimerStep, codec_of
from engine.core.trace import Asked
from engine.driving.left_alone import why_left_alone
from engine.ground.errors import Missing
from engine.values.events import AttemptFailed, Event, Forked, Interrupted, Patched, StepHeld, StepResolved, Takeover

MAX_PAGE = 10_000
"""The most events or steps in one answer."""
MAX_CHILDREN = 100
"""The most children whose state is read for one answer."""

_VALUES = {"short": MAX_SHORT, "brief": MAX_BRIEF, "full": inf}
"""The choices of `?values=`, each with the most characters of a value in a list."""


async def history(runtime: Runtime, request: Request, execution_id: str) -> Response:
    """GET executions/{id}/history: the events, the oldest first. `?limit=` and `?continuation=` page. `?values=full`
    shows large values whole, and `?values=brief` leaves out more of them."""

    async def work() -> Response:
        check_query(request, {"values": tuple(_VALUES), "limit": (), "continuation": ()})
        limit, start = numbered(request, "limit", 200, MAX_PAGE), continued(request)
        seen = await _inspected(runtime, execution_id)
        most = _VALUES[request.query.get("values", "short")]
        asked = {(one.kind, one.step, one.ended): one for one in seen.asked}
        page = list(enumerate(seen.events, 1))[start : start + limit]
        more = len(seen.events) > start + limit
        return _ok(
            HistoryShape(
                execution_id=execution_id,
                payload=_payload(runtime, seen, most) if not start else None,
                length=len(seen.events),
                events=[_event(number, event, asked, most) for number, event in page],
                problem=seen.problem,
                continuation=str(start + limit) if more else None,
            )
        )

    return await answered(work)


async def steps(runtime: Runtime, request: Request, execution_id: str) -> Response:
    """GET executions/{id}/steps: the steps that the code asked for, in order, each with its time and its source lines.
    `?state=open` shows only the steps that the code waits for now. `?limit=` and `?continuation=` page."""

    async def work() -> Response:
        check_query(request, {"state": ("all", "open"), "limit": (), "continuation": ()})
        limit, start = numbered(request, "limit", 200, MAX_PAGE), continued(request)
        seen = await _inspected(runtime, execution_id)
        found = seen.open if request.query.get("state") == "open" else seen.asked
        shown = await describe_steps(runtime, seen, found[start : start + limit])
        more = str(start + limit) if len(found) > start + limit else None
        return _ok(StepsShape(execution_id=execution_id, steps=shown, problem=seen.problem, continuation=more))

    return await answered(work)


async def family(runtime: Runtime, request: Request, execution_id: str) -> Response:
    """GET executions/{id}/family: the tree of children that this execution belongs to, from its first creator."""

    async def work() -> Response:
        check_query(request, {})
        return _ok(await find_family(runtime.store, runtime.inspect, await runtime.client.read(execution_id)))

    return await answered(work)


async def pending(runtime: Runtime, execution_id: str) -> dict[str, Any]:
    """The fields that a poll with `?pending=true` adds: the steps that an execution waits for now."""
    seen = await _inspected(runtime, execution_id)
    shown = await describe_steps(runtime, seen, seen.open[:MAX_PAGE])
    described: dict[str, Any] = {"pending": [step.to_json() for step in shown]}
    return described | ({"pendingProblem": seen.problem} if seen.problem else {})


async def describe_steps(runtime: Runtime, seen: Inspection, asked: tuple[Asked, ...]) -> list[StepShape]:
    """Steps as callers see them."""
    failures = {event.step: event for event in seen.events if isinstance(event, AttemptFailed | StepHeld)}
    waiting = [one.target for one in asked if isinstance(one.target, ChildStep)][:MAX_CHILDREN]
    children = {step.execution_id: await _child(runtime, step) for step in waiting}
    return [_step(one, seen, failures.get(one.step), children) for one in asked]


async def _inspected(runtime: Runtime, execution_id: str) -> Inspection:
    return await runtime.inspect(await runtime.client.read(execution_id))


async def _child(runtime: Runtime, step: ChildStep) -> ChildShape:
    try:
        child = await runtime.store.read(step.execution_id)
    except Missing:
        return ChildShape(execution_id=step.execution_id, workflow=step.workflow.name)
    return ChildShape(
        execution_id=child.execution_id,
        workflow=child.workflow,
        status=child.status,
        outcome=child.outcome,
        suspended=child.suspended,
        left_alone=why_left_alone(child, runtime.registry),
    )


def _step(
    one: Asked, seen: Inspection, failed: AttemptFailed | StepHeld | None, children: Mapping[str, ChildShape]
) -> StepShape:
    shape = StepShape(
        kind=one.kind,
        step=one.step,
        name=_name(one.target),
        state=one.how,
        since=one.at,
        ended_at=_at(seen, one.ended),
        stack=[LineShape.of(line) for line in one.lines],
    )
    match one.target:
        case ActivityStep():
            retrying = failed if isinstance(failed, AttemptFailed) else None
            is_open = one.how == "open"
            update: dict[str, Any] = {
                "attempt": retrying.attempt + 1 if retrying else 1,
                "last_error": ErrorShape.of(failed.error) if failed else None,
                "details": _details(one, seen, failed) if is_open else None,
                "held_back_by": seen.execution.parked.get(one.step) if is_open else None,
                "next_try_at": retrying.retry_at if retrying and is_open else None,
            }
        case TimerStep(due=due):
            update = {"due_at": due}
        case DeferredStep(deferred=deferred):
            update = {"json_schema": schema_of(deferred.codec)}
        case ChannelStep(channel=channel):
            update = {"json_schema": schema_of(channel.codec)}
        case ChildStep(execution_id=id):
            update = {"child": children.get(id) or ChildShape(execution_id=id, workflow=_name(one.target))}
        case _:
            update = {}
    return shape.model_copy(update=update)


def _details(one: Asked, seen: Inspection, failed: AttemptFailed | StepHeld | None) -> ValueShape | None:
    last = seen.execution.heartbeats.get(one.step)
    if last is not None and not (isinstance(failed, AttemptFailed) and failed.attempt >= last.attempt):
        return ValueShape.of(last.details)
    return None if failed is None or failed.details is None else ValueShape.of(failed.details)


def _at(seen: Inspection, number: int | None) -> datetime | None:
    return None if number is None else seen.events[number - 1].at if number else seen.execution.run_started_at


def _name(step: Step) -> str:
    match step:
        case ActivityStep(activity=activity):
            return activity.name
        case DeferredStep(deferred=deferred):
            return deferred.name
        case ChannelStep(channel=channel):
            return channel.name
        case ChildStep(workflow=workflow):
            return workflow.name
        case _:
            return step.id


def _payload(runtime: Runtime, seen: Inspection, most: float) -> ValueShape | None:
    workflow = runtime.registry.find(seen.execution.workflow, seen.execution.version)
    codec = workflow.payload if workflow is not None and workflow.takes_payload else None
    return None if seen.payload is None else ValueShape.of(seen.payload, most, codec)


def _event(number: int, event: Event, asked: Mapping[Any, Asked], most: float) -> EventShape:
    shape = EventShape(number=number, kind=event.kind, at=event.at)
    match event:
        case StepResolved():
            one = asked.get((event.kind, event.step, number))
            update: dict[str, Any] = {
                "step": event.step,
                "result": None
                if event.value is None
                else ValueShape.of(event.value, most, codec_of(one.target) if one else None),
                "error": ErrorShape.of(event.error) if event.error else None,
            }
            if one is not None:
                update |= {
                    "since": one.at,
                    "duration_seconds": round((event.at - one.at).total_seconds(), 3),
                    "stack": [LineShape.of(line) for line in one.lines],
                    "child": one.target.execution_id if isinstance(one.target, ChildStep) else None,
                }
        case AttemptFailed():
            error = ErrorShape.of(event.error)
            update = {"step": event.step, "attempt": event.attempt, "retry_at": event.retry_at, "error": error}
        case StepHeld():
            update = {"step": event.step, "error": ErrorShape.of(event.error)}
        case Patched():
            update = {"patch": event.patch}
        case Forked():
            update = {"step": event.step, "original": event.execution_id, "by": event.by, "reason": event.reason}
        case Interrupted():
            update = {"reason": event.reason}
        case Takeover():
            update = {"worker": event.worker}
        case _:
            update = {"step": getattr(event, "step", None)}
    return shape.model_copy(update=update)


def _ok(shape: Shape) -> Response:
    return Response(200, json.dumps(shape.to_json(), ensure_ascii=False), {"Content-Type": "application/json"})
