"""The glossary keeps its promises: words in order, fields and files that exist, no identifier with a word that is out.

1. The words are sorted, and none stands twice.
2. Every file that the glossary names exists.
3. Every field that it names is a field of a stored document.
4. No identifier of the engine contains a word of the table "Words that are not used".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.store.documents import Chunk, Execution, InboxItem, Large
from engine.values.events import AttemptFailed, Begun, Interrupted, StepResolved, Takeover

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "glossary.md").read_text("utf-8")
KNOWN, _, UNUSED = TEXT.partition("\n## Words that are not used\n")


def _rows(table: str) -> list[list[str]]:
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def _identifiers(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


WORDS = _rows(KNOWN)
FIELDS = {
    "_etag",
    *(
        field.alias or name
        for kind in (Execution, Chunk, InboxItem, Large)
        for name, field in kind.model_fields.items()
    ),
    *(
        re.sub("_(.)", lambda found: found[1].upper(), name)
        for kind in (StepResolved, AttemptFailed, Begun, Interrupted, Takeover)
        for name in kind.__dataclass_fields__
    ),
}
IDS = {"exec", "input", "output", "history::", "deferred::", "channel::", "child::"}
KINDS = {"begun", "forked", "held", "patched", "reopened", "takeover", "timer"}


def test_the_words_are_sorted() -> None:
    words = [row[0].strip("`").lower() + ("`" in row[0]) * "`" for row in WORDS]
    assert words == sorted(set(words))
    assert len(words) > 70


@pytest.mark.parametrize("row", WORDS, ids=lambda row: row[0])
def test_each_word_has_a_meaning_an_owner_and_fields_that_exist(row: list[str]) -> None:
    _, meaning, stored, owner = row
    assert meaning.endswith(".")
    assert (ROOT / owner.strip("`")).is_file()
    assert set(re.findall(r"`([^`]+)`", stored)) <= FIELDS | IDS | KINDS


def test_words_that_are_out_name_nothing_in_the_engine() -> None:
    out = [word.lower() for row in _rows(UNUSED) for word in re.split(", *", row[0].replace("`", ""))]
    assert out
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "engine").rglob("*.py")
        for name in _identifiers(path.read_text("utf-8"))
        for word in out
        if word in re.sub("([a-z])([A-Z])", r"\1_\2", name).lower().split("_") or word == name.lower()
    }
    assert sorted(found) == []


def test_identifiers_are_found_wherever_they_stand() -> None:
    source = "import a as b\nclass C:\n    def d(self, e=1): self.f(g=h)\nasync def i(): pass\n"
    assert {"a", "C", "d", "self", "e", "f", "g", "h", "i"} <= set(_identifiers(source))
