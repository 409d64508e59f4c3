"""The function app on the local host over a Cosmos DB endpoint: every part a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PATIENCE = 30
"""Seconds after which an answer or an end counts as missing."""

Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    processes: list[subprocess.Popen[str]] = []
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COSMOS", "ENGINE_"))}

    def run(*arguments: str, **settings: str) -> subprocess.Popen[str]:
        with (tmp_path / f"log-{len(processes)}.txt").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=ROOT,
                env=kept | {"LEDGER_FILE": str(tmp_path / "ledger")} | settings,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def line_with(process: subprocess.Popen[str], pattern: str) -> str:
    """What the pattern's group matches, in the first line of the process's output that has it."""
    assert process.stdout is not None
    for line in process.stdout:
        if (found := re.search(pattern, line)) is not None:
            return found[1]
    raise AssertionError(f"it ended without {pattern}")


def ask(url: str, body: Any = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=PATIENCE) as response:
        return json.loads(response.read())


def start_host(run: Run, tmp_path: Path, endpoint: str, key: str) -> tuple[subprocess.Popen[str], str]:
    data = str(tmp_path / "unused.sqlite")
    host = run("devhost", "--port", "0", "--no-auth", "--data", data, "--cosmos", endpoint, "--cosmos-key", key)
    return host, line_with(host, r"is served on (\S+) ")


def test_an_app_over_cosmos(run: Run, tmp_path: Path) -> None:
    """Started without being waited for, each execution is driven by the change feed; the second host takes over what
    the first one leaves."""
    double = run("tests.cosmos_double", "--port", "0", "--ranges", "2")
    endpoint, key = line_with(double, r"endpoint (\S+)"), line_with(double, r"key +(\S+)")
    connection = f"AccountEndpoint={endpoint};AccountKey={key};"
    assert run("engine.store.cosmos", "init", COSMOS=connection).wait(PATIENCE) == 0

    host, url = start_host(run, tmp_path, endpoint, key)
    nights = [f"night {n}" for n in range(6)]
    ids = []
    for night in nights:
        started = ask(f"{url}/api/workflows/digest_documents", {"night": night, "documents": ["a-b", "c"]})
        ids.append(started["executionId"])
    for id in ids:
        ended = ask(f"{url}/api/executions/{id}?wait={PATIENCE}")
        assert ended["result"] == {"done": 2, "words": 3, "unreadable": {}}
    assert not (tmp_path / "unused.sqlite").exists()

    waiting = ask(f"{url}/api/workflows/digest_documents", {"night": "late", "documents": ["x"] * 20})
    host.send_signal(signal.SIGKILL)
    host.wait(PATIENCE)
    other, url = start_host(run, tmp_path, endpoint, key)
    ended = ask(f"{url}/api/executions/{waiting['executionId']}?wait=60")
    assert ended["result"]["done"] == 20
    other.send_signal(signal.SIGTERM)
    assert other.wait(PATIENCE) == 0


def test_what_is_missing_is_said(run: Run, tmp_path: Path) -> None:
    double = run("tests.cosmos_double", "--port", "0")
    endpoint, key = line_with(double, r"endpoint (\S+)"), line_with(double, r"key +(\S+)")
    _, url = start_host(run, tmp_path, endpoint, key)
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(f"{url}/api/executions/{'0' * 32}")
    with refused.value:
        assert refused.value.code == 503
    logs = "".join(path.read_text() for path in sorted(tmp_path.glob("log-*")))
    assert "python -m engine.store.cosmos init" in logs


def test_a_key_needs_an_account(run: Run) -> None:
    assert run("devhost", "--cosmos-key", "a2V5").wait(PATIENCE) == 1
