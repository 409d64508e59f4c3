"""The simulation can fail: with any one guard of the protocol switched off, it finds a violation.

Each mutant begins at a seed that is known to catch it. A change of the engine turns seeds into other histories: then
the search goes on from there, which takes a few seconds, and the seed may be set anew.
"""

from __future__ import annotations

import pytest

from tests.verification.simulation.invariants import Violation
from tests.verification.simulation.mutants import MUTANTS
from tests.verification.simulation.run import simulate

BOUND = 400
"""Seeds within which a violation must be found. The rarest is found about once in a hundred."""

CAUGHT = {
    "suspend without IfMatch": ("hurried", 1),
    "complete without IfMatch": ("frozen", 37),
    "claim without IfMatch": ("hurried", 9),
    "append over what is there": ("frozen", 44),
    "the last value of a deferred wins": ("hurried", 1),
    "signal without wake": ("hurried", 1),
    "signal without dueAt": ("lagging", 1),
    "no second look at the inbox after a 412": ("hurried", 32),
    "inbox before exec": ("lagging", 52),
    "after a 412 nobody asks whose lease it is": ("frozen", 20),
    "an interrupt is overwritten": ("hurried", 22),
    "a creator takes any execution for its own": ("driven", 1),
    "takeover without seal": ("frozen", 177),
    "a restart deletes nothing": ("hurried", 1),
    "inbox not counted": ("lagging", 8),
    "any transition is allowed": ("hurried", 1),
    "a child's end is not owed": ("bereft", 90),
    "a child that was given up isn't told": ("bereft", 5),
    "nobody looks for a circle of waits": ("", 53_938),
    "anything that has ended runs again": ("retried", 1),
    "a retry forgets the last events": ("retried", 1),
    "a retry leaves the last events where they lie": ("retried", 1),
    "a takeover seals without a look at the clock": ("frozen", 35),
    "a lease is counted from the answer": ("frozen", 203),
    "no look at the clock before activities start": ("frozen", 32),
    "activities start before what led to them is written": ("dying", 36),
}
"""For each mutant the kind of faults that finds it soon, and the seed to begin at."""


def test_every_mutant_is_hunted() -> None:
    assert CAUGHT.keys() == MUTANTS.keys()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_guard_is_noticed(name: str) -> None:
    theme, first = CAUGHT[name]
    for seed in range(first, first + BOUND):
        with MUTANTS[name]():
            run = simulate(seed, theme)
        if isinstance(run.violation, Violation):
            print(f"{name}: {theme} seed {seed}: {run.violation}")
            assert simulate(seed, theme).violation is None, "the seed fails without the mutant as well"
            return
    pytest.fail(f"{BOUND} seeds of {theme!r} from {first} on found nothing")
