"""Seeds of the simulation: those that once failed, and as many new ones as fit into a box of time."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.verification.simulation.run import simulate

ROOT = Path(__file__).parents[3]
SECONDS = 25.0
"""What new seeds may take."""
FIRST = 1
"""CI plays the same seeds each time, as many as it comes to; `make soak` plays others."""

FOUND = {
    ("hurried", 61): "a purge of what was purged a moment ago answered with an error of the store",
    ("lossy", 226): "a start met an execution that was purged a moment later, and answered that there is none",
    ("frozen", 35): "a driver that stood still in its claim sealed the log against the one that had taken over from it",
    ("frozen", 203): "a driver that stood still in its claim took its lease for a fresh one",
}
"""Worlds that failed when they were found, and what it was. See docs/reliability.md."""


@pytest.mark.parametrize(("theme", "seed"), FOUND)
def test_what_once_failed(theme: str, seed: int) -> None:
    """A change of the engine or of the model may turn a seed into another history; `test_found` has the rest."""
    run = simulate(seed, theme)
    assert run.violation is None, run.report()


def test_worlds_with_retries() -> None:
    """P4: executions that failed or were interrupted are retried, while workers die and answers are lost."""
    for seed in range(FIRST, FIRST + 30):
        run = simulate(seed, "retried")
        assert run.violation is None, run.report()


def test_new_seeds() -> None:
    begun, played = time.monotonic(), 0
    while time.monotonic() < begun + SECONDS:
        run = simulate(FIRST + played)
        assert run.violation is None, run.report()
        played += 1
    print(f"{played} seeds")
    assert played


def test_a_seed_replays_to_the_last_line() -> None:
    """Also in a process whose texts hash differently: what fails once can be looked at."""
    for seed in (6, 7):
        expected = simulate(seed).report()
        assert simulate(seed).report() == expected
        for hashing in ("1", "2"):
            process = subprocess.run(
                [sys.executable, "-m", "tests.verification.simulation", str(seed)],
                cwd=ROOT,
                env={"PYTHONHASHSEED": hashing},
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            assert process.stdout.rstrip("\n") == expected
