"""Two drivers of one execution: whoever has lost the lease writes nothing, however late it wakes."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta

import pytest

from engine import activity, workflow
from engine.store.documents import Chunk
from engine.store.wrapper import Hook
from engine.testing import Call, Environment, ManualClock
from tests.support.crashes import check_history, echo, ledger
from tests.support.gates import Gate, nth
from tests.support.processes import PAST_LEASE, Process, SkewedClock
from tests.support.stored import image

pytestmark = pytest.mark.usefixtures("every_store")


class Slow:
    """An activity that waits in its first run only."""

    runs = 0
    cancelled = 0
    working = Gate()

    @classmethod
    def reset(cls) -> None:
        cls.runs = cls.cancelled = 0
        cls.working.close()


@activity
async def fencing_slow() -> str:
    Slow.runs += 1
    if Slow.runs == 1:
        try:
            await Slow.working.passed()
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
        async with old.stopped(id, moment, lambda call: call.number == number):
            env.clock.advance(PAST_LEASE)
            await (await new.drive(id))
            assert (await env.status(id)).value() == ["a", "b", "c"]
            before = await image(env, id)
        assert await image(env, id) == before
        await check_history(env, id)


async def test_a_lost_lease_found_while_appending_cancels_what_runs() -> None:
    """L7: frozen before an append while another activity runs: refused, it cancels that activity."""
    Slow.reset()
    async with Environment([fencing_beside]) as env:
        id = (await env.start(fencing_beside)).execution_id
        old, new = Process(env), Process(env)
        async with old.stopped(id, "before", nth("append")):
            await Slow.working.reached.wait()
            env.clock.advance(PAST_LEASE)
            await (await new.drive(id))
            before = await image(env, id)
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
        old.store.before = gate = Gate(nth("replace", 1))
        driving = await old.drive(id)
        await Slow.working.reached.wait()
        env.clock.advance(timedelta(seconds=10))
        await gate.reached.wait()
        env.clock.advance(PAST_LEASE + abs(skew))
        await (await new.drive(id))
        before = await image(env, id)
        gate.open()
        await driving
        await asyncio.sleep(0)
        assert (Slow.runs, Slow.cancelled) == (2, 1)
        assert await image(env, id) == before
        assert (await env.status(id)).value() == ["a", "slow"]


async def _one_call(gate: Gate, driving: asyncio.Task[None]) -> None:
    """Let one call happen, unless the drive has ended. It is over when the next one comes, or when the drive ends."""
    await gate.reached_by(driving)
    gate.open()
    gate.close()
    await gate.reached_by(driving)


def _notes(landed: list[tuple[str, str]], name: str) -> Hook:
    """A hook that notes which process wrote a chunk, and the kind of its first event."""

    async def note(call: Call) -> None:
        landed.extend((name, a.events[0]["kind"]) for a in call.arguments if isinstance(a, Chunk))

    return note


SCHEDULES = sorted({"".join(order) for order in itertools.permutations("ooonnnn")})


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_every_interleaving_of_an_old_driver_with_claim_load_and_seal(schedule: str) -> None:
    """L7: the old driver's appends and commit among the new one's claim, load and seal, in each of 35 orders."""
    async with Environment([fencing_steps]) as env:
        id = (await env.start(fencing_steps)).execution_id
        old, new = Process(env, ManualClock()), Process(env)  # the old one's clock stands still: no heartbeat warns it
        landed: list[tuple[str, str]] = []
        gates = {"o": Gate(), "n": Gate()}
        for name, process in (("o", old), ("n", new)):
            process.store.before, process.store.after = gates[name], _notes(landed, name)
        drives = {"o": await old.drive(id)}
        await _one_call(gates["o"], drives["o"])  # its claim
        env.clock.advance(PAST_LEASE)
        drives["n"] = await new.drive(id)
        for name in schedule:
            await _one_call(gates[name], drives[name])
        for gate in gates.values():
            gate.open()
        await asyncio.gather(*drives.values())
        assert (await env.finish(id)).value() == ["a", "b", "c"]
        await check_history(env, id)
        if schedule.startswith(
            "ooo"
        ):  # it had ended before the other could claim; its last chunk lies in the exec document
            assert [name for name, _ in landed] == ["o"] * 2
        else:
            sealed = landed.index(("n", "takeover"))
            assert "o" not in [name for name, _ in landed[sealed:]], landed
            recorded = landed[:sealed].count(("o", "activity"))
            assert len(ledger.ran) <= 3 + 1, f"{recorded} were recorded, and {ledger.ran} ran"
            assert ledger.ran.count("echo") == 1 or recorded == 0
