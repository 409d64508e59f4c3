"""CONTRIBUTING.md, CHANGELOG.md and the records of decisions name what is there, and are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RECORDS = sorted((ROOT / "docs/adr").glob("0*.md"))
DOCUMENTS = [ROOT / "CONTRIBUTING.md", *RECORDS]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_is_there(document: Path) -> None:
    text = document.read_text("utf-8")
    paths = re.findall(r"`((?:tests|infra|engine|devhost|docs|\.ci)/[\w/.-]*)`", text)
    paths += re.findall(r"(tests/[\w/]+) -", text)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.name)
def test_a_record_says_why_what_and_at_what_price(record: Path) -> None:
    text = record.read_text("utf-8")
    assert text.startswith(f"# {record.name[:4]} ")
    parts = re.findall(r"^(?:\*\*([\w ]+)\.\*\*|(Rules): )", text, re.MULTILINE)
    assert ["".join(part) for part in parts] == ["Context", "Decision", "Consequences", "Not chosen", "Rules"]
    title = text.partition("\n")[0].removeprefix(f"# {record.name[:4]} ")
    assert f"| [{record.name[:4]}]({record.name}) | {title} |" in (ROOT / "docs/adr/README.md").read_text("utf-8")


def test_records_are_numbered_without_a_gap() -> None:
    assert [int(record.name[:4]) for record in RECORDS] == [*range(1, len(RECORDS) + 1)]


def test_the_changelog_has_the_headings_that_readers_know() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## \[(.+?)\]", text, re.MULTILINE)[0] == "Unreleased"
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds


def test_the_hooks_are_what_lint_runs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0]["hooks"]
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    linted = re.findall(r"\$\(BIN\)/(.+?)(?: \.)?$", recipe, re.MULTILINE)
    assert [hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude") for hook in hooks] == linted
