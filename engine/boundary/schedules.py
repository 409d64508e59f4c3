"""Starts the schedules that an app declares, and brings running ones up to date with the code."""

from __future__ import annotations

import contextlib

from engine.boundary.client import Client
from engine.boundary.handle import Handle
from engine.core.declarations import Schedule
from engine.core.registry import Registry
from engine.core.schedules import plan_changes
from engine.ground.errors import AlreadyStarted


async def start_schedules(client: Client, registry: Registry) -> list[Handle[None]]:
    """Start each declared schedule that was never started. Send each running one what the code has changed of its plan.
    A schedule that was interrupted stays ended. Raises StoreError and UnreadableExecution."""
    return [await _start(client, name, schedule) for name, schedule in sorted(registry.schedules().items())]


async def _start(client: Client, name: str, schedule: Schedule) -> Handle[None]:
    handle = client.handle(schedule.keeper, key=name)
    with contextlib.suppress(AlreadyStarted):  # the plan has changed since its start
        await client.start(schedule.keeper, schedule.plan, key=name)
    execution = await client.read(handle)
    if not execution.is_complete and execution.payload is not None:
        change = schedule.keeper.payload.decode(execution.payload).change_to(schedule.plan)
        if change is not None:
            await handle.send(plan_changes, change)
    return handle
