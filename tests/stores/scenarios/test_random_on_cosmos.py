"""tests/replay/test_random_workflows.py, on CosmosStore, with fewer examples."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.testing import replay
from tests.replay import test_random_workflows as scenarios
from tests.support.programs import Program, any_program, interpret

FEW = settings(
    scenarios.BOUNDED,
    max_examples=12,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@given(program=any_program, crashes=scenarios.crash_points, deliver_at=st.integers(0, 12))
@FEW
async def test_random_workflows(program: Program, crashes: list[tuple[int, bool]], deliver_at: int):
    result, recording = await scenarios.execute(program, crashes, deliver_at)
    replayed = replay(recording, [interpret])
    assert replayed.outcome is not None
    assert replayed.outcome.value == result
