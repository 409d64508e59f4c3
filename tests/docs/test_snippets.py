"""Every Python block of the README and of docs/ runs: the blocks of a file in one module, in order, then its tests."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
async def test_python_blocks_run(document: Path) -> None:
    """A block that no longer runs, or a test in it that fails, is a lie in the documentation."""
    module = types.ModuleType(f"snippets_{document.stem.lower()}")
    sys.modules[module.__name__] = module
    for number, block in enumerate(_blocks(document, "python")):
        exec(compile(block, f"{document.name}[{number}]", "exec"), module.__dict__)
    for name, test in list(vars(module).items()):
        if name.startswith("test_") and inspect.iscoroutinefunction(test):
            await test()


def test_the_guides_blocks_have_tests() -> None:
    """The guide's claims are checked by the tests in its own blocks."""
    assert sum(block.count("async def test_") for block in _blocks(ROOT / "docs" / "guide.md", "python")) >= 7


@pytest.mark.parametrize(
    "command",
    sorted({line.split("#")[0].strip() for d in DOCUMENTS for b in _blocks(d, "sh") for line in b.splitlines()}),
)
def test_make_targets_and_modules_exist(command: str) -> None:
    """The commands that the documents name are there. (The host's own commands run in the end-to-end tests.)"""
    if command.startswith("make "):
        made = subprocess.run(["make", "-n", command.split()[1]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
    elif command.startswith("python -m engine.guard"):
        ran = subprocess.run([sys.executable, *command.split()[1:]], cwd=ROOT, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stdout
