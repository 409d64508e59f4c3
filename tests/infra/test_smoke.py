"""The smoke test of a deployment passes on an app that runs, here the local host's, and tells what is wrong."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.infra.code import ROOT


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the app's functions on a host of its own."""
    folder = tmp_path_factory.mktemp("host")
    process = subprocess.Popen(
        [sys.executable, "-m", "devhost", "--no-auth", "--port", "0", "--data", str(folder / "data.sqlite")],
        cwd=ROOT,
        env={**os.environ, "LEDGER_FILE": str(folder / "ledger.sqlite")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = next(match for line in process.stdout if (match := re.search(r"http://[\w.]+:\d+", line)))
        yield f"{found[0]}/api"
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture(scope="module")
def smoke() -> Any:
    spec = importlib.util.spec_from_file_location("smoke", Path(ROOT / "infra/smoke.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_order_runs_through(host: str, smoke: Any) -> None:
    assert smoke.main(host, "no key", patience=20, pause=0.1).endswith(": completed")


def test_nobody_there_is_an_error(smoke: Any) -> None:
    with pytest.raises(urllib.error.URLError):
        smoke.main("http://127.0.0.1:9/api", "no key", patience=0.2, pause=0.1)
