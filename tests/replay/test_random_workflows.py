"""Replay is exact: random workflows, random crashes, random moments for the values from outside."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engine.testing import Call, Environment, export, replay
from tests.support.crashes import Crash, check_history, ledger
from tests.support.programs import Program, any_program, given_value, interpret, race_free

BOUNDED = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)


async def execute(program: Program, crashes: list[tuple[int, bool]], deliver_at: int) -> tuple[str | None, str]:
    """Run a program, dying at those store calls. Returns its result and its recording."""
    ledger.ran.clear()
    async with Environment([interpret]) as env:
        id = await env.start(interpret, program, key="p")
        outside = Environment([interpret], store=env.store.inner)
        outside.clock = env.clock
        env.store.calls.clear()
        delivered = False

        async def deliver() -> None:
            nonlocal delivered
            if not delivered:
                delivered = True
                for name in "abc":
                    await outside.client.resolve(id, given_value[name], f"given {name}")

        async def before(call: Call) -> None:
            if call.number == deliver_at:
                await deliver()
            if (call.number, False) in crashes:
                raise Crash

        async def after(call: Call) -> None:
            if (call.number, True) in crashes:
                raise Crash

        env.store.before, env.store.after = before, after
        for _ in range(len(crashes) + 1):
            try:
                await env.settle()
                if not (await env.status(id)).is_complete:
                    await deliver()
                await env.finish(id)
            except Crash:
                env.worker = env.new_worker()
        env.store.before = env.store.after = _calm
        status = await env.finish(id)
        assert status.is_complete, status
        assert (await env.store.inner.read(status.execution_id)).worker is None
        await check_history(env, id)
        return status.result, await export(env.store, id)


async def _calm(_: Call) -> None:
    return None


crash_points = st.lists(st.tuples(st.integers(0, 25), st.booleans()), max_size=3, unique_by=lambda crash: crash[0])


@given(program=race_free, crashes=crash_points, deliver_at=st.integers(0, 12))
@BOUNDED
async def test_crashes_change_nothing_where_nothing_races(
    program: Program, crashes: list[tuple[int, bool]], deliver_at: int
) -> None:
    """What is observed, and the result, are those of an uncrashed run."""
    uncrashed, _ = await execute(program, [], deliver_at)
    crashed, _ = await execute(program, crashes, deliver_at)
    assert crashed == uncrashed


@given(program=any_program, crashes=crash_points, deliver_at=st.integers(0, 12))
@BOUNDED
async def test_the_recorded_order_decides_races(
    program: Program, crashes: list[tuple[int, bool]], deliver_at: int
) -> None:
    """Whatever order a crashed run came to, an uncrashed replay of its history sees the same, to the result."""
    result, recording = await execute(program, crashes, deliver_at)
    replayed = replay(recording, [interpret])
    assert replayed.outcome is not None
    assert replayed.outcome.value == result
