"""tests/scenarios/test_random_workflows.py on CosmosStore: fewer examples, since each is many HTTP requests."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.testing import replay
from tests.scenarios.test_random_workflows import BOUNDED, crash_points, execute
from tests.support.programs import Program, any_program, interpret

FEW = settings(
    BOUNDED, max_examples=10, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@given(program=any_program, crashes=crash_points, deliver_at=st.integers(0, 12))
@FEW
async def test_the_recorded_order_decides_races(
    program: Program, crashes: list[tuple[int, bool]], deliver_at: int
) -> None:
    """Whatever order a crashed run came to, an uncrashed replay of its history sees the same, to the result."""
    result, recording = await execute(program, crashes, deliver_at)
    replayed = replay(recording, [interpret])
    assert replayed.outcome is not None
    assert replayed.outcome.value == result
