"""`durable new`: a project of one's own, made by the engine that a wheel installed."""

from __future__ import annotations

import json
import os
import re
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from engine.cli import main
from engine.cli.new import CannotLayOut, find_origin, lay_out
from tests.deploy.package.conftest import ROOT, Installed
from tests.deploy.package.ignore_rules import Rule, as_core_tools, as_gitignore


@pytest.fixture(scope="module")
def project(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh project. Its Makefile finds the environment ready."""
    folder = tmp_path_factory.mktemp("new") / "project"
    ran = installed.run("durable", "new", str(folder), cwd=folder.parent)
    assert ran.returncode == 0, ran.stderr
    assert "make demo" in ran.stdout
    (folder / ".venv").symlink_to(installed.venv)
    (folder / ".venv/ready").touch()
    return folder


def test_its_tests_pass_at_once(installed: Installed, project: Path) -> None:
    ran = installed.run("make", "test", cwd=project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^\d+ passed", ran.stdout, re.MULTILINE)
    assert "arning" not in ran.stdout + ran.stderr


def test_its_demo_runs_at_once(installed: Installed, project: Path) -> None:
    """`make run` serves the same app: the demo starts it twice."""
    ran = installed.run("make", "demo", cwd=project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "each exactly once, across a kill -9" in ran.stdout


def test_it_runs_on_the_installed_engine(installed: Installed, project: Path) -> None:
    where = "import engine, devhost; print(engine.__file__, devhost.__file__)"
    ran = installed.run(str(project / ".venv/bin/python"), "-c", where, cwd=project)
    assert [path.startswith(str(project / ".venv")) for path in ran.stdout.split()] == [True, True], ran.stderr


def test_it_has_all_that_a_deployment_needs(installed: Installed, project: Path) -> None:
    names = {path.name for path in project.iterdir()}
    assert names >= {".funcignore", ".gitignore", "azure.yaml", "host.json", "infra", "local.settings.json.example"}
    assert os.access(project / "infra/order.sh", os.X_OK)
    assert os.access(project / "infra/deploy.sh", os.X_OK)
    lines = (project / "requirements.txt").read_text("utf-8").splitlines()
    assert lines[1:] == ["-c constraints.txt", "--find-links wheels", "durable-workflows==0.1.0"]
    assert [path.name for path in (project / "wheels").iterdir()] == [installed.wheel.name]


@pytest.mark.parametrize("rule", [as_core_tools, as_gitignore])
def test_its_package_is_the_app_and_the_engine(project: Path, rule: Rule) -> None:
    """Its environment, its data and its tests stay at home, whoever reads .funcignore."""
    files = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    packed = rule(
        (project / ".funcignore").read_text("utf-8"), files | {".venv/lib/pydantic/main.py", ".data/a.sqlite"}
    )
    top = {"constraints.txt", "function_app.py", "host.json", "requirements.txt", "wheels", "workflows"}
    assert packed == {path for path in files if path.partition("/")[0] in top and "__pycache__" not in path}
    assert {path.partition("/")[0] for path in packed} == top


def test_files_of_this_repository_are_shared_and_not_written_twice(project: Path) -> None:
    infra = [path.relative_to(ROOT).as_posix() for path in (ROOT / "infra").rglob("*") if path.is_file()]
    for path in ("host.json", "function_app.py", "azure.yaml", "workflows/orders.py", *infra):
        assert (project / path).read_bytes() == (ROOT / path).read_bytes()
        assert not (ROOT / "template" / path).exists()


def test_a_folder_with_something_in_it_is_refused(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    ran = installed.run("durable", "new", str(tmp_path), cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    refusal = f"{tmp_path} isn't an empty folder. Name a new or empty one: nothing is overwritten"
    assert ran.stderr == f"durable new: {refusal}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_source_tree_has_no_template(tmp_path: Path) -> None:
    with pytest.raises(CannotLayOut, match="Install the engine"):
        lay_out(tmp_path / "project")
    assert not (tmp_path / "project").exists()


def test_the_command_says_which_extra_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "engine.cli.commands", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=r"pip install 'durable-workflows\[cli\]'"):
        main()


class From(Distribution):
    """A distribution that pip installed from `url`, or from an index."""

    def __init__(self, **written: object) -> None:
        self._written = written

    @property
    def version(self) -> str:
        return "1.2.3"

    def read_text(self, filename: str) -> str | None:
        return json.dumps(self._written) if self._written else None

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(path)


def test_the_engine_is_pinned_to_where_it_came_from(tmp_path: Path) -> None:
    """An index, a repository, a clone, an address, a folder, and a wheel that is still there or is gone."""
    wheel = tmp_path / "durable_workflows-1.2.3-py3-none-any.whl"
    pinned = "durable-workflows==1.2.3"
    assert find_origin(From()).lines == (pinned,)
    git = From(url="https://example.com/engine.git", vcs_info={"vcs": "git", "commit_id": "abc"})
    assert find_origin(git).lines == ("durable-workflows @ git+https://example.com/engine.git@abc",)
    clone = find_origin(From(url="file:///clone", vcs_info={"vcs": "git", "commit_id": "abc"}))
    assert clone.lines == ("git+file:///clone@abc",)
    assert clone.note is not None
    archive = From(url="https://example.com/engine.whl", archive_info={})
    assert find_origin(archive).lines == ("durable-workflows @ https://example.com/engine.whl",)
    folder = find_origin(From(url=tmp_path.as_uri(), dir_info={}))
    assert folder.lines == (tmp_path.as_uri(),)
    assert folder.note is not None
    assert pinned in folder.note
    assert find_origin(From(url=wheel.as_uri(), archive_info={})).note is not None
    wheel.touch()
    kept = find_origin(From(url=wheel.as_uri(), archive_info={}))
    assert (kept.wheel, kept.lines, kept.note) == (wheel, ("--find-links wheels", pinned), None)
