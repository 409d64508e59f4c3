"""The order of a workflow's steps is the same in every process, also where asyncio walks a set of tasks."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine import Workflow
from tests.support.orders import NAMES, WORKFLOWS, order, takes_as_completed

ROOT = Path(__file__).parents[3]
PROCESSES = 20

ROUNDS = [f"{name}{n}" for n in (1, 2) for name in NAMES]
ORDERS = {
    "waits_for_all": [*ROUNDS, *NAMES],
    "cancels_the_pending": ["first", *ROUNDS],
    "aborts_a_group": ["the group", *ROUNDS],
    "takes_as_completed": [f"{name}{n}" for n in range(1, 9) for name in NAMES[: 9 - n]],
    "takes_coroutines_as_completed": [*ROUNDS, *NAMES],
}


def _orders(seed: int) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.orders", str(seed)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


def test_one_order_in_twenty_processes() -> None:
    """C5: with other hash seeds and other heaps, wait, as_completed and an aborting TaskGroup ask for the same steps
    in the same order."""
    with ThreadPoolExecutor(2) as two_at_a_time:
        orders = set(two_at_a_time.map(_orders, range(PROCESSES)))
    assert len(orders) == 1
    assert json.loads(orders.pop()).keys() == ORDERS.keys()


@pytest.mark.parametrize("asking", WORKFLOWS, ids=lambda w: w.name)
def test_the_order_is_that_of_the_calls(asking: Workflow[[], list[str]]) -> None:
    """Not only one order, but the one that an author expects: that in which the tasks were made."""
    texts = [json.loads(text) for text in order(asking)]
    if asking is takes_as_completed:
        texts = [text for text in texts if len(text) == 2]  # what is done with each comes in between
    assert texts[: len(ORDERS[asking.name])] == ORDERS[asking.name]
