"""Nothing goes wrong in any state that the protocol can reach; and without any one of its guards, something does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.verification.model.driving import MOVES
from tests.verification.model.guards import COVERED, GUARDS
from tests.verification.model.programs import PROGRAMS, TAKEOVER, Events, recorded
from tests.verification.model.search import search
from tests.verification.model.state import State

ROOT = Path(__file__).parents[3]
HEADING = "## The exhaustive model\n"


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_goes_wrong(program: str) -> None:
    """Every state with two faults of any kind, in any order, is searched: no rule is broken and nothing is stuck."""
    found = search(programs=[program])
    assert found.wrong is None, "\n".join(map(str, found.trace))
    print(f"{program}: {found.states:,} states, {found.transitions:,} transitions")


def test_the_search_gets_everywhere() -> None:
    """It makes each kind of move and comes to each end; two leases expire in one run; of two values one gets in."""
    places, ends, values, takeovers = set[str](), set[str | None](), set[str](), set[int]()

    def visit(state: State) -> None:
        places.update(driver.at for driver in state.drivers)
        ends.add(state.exec.ended)
        values.update(state.inbox)
        takeovers.add(sum(chunk.count(TAKEOVER) for chunk in state.log))

    for program, faults in (("steps", 2), ("together", 1), ("race", 0)):
        search(faults=faults, programs=[program], visit=visit)
    assert places == set(MOVES) - {"loaded", "answer", "exec"}  # where only a driver without a guard is
    assert ends == {None, "done", "x", "late", "interrupted", "terminated"}
    assert values == {"D=x"}
    assert takeovers >= {0, 1, 2}


@pytest.mark.parametrize(("program", "faults"), [("steps", 1), ("after", 1), ("together", 0), ("race", 0), ("two", 0)])
def test_states_that_are_taken_for_one_show_the_same(program: str, faults: int) -> None:
    """With and without the reduction the same histories come to the same ends."""

    def shown(every: bool) -> set[tuple[Events, str | None, bool, frozenset[str]]]:
        found = set()
        search(
            faults=faults,
            programs=[program],
            every=every,
            visit=lambda s: found.add((recorded(s.log), s.exec.ended, s.exec.interrupted, s.inbox)),
        )
        return found

    assert shown(every=True) == shown(every=False)


CAUGHT = [name for name, guard in GUARDS.items() if guard.steps]


@pytest.mark.parametrize("name", CAUGHT)
def test_every_guard_is_needed(name: str) -> None:
    """Without it the search finds what it should, by a way of the length that docs/reliability.md gives."""
    guard = GUARDS[name]
    found = search([name], programs=[guard.program])
    assert (found.wrong, len(found.trace)) == (guard.wrong, guard.steps), "\n".join(map(str, found.trace))


@pytest.mark.parametrize("name", [name for name in CAUGHT if GUARDS[name].steps <= 9])
def test_no_way_is_shorter(name: str) -> None:
    """The shortest way through all states, also those that the reduction leaves out, has the same length."""
    guard = GUARDS[name]
    assert len(search([name], programs=[guard.program], every=True).trace) == guard.steps


@pytest.mark.parametrize("name", COVERED)
def test_a_guard_that_another_covers_for(name: str) -> None:
    """Without it alone nothing goes wrong; nor without the other one alone, in that program; without both, it does."""
    behind = COVERED[name]
    assert search([name], faults=1).wrong is None
    assert search([behind.other], faults=1, programs=[behind.program]).wrong is None
    found = search([name, behind.other], programs=[behind.program])
    assert (found.wrong, len(found.trace)) == (behind.wrong, behind.steps), "\n".join(map(str, found.trace))


def test_the_documentation_lists_every_guard() -> None:
    """With what its loss leads to, and in how many steps."""
    texts = [path.read_text() for path in (ROOT / "docs").glob("*.md")]
    section = next(text.split(HEADING)[1].split("\n## ")[0] for text in texts if HEADING in text)
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    listed = {row[0].strip("`"): row[1:] for row in rows}
    assert set(CAUGHT) | set(COVERED) == set(GUARDS) == set(listed)
    for name in CAUGHT:
        guard = GUARDS[name]
        assert listed[name] == [guard.rule, guard.wrong, guard.program, str(guard.steps)]
    for name, behind in COVERED.items():
        without = f"nothing: `{behind.other}` covers for it; without both, {behind.wrong}"
        assert listed[name] == [GUARDS[name].rule, without, behind.program, str(behind.steps)]


def test_the_command_prints_the_way() -> None:
    """`python -m tests.verification.model --without …` prints each step, and what went wrong at its end."""
    command = [sys.executable, "-m", "tests.verification.model", "--without", "first-writer", "--program", "after"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    assert "1. the outside starts it: program after" in ran.stdout
    assert "the outside sends D=y" in ran.stdout
    assert ran.stdout.rstrip().endswith("a deferred has lost its first value")


def test_the_command_counts_the_states() -> None:
    """Without a guard left out it prints how many states there are."""
    command = [sys.executable, "-m", "tests.verification.model", "--program", "steps", "--faults", "0"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "states" in ran.stdout
    assert ran.stdout.rstrip().endswith("nothing wrong")
