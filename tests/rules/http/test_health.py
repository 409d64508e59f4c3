"""GET health: what a person, or a probe, is told."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

from engine import Deferred, Runtime, workflow
from engine.boundary.health import LATE
from engine.boundary.http import health
from engine.testing import Environment

WELL = {"status": "ok", "overdueSeconds": 0, "stuck": {}, "leftAlone": {}, "unreadable": {}}

answer = Deferred("health.answer", str)


@workflow
async def health_waits() -> str:
    return await answer


@workflow
async def health_stuck() -> None:
    await asyncio.Event().wait()


async def told(env: Environment) -> dict[str, Any]:
    response = await health(cast(Runtime, SimpleNamespace(client=env.client)))
    assert response.status == 200
    body: dict[str, Any] = json.loads(response.body)
    return body


async def test_nothing_to_do_is_ok() -> None:
    """An execution that waits for the outside, and one that the next sweep will take."""
    async with Environment([health_waits, health_stuck]) as env:
        assert await told(env) == WELL
        await env.drive(await env.start(health_waits))
        await env.start(health_waits)
        env.clock.advance(env.settings.sweep_new_after)
        assert await told(env) == WELL


async def test_what_is_late_wants_attention() -> None:
    """Nobody sweeps."""
    async with Environment([health_waits, health_stuck]) as env:
        await env.start(health_waits)
        env.clock.advance(env.settings.sweep_new_after + LATE)
        assert await told(env) == {**WELL, "status": "attention", "overdueSeconds": LATE.total_seconds()}
        await env.worker.sweep()
        assert (await told(env))["status"] == "ok"


async def test_what_waits_for_a_person_wants_attention() -> None:
    """Counted by its cause; terminated, it is gone."""
    async with Environment([health_waits, health_stuck]) as env:
        ids = [(await env.start(health_stuck)).execution_id for _ in range(3)]
        await env.settle()
        assert await told(env) == {**WELL, "status": "attention", "stuck": {"Stuck": 3}}
        for id in ids:
            await env.client.terminate(id)
        assert await told(env) == WELL
