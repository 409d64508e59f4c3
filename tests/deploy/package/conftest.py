"""A wheel of this tree, and an environment in which it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Installed:
    """A virtual environment: the engine from a wheel, all other packages from the environment that runs the tests."""

    venv: Path
    wheel: Path

    def run(self, *command: str, cwd: Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a program of that environment, or of the machine."""
        path = f"{self.venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COSMOS", "ENGINE_", "PY"))}
        return subprocess.run(
            command, cwd=cwd, env=kept | {"PATH": path}, capture_output=True, text=True, timeout=timeout, check=False
        )


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    venv = folder / "venv"
    for command in (
        ("hatchling", "build", "-t", "wheel", "-d", str(folder)),
        ("venv", "--without-pip", str(venv)),
    ):
        subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    install = ("pip", "--python", str(venv), "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    subprocess.run([sys.executable, "-m", *install], cwd=folder, check=True, capture_output=True)
    return Installed(venv, wheel)
