"""What a deployment uploads: the app and nothing else, whoever reads .funcignore.

The npm package that the workflow's action uses is asked itself if node is there and NPM_IGNORE_DIR names a folder whose
node_modules has it. Nothing is installed here:

    npm install --prefix "$FOLDER" ignore@7.0.5
    NPM_IGNORE_DIR="$FOLDER" python -m pytest tests/deploy/package/test_content.py
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.deploy.package.conftest import ROOT
from tests.deploy.package.ignore_rules import Rule, as_core_tools, as_gitignore, as_npm

TEXT = (ROOT / ".funcignore").read_text("utf-8")
APP = {"constraints.txt", "engine", "function_app.py", "host.json", "requirements.txt", "workflows"}

LITTER = {
    ".DS_Store",
    ".azure/prod/.env",
    ".data/functions.key",
    ".data/workflows.sqlite",
    ".env",
    ".git/config",
    ".hypothesis/unicode_data/14.0.0/charmap.json.gz",
    ".idea/workspace.xml",
    ".mypy_cache/3.11/engine/__init__.data.json",
    ".python_packages/lib/site-packages/pydantic/main.py",
    ".venv-ci-3.13/bin/python",
    ".venv/bin/python",
    ".venv/lib/python3.11/site-packages/azure/cosmos/aio.py",
    "__pycache__/function_app.cpython-311.pyc",
    "dist/durable_workflows-0.1.0-py3-none-any.whl",
    "engine/__pycache__/__init__.cpython-311.pyc",
    "engine/store/cosmos/__pycache__/store.cpython-311.pyc",
    "local.settings.json",
    "notes.md",
    "venv/lib/python3.11/site-packages/azure/cosmos/aio.py",
    "workflows/.DS_Store",
}
"""What work leaves beside the app, secrets among it."""

KEPT = {
    "docs.py",
    "infrastructure/prices.py",
    "template.py",
    "tests.py",
    "tests_of_blood.py",
    "wheels/durable_workflows-0.1.0-py3-none-any.whl",
    "workflows/demo.py",
    "workflows/docs/contract.md",
    "workflows/template/letter.txt",
    "workflows/tests/blood.py",
}
"""Files of an app whose names begin like those of folders that are left out, or that stand deeper."""


@pytest.fixture(params=["core tools", "gitignore", "npm"])
def rule(request: pytest.FixtureRequest) -> Rule:
    if request.param != "npm":
        return {"core tools": as_core_tools, "gitignore": as_gitignore}[request.param]
    folder = os.environ.get("NPM_IGNORE_DIR")
    if folder is None:
        pytest.skip("NPM_IGNORE_DIR isn't set")
    return as_npm(Path(folder))


def test_the_package_of_a_clone_in_use_is_the_app(rule: Rule) -> None:
    """Whatever stands in the repository is needed in Azure, or left out, and so is what work leaves behind."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is no clone")
    files = set(listed.stdout.splitlines())
    app = {path for path in files if path.partition("/")[0] in APP}
    assert {path.partition("/")[0] for path in app} == APP
    assert rule(TEXT, files | LITTER | KEPT) == app | KEPT


@pytest.mark.parametrize("former", [".venv*", "tests", "*.md", "demo.py", "__pycache__"])
def test_a_pattern_that_means_two_things_is_found(former: str) -> None:
    """Each of these reads well, and the two rules differ over it."""
    paths = LITTER | KEPT
    assert as_core_tools(former, paths) != as_gitignore(former, paths)


def test_core_tools_keep_what_a_pattern_with_an_exclamation_mark_names() -> None:
    paths = {"a/b.txt", "a/c.txt", "ab.txt"}
    assert as_core_tools("# a comment\na\n!a/b.txt", paths) == {"a/b.txt", "ab.txt"}
    assert as_core_tools("", paths) == paths
