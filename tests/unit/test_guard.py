"""The determinism guard names each call that a replay can't repeat, where it stands, and what to use instead."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from engine.guard import check
from tests.support import suspicious

EXPECTED = {
    "datetime.now()": ("datetime.datetime.now", "workflow.now()"),
    "dt.date.today()": ("datetime.date.today", "workflow.now().date()"),
    "time.sleep(1)": ("time.sleep", "asyncio.sleep()"),
    "random.random()": ("random.random", "workflow.random()"),
    "choice([1])": ("random.Random.choice", "workflow.random()"),
    "uuid4()": ("uuid.uuid4", "workflow.uuid4()"),
    "uuid.uuid1()": ("uuid.uuid1", "workflow.uuid4()"),
    'os.environ["HOME"]': ("os.environ", "the payload, or an activity"),
    'getenv("HOME")': ("os.getenv", "the payload, or an activity"),
    'open("file")': ("open", "an activity"),
    'Path("file").read_text()': ("….read_text()", "an activity"),
    "await asyncio.to_thread(print)": ("asyncio.to_thread", "a sync activity, which runs in a thread"),
    "for _ in {1, 2}:": ("iteration over a set", "sorted(), or a list"),
    "[member for member in members]": ("iteration over a set", "sorted(), or a list"),
    "return time.time()": ("time.time", "workflow.now()"),
}


@pytest.mark.parametrize("line", EXPECTED)
def test_each_offence_is_named_with_its_place_and_cure(line: str) -> None:
    """File, line and replacement, also in a plain function that the workflow calls."""
    source = inspect.getsource(suspicious).splitlines()
    number = next(n for n, text in enumerate(source, 1) if text.strip() == line)
    found = {(f.line, f.what, f.instead) for f in check([suspicious.suspicious])}
    assert (number, *EXPECTED[line]) in found


def test_nothing_else_is_named() -> None:
    """Each offence once, and none in code that keeps the rules; activities may do what they like."""
    assert len(check([suspicious.suspicious])) == len(EXPECTED)
    assert check([suspicious.blameless]) == []


def test_the_command_ends_with_one_where_it_finds_something() -> None:
    """`python -m engine.guard MODULE` is for CI: the exit code tells."""
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-m", "engine.guard", "tests.support.suspicious"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert f"{len(EXPECTED)} findings" in ran.stdout
