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


SHOWN = {
    "await asyncio.gather(*(build(": "children in parallel",
    "deliver.child(": "a child that lives on",
    "deliver.start(": "a child that isn't waited for",
    "ChildStopped as": "a child that was stopped",
    "compensate(": "compensation",
    "compensation_errors": "a compensation that fails",
    "finalizer(": "a finalizer",
    "client.interrupt(": "interrupt",
    "client.terminate(": "terminate",
    "client.resume(": "resume",
    "asyncio.shield(": "shield around a cleanup",
    "client.reject(": "a deferred's failure",
    'approval["legal"]': "keyed deferreds",
    "token_for(": "a token from outside",
    "asyncio.wait([answer], timeout": "a deferred against a timer",
    "async for message in messages": "a channel",
    "suspend_on_failure=": "suspend on failure",
    "time_limit=": "a time limit",
    "retention=": "retention",
    "tags=": "tags",
    "workflow.set_status(": "a custom status",
    "workflow.set_tag(": "a tag that is set while it runs",
    "max_parallel=": "a limit of parallel activities",
    "assert check(": "the determinism guard",
    "workflow.logger": "the log",
    "lifespan=": "what the app opens once",
    "activity.heartbeat(": "progress over attempts",
    "activity.is_cancelled(": "a thread that nobody waits for",
    'await step("': "a step without a declaration",
    "activities={": "activities replaced by name",
    "env.fail(": "failures by step",
    "env.crash_at(": "a crash at a step",
    "evict=True": "an eviction at every step",
    "workers=2": "two workers",
    "env.ran(": "what ran",
    "survives(": "a crash everywhere",
    "replay(recording": "the replay checker",
}
"""What an author may use, by the code that shows it."""


@pytest.mark.parametrize("code", SHOWN, ids=SHOWN.get)
def test_every_feature_has_a_block_in_the_guide(code: str) -> None:
    """One that runs: the blocks of the guide do, and their tests with them."""
    assert code in "".join(_blocks(ROOT / "docs" / "guide.md", "python"))


def test_every_test_in_a_block_is_run() -> None:
    """They are awaited, so they are async; and they are there."""
    tests = [line for d in DOCUMENTS for b in _blocks(d, "python") for line in b.splitlines() if "def test_" in line]
    assert len(tests) >= 18
    assert [line for line in tests if not line.startswith("async def test_")] == []


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
