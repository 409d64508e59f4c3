"""The command line as its users run it: a process of its own, against a local host in another one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.infra.code import ROOT
from tests.deploy.infra.local_host import local_host

DURABLE = (sys.executable, "-m", "engine.cli")


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str, given: str = "", **settings: str) -> Ran:
    """Run `durable` with those settings and no others."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COSMOS", "ENGINE_"))}
    ran = subprocess.run(
        [*DURABLE, *arguments],
        cwd=ROOT,
        env=kept | settings,
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@dataclass(frozen=True)
class Site:
    """A running local host with the app of `tests/page/served.py`, its key and its store."""

    url: str
    key: str
    store: Path

    def run(self, *arguments: str, given: str = "") -> Ran:
        return run(*arguments, given=given, ENGINE_URL=self.url, ENGINE_KEY=self.key)

    def ok(self, *arguments: str, given: str = "") -> Ran:
        ran = self.run(*arguments, given=given)
        assert (ran.code, ran.err) == (0, ""), ran
        return ran

    def start(self, workflow: str, payload: Any, *options: str) -> str:
        return str(self.ok("start", workflow, json.dumps(payload), "--json", *options).json["executionId"])

    def reach(self, id: str, what: Callable[[Any], bool]) -> Any:
        """The status, once `what` holds of it. The host drives in the background: this is what is waited for."""
        for _ in range(60):
            status = self.ok("get", id, "--json").json
            if what(status):
                return status
            time.sleep(0.1)
        raise AssertionError(status)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("cli")
    with local_host(folder, "--app", "tests.page.served") as address:
        yield Site(address.url, address.key, folder / "data.sqlite")
