"""Each asyncio primitive, live, after a crash at every store call, and in replay: one result, one order.

Cases B1, C1, C3, C5, C6, C7, C8, I2, M7 of comparable engines are among them.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import Workflow
from engine.testing import Environment, export, replay
from tests.support.crashes import crash_everywhere
from tests.support.primitives import PRIMITIVES

pytestmark = [
    pytest.mark.usefixtures("every_store"),
    pytest.mark.not_on_account("there are hundreds of environments"),
]
SLOW = pytest.mark.sqlite_only("each store call would be a request")
EACH = [pytest.param(w, marks=SLOW if w.name == "swallows_everything" else (), id=w.name) for w in PRIMITIVES]

ROOT = Path(__file__).parents[3]

EXPECTED = {
    "gather_exceptions": ["ok", "ValueError: bad", "ok2", "undo bad2"],
    "task_group_abort": [*(f"{name} cancelled" for name in "abcdef"), "ValueError: the group"],
    "wait_first": ["fast", "1", "after"],
    "as_completed_tasks": ["y", "z", "x"],
    "as_completed_coroutines": ["y", "z", "x"],
    "wait_for": ["in time", "timeout"],
    "timeout": ["in time", "timeout"],
    "sleeps": ["0: at once", "-5: at once", "0.25: True", "5184000: True", "None refused", "'1' refused"],
    "shield": ["gave up", "inner0", "inner1", "inner"],
    "cancellation": ["cleaned up", "cancelled"],
    "async_generator": ["a", "b", "c", "a"],
    "swallows_everything": ["0", "1", "2"],
}


@pytest.mark.parametrize("workflow", EACH)
async def test_a_crash_anywhere_changes_nothing(workflow: Workflow[Any, Any]) -> None:
    """The end is the same wherever the process dies, and no recorded step runs again."""
    if workflow.name == "values_of_chance":
        return  # its times depend on when the lease of the dead process expires; see below
    ended = await crash_everywhere(workflow)
    assert ended.status.outcome == "completed", ended.status.error
    if workflow.name in EXPECTED:
        assert ended.status.value() == EXPECTED[workflow.name]


@pytest.mark.parametrize("workflow", EACH)
async def test_the_recording_replays(workflow: Workflow[Any, Any]) -> None:
    """Replayed in one go, today's code comes to what was recorded."""
    async with Environment([workflow]) as env:
        id = await env.start(workflow)
        status = await env.finish(id)
        replayed = replay(await export(env.store, id), [workflow])
    assert replayed.outcome is not None
    assert replayed.outcome.value == status.result


async def test_chance_and_time_are_the_same_in_replay_and_differ_between_executions() -> None:
    """I2: uuid4, random and now come from the execution and its events."""
    workflow = next(w for w in PRIMITIVES if w.name == "values_of_chance")
    async with Environment([workflow]) as env:
        first, second = [(await env.run(workflow, key=key)).value() for key in ("one", "two")]
    assert first[:2] != second[:2]
    assert int(first[-1]) >= 7  # six values of chance, and at least one time


@pytest.mark.sqlite_only("nothing of it depends on the store")
def test_the_order_is_one_in_every_process() -> None:
    """C5: 20 processes with other hash seeds and other heaps see one order."""
    with concurrent.futures.ThreadPoolExecutor(2) as two_at_a_time:
        traces = set(two_at_a_time.map(_trace, range(20)))
    assert len(traces) == 1


def _trace(seed: int) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.trace", str(seed)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(json.loads(ran.stdout)) >= 8
    return ran.stdout
