"""The jobs of the workflow that deploy, run step by step in a clone: the scripts are real, GitHub and Azure are not.

The action deletes from the folder that it deploys, as the real one does. The deployed app is the local host.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.infra.azure_tools import APP
from tests.deploy.infra.code import ROOT
from tests.deploy.infra.local_host import Address, local_host
from tests.deploy.package.ignore_rules import Rule, as_gitignore, as_npm

WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/infra.yml").read_text("utf-8"))


@dataclass
class Runner:
    """What GitHub keeps between the steps of one job. `deployed` holds the app's files after a deployment."""

    clone: Path
    folder: Path
    app: Address
    said: str = ""
    deployed: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)

    def run(self, job: Mapping[str, Any]) -> None:
        """Do the job's steps in order. Raises CalledProcessError where a script fails, KeyError for a value that nobody
        has set."""
        for name in ("tools", "state", "temp"):
            (self.folder / name).mkdir()
        for tool in ("az", "python3"):
            module = "" if tool == "python3" else f"-m tests.deploy.infra.azure_tools {tool} "
            script = self.folder / "tools" / tool
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n')
            script.chmod(0o755)
        self.values |= {"runner.temp": str(self.folder / "temp"), "vars.AZURE_LOCATION": "westeurope"}
        self.values |= {f"vars.AZURE_{name}_ID": "id" for name in ("CLIENT", "TENANT", "SUBSCRIPTION")}
        self.values |= {"secrets.ENGINE_SIGNING_KEY": "", "vars.ALERT_EMAIL": "", "vars.SIGN_IN_CLIENT_ID": ""}
        for step in job["steps"]:
            self._do(step)

    def _do(self, step: Mapping[str, Any]) -> None:
        match step.get("uses", "").partition("@")[0]:
            case "":
                self._script(step)
            case "azure/login":
                (self.folder / "state/az signed in").touch()
            case "azure/functions-action":
                self._deploy({name: self._filled(value) for name, value in step["with"].items()})
            case action:
                assert action == "actions/checkout", f"a stand-in for {action} is missing"

    def _script(self, step: Mapping[str, Any]) -> None:
        outputs = self.folder / "outputs"
        outputs.write_text("")
        environment = {
            "PATH": f"{self.folder / 'tools'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder),
            "RUNNER_TEMP": self.values["runner.temp"],
            "GITHUB_OUTPUT": str(outputs),
            "STATE": str(self.folder / "state"),
            "STANDIN_URL": self.app.url,
            "STANDIN_KEY": self.app.key,
            "PAUSE": "0.01",
        }
        environment |= {name: self._filled(value) for name, value in step.get("env", {}).items()}
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        ran = subprocess.run(command, cwd=self.clone, env=environment, capture_output=True, text=True, check=False)
        self.said += ran.stdout + ran.stderr
        ran.check_returncode()
        for line in outputs.read_text().splitlines():
            name, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{name}"] = value

    def _deploy(self, given: Mapping[str, str]) -> None:
        assert given["app-name"] == APP
        package = self.clone / given["package"]
        files = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
        kept = _rule()((package / ".funcignore").read_text("utf-8"), files)
        if given["respect-funcignore"] == "True":
            for path in files - kept:
                (package / path).unlink()
        self.deployed = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
        (self.folder / "state/app deployed").touch()

    def _filled(self, value: object) -> str:
        return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", lambda found: self.values[found[1]], str(value))


def _rule() -> Rule:
    folder = os.environ.get("NPM_IGNORE_DIR")
    return as_gitignore if folder is None else as_npm(Path(folder))


def _git(clone: Path, *arguments: str) -> None:
    author = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *author, *arguments], cwd=clone, check=True, capture_output=True)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with local_host(tmp_path_factory.mktemp("host")) as address:
        yield address


@pytest.fixture
def runner(tmp_path: Path, app: Address) -> Runner:
    """A clone of the tree as it stands here, at the tag v1.0.0."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is no clone")
    clone = tmp_path / "clone"
    for path in listed.stdout.splitlines():
        if (ROOT / path).is_file():
            (clone / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, clone / path)
    _git(clone, "init", "--quiet")
    _git(clone, "add", "--all")
    _git(clone, "commit", "--quiet", "--message", "a release")
    _git(clone, "tag", "v1.0.0")
    return Runner(clone, tmp_path, app)


def test_a_release_deploys_the_app_and_runs_an_order(runner: Runner) -> None:
    runner.run(WORKFLOW["jobs"]["deploy"])
    assert re.search(r"order smoke-\S+ is execution [0-9a-f]{32}: completed", runner.said)
    assert {"host.json", "function_app.py", "engine/__init__.py"} <= runner.deployed
    assert not [path for path in runner.deployed if path.startswith(("infra/", "tests/", ".git"))]


def test_a_release_that_deploys_its_own_checkout_fails(runner: Runner) -> None:
    """The order's script is gone by then: what this file is for."""
    steps = [
        step | {"with": step["with"] | {"package": "."}} if "functions-action" in step.get("uses", "") else step
        for step in WORKFLOW["jobs"]["deploy"]["steps"]
    ]
    with pytest.raises(subprocess.CalledProcessError):
        runner.run({"steps": steps})
    assert "infra/order.sh: No such file" in runner.said


@pytest.mark.parametrize("wanted", ["", "v1.0.0"])
def test_a_release_that_fails_goes_back_to_the_tag_before_it(runner: Runner, wanted: str) -> None:
    (runner.clone / "workflows/later.py").write_text("")
    _git(runner.clone, "add", "--all")
    _git(runner.clone, "commit", "--quiet", "--message", "a bad release")
    _git(runner.clone, "tag", "v1.1.0")
    runner.values |= {"inputs.tag": wanted, "github.ref_name": "main" if wanted else "v1.1.0"}
    runner.run(WORKFLOW["jobs"]["roll-back"])
    assert "engine/__init__.py" in runner.deployed
    assert "workflows/later.py" not in runner.deployed
