"""The heartbeat goes before everything that can wait."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engine import Channel, workflow
from engine.testing import Call, Environment
from tests.support.processes import Process

heartbeats_notes = Channel("heartbeats.notes", int)
CALL = timedelta(milliseconds=50)
"""What each call of the store takes."""
LONGER_THAN_A_LEASE = 36_000
"""In milliseconds."""


@workflow
async def heartbeats_listens() -> int:
    received = 0
    while await heartbeats_notes.receive():
        received += 1
    return received


@pytest.mark.parametrize("apart", [60, 100, 140])
async def test_a_stream_of_news_does_not_keep_the_heartbeat_back(apart: int) -> None:
    """Values come every so many milliseconds, for longer than a lease. The driver is told of each at once, and each
    makes another version of the exec document. Its lease never lapses, and all values are received."""
    async with Environment([heartbeats_listens]) as env:
        id = (await env.start(heartbeats_listens)).execution_id
        process, values = Process(env), LONGER_THAN_A_LEASE // apart
        sent, due, lapsed = 0, env.clock.now(), list[str]()

        async def more(call: Call) -> None:
            nonlocal sent, due
            env.clock.advance(CALL)
            execution, now = await env.store.inner.read(id), env.clock.now()
            if execution.worker is not None and not execution.is_leased(now, env.settings.skew):
                lapsed.append(f"before call {call.number}, {call.method}")
            if now >= due and sent < values:
                due, sent = due + timedelta(milliseconds=apart), sent + 1
                told = await env.client.send(id, heartbeats_notes, sent)
                process.worker.notify(await env.store.inner.read(told.execution_id))

        process.store.before = more
        while sent < values:
            await process.client.send(id, heartbeats_notes, sent := sent + 1)
            await (await process.drive(id))
        assert not lapsed
        await env.client.send(id, heartbeats_notes, 0)
        assert (await env.finish(id)).value() == values
