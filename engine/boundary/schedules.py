"""Starts the schedules that an app declares, and brings running ones up to date with the code."""

from __future__ import annotations

import contextlib
import logging

from engine.boundary.client import Client
from engine.boundary.handle import Handle
from engine.core.declarations import Schedule
from engine.core.registry import Registry
from engine.core.schedules import plan_changes
from engine.driving.notices import Notice
from engine.ground.errors import AlreadyStarted, ClientError, DecodingError

_log = logging.getLogger("engine")


async def start_schedules(client: Client, registry: Registry) -> list[Handle[None]]:
    """Start each declared schedule that was never started. Send each running one what the code has changed of its plan.
    A schedule that was interrupted stays ended. One that can't be read, or whose plan a later version wrote, is logged
    and left alone. Raises StoreError."""
    handles = list[Handle[None]]()
    for name, schedule in sorted(registry.schedules().items()):
        handle = client.handle(schedule.keeper, key=name)
        try:
            await _start(client, handle, name, schedule)
        except (ClientError, DecodingError) as error:
            fields = {"execution_id": handle.execution_id, "notice": Notice.LEFT_ALONE, "left_alone": str(error)}
            _log.error("the schedule of workflow %s is left alone: %s", name, error, extra=fields)
        handles.append(handle)
    return handles


async def _start(client: Client, handle: Handle[None], name: str, schedule: Schedule) -> None:
    with contextlib.suppress(AlreadyStarted):  # the plan has changed since its start
        await client.start(schedule.keeper, schedule.plan, key=name)
    execution = await client.read(handle)
    if not execution.is_complete and execution.payload is not None:
        change = schedule.keeper.payload.decode(execution.payload).change_to(schedule.plan)
        if change is not None:
            await handle.send(plan_changes, change)
