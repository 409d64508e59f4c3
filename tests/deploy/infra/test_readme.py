"""The README's way from a clone to a running order, run: the scripts are real, and the order runs on the local host.

What is not here is stood in for: git, az, azd and func (see `azure_tools.py`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.infra.code import ROOT
from tests.deploy.infra.local_host import Address, local_host

SECTION = (ROOT / "README.md").read_text("utf-8").partition("\n## Deploy\n")[2].partition("\n## ")[0]
WAYS = dict(re.findall(r"With (\w+)[^\n]*:\n\n```sh\n(.*?)```", SECTION, re.DOTALL))


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with local_host(tmp_path_factory.mktemp("host")) as address:
        yield address


def _run(commands: str, folder: Path, app: Address) -> subprocess.CompletedProcess[str]:
    tools = folder / "tools"
    for path in (tools, folder / "state", folder / "home"):
        path.mkdir()
    for name in ("git", "az", "azd", "func"):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.deploy.infra.azure_tools {name} "$@"\n')
        tool.chmod(0o755)
    python = tools / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    environment = {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder / "home"),
        "STATE": str(folder / "state"),
        "STANDIN_URL": app.url,
        "STANDIN_KEY": app.key,
        "REPOSITORY": "https://example.com/workflows.git",
        "PAUSE": "0.01",
    }
    command = ["bash", "-euo", "pipefail", "-c", commands]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_there_are_two_ways() -> None:
    assert WAYS.keys() == {"azd", "func"}


@pytest.mark.parametrize("way", WAYS)
def test_from_a_clone_to_an_order_in_five_commands(way: str, tmp_path: Path, app: Address) -> None:
    lines = [line for line in WAYS[way].splitlines() if line.strip()]
    assert len(lines) <= 5
    ran = _run(WAYS[way], tmp_path, app)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"order smoke-\S+ is execution [0-9a-f]{32}: completed", ran.stdout)
    assert app.key not in ran.stdout + ran.stderr


@pytest.mark.parametrize("way", WAYS)
def test_who_has_not_signed_in_gets_nowhere(way: str, tmp_path: Path, app: Address) -> None:
    """The stand-ins refuse what the real ones would."""
    commands = "\n".join(line for line in WAYS[way].splitlines() if not line.startswith("az login"))
    ran = _run(commands, tmp_path, app)
    assert ran.returncode != 0
    assert "this comes before it: az signed in" in ran.stderr
    assert "completed" not in ran.stdout


def test_an_app_that_gives_no_key_is_an_error(tmp_path: Path, app: Address) -> None:
    commands = "az login; cd '%s'; infra/order.sh somewhere else http://127.0.0.1:9/api" % ROOT  # noqa: UP031
    ran = _run(commands, tmp_path, app)
    assert ran.returncode != 0
    assert "gives no key" in ran.stderr
