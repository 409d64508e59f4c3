"""Two drivers of one execution: whoever has lost the lease writes nothing, however late it wakes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from engine import activity, workflow
from engine.store.documents import Chunk
from engine.testing import Call, Environment, ManualClock
from tests.support.crashes import check_history, echo, ledger
from tests.support.faults import PAST_LEASE, Freezer, Process, SkewedClock, image, nth

pytestmark = pytest.mark.usefixtures("every_store")


class Slow:
    """An activity that waits in its first run only."""

    runs = 0
    cancelled = 0
    started: asyncio.Event

    @classmethod
    def reset(cls) -> None:
        cls.runs = cls.cancelled = 0
        cls.started = asyncio.Event()


@activity
async def fencing_slow() -> str:
    Slow.runs += 1
    if Slow.runs == 1:
        Slow.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            Slow.cancelled += 1
            raise
    return "slow"


@workflow
async def fencing_steps() -> list[str]:
    return [await echo("a"), await echo("b"), await echo("c")]


@workflow
async def fencing_beside() -> list[str]:
    return list(await asyncio.gather(echo("a"), fencing_slow()))


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(4))
async def test_a_driver_frozen_at_any_call_writes_nothing_after_a_takeover(number: int, moment: str) -> None:
    """L7: frozen around a store call, past its lease; another takes over and ends it; the first wakes."""
    async with Environment([fencing_steps]) as env:
        id = (await env.start(fencing_steps)).execution_id
        old, new = Process(env), Process(env)
        freezer = Freezer(lambda call: call.number == number)
        setattr(old.store, moment, freezer)
        driving = await old.drive(id)
        await freezer.frozen.wait()
        env.clock.advance(PAST_LEASE)
        await (await new.drive(id))
        assert (await env.status(id)).value() == ["a", "b", "c"]
        before = await image(env, id)
        freezer.thaw.set()
        await driving
        assert await image(env, id) == before
        await check_history(env, id)


async def test_a_lost_lease_found_while_appending_cancels_what_runs() -> None:
    """L7: frozen before an append while another activity runs: refused, it cancels that activity."""
    Slow.reset()
    async with Environment([fencing_beside]) as env:
        id = (await env.start(fencing_beside)).execution_id
        old, new = Process(env), Process(env)
        old.store.before = freezer = Freezer(nth("append"))
        driving = await old.drive(id)
        await freezer.frozen.wait()
        await Slow.started.wait()
        env.clock.advance(PAST_LEASE)
        await (await new.drive(id))
        before = await image(env, id)
        freezer.thaw.set()
        await driving
        await asyncio.sleep(0)
        assert (Slow.runs, Slow.cancelled) == (2, 1)
        assert await image(env, id) == before
        assert (await env.status(id)).value() == ["a", "slow"]


@pytest.mark.parametrize("skew", [timedelta(0), timedelta(minutes=-5), timedelta(minutes=5)], ids=str)
async def test_a_driver_frozen_inside_an_activity_stops_at_its_heartbeat(skew: timedelta) -> None:
    """L7: frozen before a heartbeat, with its clock right or five minutes wrong."""
    Slow.reset()
    async with Environment([fencing_beside]) as env:
        id = (await env.start(fencing_beside)).execution_id
        old, new = Process(env, SkewedClock(env.clock, skew)), Process(env)
        old.store.before = freezer = Freezer(nth("replace", 1))
        driving = await old.drive(id)
        await Slow.started.wait()
        env.clock.advance(timedelta(seconds=10))
        await freezer.frozen.wait()
        env.clock.advance(PAST_LEASE + abs(skew))
        await (await new.drive(id))
        before = await image(env, id)
        freezer.thaw.set()
        await driving
        await asyncio.sleep(0)
        assert (Slow.runs, Slow.cancelled) == (2, 1)
        assert await image(env, id) == before
        assert (await env.status(id)).value() == ["a", "slow"]


class Conductor:
    """Lets the store calls of several processes happen one at a time, in a given order."""

    def __init__(self, **processes: Process) -> None:
        self._arrived = {name: asyncio.Event() for name in processes}
        self._asked = {name: asyncio.Event() for name in processes}
        self._over = {name: asyncio.Event() for name in processes}
        self._free = False
        self.landed: list[tuple[str, str]] = []
        """Which process wrote a chunk with which kind of event first in it."""
        for name, process in processes.items():
            process.store.before, process.store.after = self._before(name), self._after(name)

    async def pass_one(self, name: str, driving: asyncio.Task[None]) -> None:
        """Let one call of that process happen, unless its drive ends first."""
        await self._either(self._arrived[name], driving)
        self._arrived[name].clear()
        self._over[name].clear()
        self._asked[name].set()
        # A call that is refused has happened when the next one arrives, or when the drive ends.
        await self._either(self._over[name], driving)

    def pass_all(self) -> None:
        self._free = True
        for asked in self._asked.values():
            asked.set()

    async def _either(self, event: asyncio.Event, driving: asyncio.Task[None]) -> None:
        waiting = asyncio.ensure_future(event.wait())
        await asyncio.wait([waiting, driving], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    def _before(self, name: str) -> Callable[[Call], Awaitable[None]]:
        async def before(_: Call) -> None:
            self._over[name].set()
            self._arrived[name].set()
            if not self._free:
                await self._asked[name].wait()
                self._asked[name].clear()

        return before

    def _after(self, name: str) -> Callable[[Call], Awaitable[None]]:
        async def after(call: Call) -> None:
            self.landed += [(name, a.events[0]["kind"]) for a in call.arguments if isinstance(a, Chunk)]
            self._over[name].set()

        return after


SCHEDULES = sorted({"".join(order) for order in itertools.permutations("ooonnnn")})


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_every_interleaving_of_an_old_driver_with_claim_load_and_seal(schedule: str) -> None:
    """L7: the old driver's appends and commit among the new one's claim, load and seal, in each of 35 orders."""
    ledger.ran.clear()
    async with Environment([fencing_steps]) as env:
        id = (await env.start(fencing_steps)).execution_id
        old, new = Process(env, ManualClock()), Process(env)  # the old one's clock stands still: no heartbeat warns it
        conductor = Conductor(o=old, n=new)
        drives = {"o": await old.drive(id)}
        await conductor.pass_one("o", drives["o"])  # its claim
        env.clock.advance(PAST_LEASE)
        drives["n"] = await new.drive(id)
        for name in schedule:
            await conductor.pass_one(name, drives[name])
        conductor.pass_all()
        await asyncio.gather(*drives.values())
        assert (await env.finish(id)).value() == ["a", "b", "c"]
        await check_history(env, id)
        landed = conductor.landed
        if schedule.startswith("ooo"):  # it had ended before the other could claim
            assert [name for name, _ in landed] == ["o"] * 3
        else:
            sealed = landed.index(("n", "takeover"))
            assert "o" not in [name for name, _ in landed[sealed:]], landed
            recorded = landed[:sealed].count(("o", "activity"))
            assert len(ledger.ran) <= 3 + 1, f"{recorded} were recorded, and {ledger.ran} ran"
            assert ledger.ran.count("echo") == 1 or recorded == 0
