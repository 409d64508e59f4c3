"""tests/CASES.md explains every case id that a test names."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
EXPLAINED = re.findall(r"^- \*\*([A-Q]\d+)\*\* ", (TESTS / "CASES.md").read_text("utf-8"), re.MULTILINE)


def test_every_case_that_a_test_names_is_explained() -> None:
    named = re.compile(r'"""[^"]*?\b((?:[A-Q]\d{1,2}(?:, | and )?)+):')
    unknown = {
        f"{path.relative_to(TESTS)}: {case}"
        for path in TESTS.rglob("*.py")
        for cases in named.findall(path.read_text("utf-8"))
        for case in re.findall(r"[A-Q]\d+", cases)
        if case not in EXPLAINED
    }
    assert not unknown, f"tests/CASES.md doesn't explain these: {sorted(unknown)}"


def test_cases_stand_in_order_once_each() -> None:
    assert sorted(set(EXPLAINED), key=lambda case: (case[0], int(case[1:]))) == EXPLAINED
