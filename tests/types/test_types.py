"""The types of the public door: mypy and pyright agree on every line of `expected.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKERS = {
    "mypy": ["mypy", "--strict", str(HERE / "expected.py")],
    "pyright": ["basedpyright", "--project", str(HERE)],
}


@pytest.mark.parametrize("checker", CHECKERS)
def test_right_calls_have_their_types_and_wrong_calls_are_errors(checker: str) -> None:
    """P7: a wrong call that a checker lets pass leaves a comment that ignores nothing."""
    ran = subprocess.run(
        [sys.executable, "-m", *CHECKERS[checker]], cwd=HERE.parents[1], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
