"""docs/cli.md says what is there: its commands run, one after the other, and it leaves none out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from engine.cli.commands import app
from tests.deploy.infra.code import ROOT
from tests.deploy.infra.local_host import local_host

TEXT = (ROOT / "docs/cli.md").read_text("utf-8")
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    if line.startswith("durable ")
]


def test_every_command_runs(tmp_path: Path) -> None:
    """Against the app of this repository on the local host, in a folder of its own."""
    durable = tmp_path / "durable"
    durable.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m engine.cli "$@"\n')
    durable.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COSMOS", "ENGINE_"))}
    with local_host(tmp_path) as address:
        settings = {
            "ENGINE_URL": address.url,
            "ENGINE_KEY": address.key,
            "ENGINE_SQLITE_FILE": str(tmp_path / "data.sqlite"),
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }
        script = "\n".join(f"{line}\necho == {number}" for number, line in enumerate(COMMANDS))
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=tmp_path,
            env=kept | settings,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
    assert ran.stdout.count("\n== ") == len(COMMANDS)
    assert "it didn't complete" in ran.stdout
    assert "order-7.json: replays, completed" in ran.stdout
    assert ", 0 would break" in ran.stdout


def test_every_command_has_its_line() -> None:
    names = {str(command.name) for command in app.registered_commands} - {"new"}
    assert len(names) > 15
    assert {name for name in names if f"`{name}" not in TEXT and f"durable {name}" not in TEXT} == set()
