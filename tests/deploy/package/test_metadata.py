"""What the wheel declares agrees with the rest of the tree."""

from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.deploy.package.conftest import ROOT, Installed

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CONSTRAINTS = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)


def requirements(file: Path) -> set[str]:
    """The lines of a file of requirements that name a package."""
    return {line for line in file.read_text("utf-8").splitlines() if line[:1].isalpha()}


def test_azure_gets_what_the_wheel_needs() -> None:
    assert requirements(ROOT / "requirements.txt") == set(PROJECT["dependencies"])


def test_the_extra_is_part_of_what_the_tests_run_with() -> None:
    assert set(PROJECT["optional-dependencies"]["dev"]) <= requirements(ROOT / "requirements-dev.txt")


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_has_an_exact_version(file: str) -> None:
    pinned = {name.lower() for name in CONSTRAINTS}
    assert {Requirement(line).name.lower() for line in requirements(ROOT / file)} - pinned == set()


def test_the_wheel_has_its_types_and_nothing_but_its_packages(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = wheel.namelist()
    assert {"engine/py.typed", "devhost/py.typed"} <= set(names)
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"engine", "devhost"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".sqlite")]
