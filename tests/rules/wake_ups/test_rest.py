"""What comes while a driver makes up its mind to rest: it may stand nowhere but in its memory."""

from __future__ import annotations

import asyncio

import pytest

from engine import workflow
from engine.driving.delivery import Delivery
from engine.driving.intake import Intake
from engine.testing import Call, Environment


@workflow
async def child(name: str) -> str:
    return name


@workflow
async def starts_two() -> int:
    return len(await asyncio.gather(child.start("a"), child.start("b")))


async def test_a_child_begun_after_the_last_delivery_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second child's creation returns just after the first one was delivered."""
    delivered = asyncio.Event()
    deliver = Intake._take_some

    def and_release(self: Intake, delivery: Delivery) -> bool:
        before = len(self.unrecorded)
        goes_on = deliver(self, delivery)
        if len(self.unrecorded) > before:
            delivered.set()
        return goes_on

    async def hold_the_second(call: Call) -> None:
        if call.method == "create" and call.of_method == 2:
            await delivered.wait()

    monkeypatch.setattr(Intake, "_take_some", and_release)
    async with Environment([child, starts_two]) as env:
        env.store.after = hold_the_second
        assert (await env.run(starts_two)).value() == 2
