"""The smoke test of a deployment passes on an app that runs, here the local host's, and tells what is wrong."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.infra.azure_tools import AUDIENCE
from tests.deploy.infra.code import ROOT
from tests.deploy.infra.local_host import Address, local_host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with local_host(tmp_path_factory.mktemp("host")) as address:
        yield address


@pytest.fixture(scope="module")
def smoke() -> Any:
    spec = importlib.util.spec_from_file_location("smoke", Path(ROOT / "infra/smoke.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_order_runs_through(host: Address, smoke: Any) -> None:
    assert smoke.main(host.url, {"x-functions-key": host.key}, patience=20, pause=0.1).endswith(": completed")


def test_a_wrong_key_is_an_error_at_once(host: Address, smoke: Any) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        smoke.main(host.url, {"x-functions-key": "no key"}, patience=20, pause=0.1)


def test_nobody_there_is_an_error(smoke: Any) -> None:
    with pytest.raises(urllib.error.URLError):
        smoke.main("http://127.0.0.1:9/api", {"x-functions-key": "no key"}, patience=0.2, pause=0.1)


def test_with_sign_in_the_caller_brings_a_token(tmp_path: Path) -> None:
    """Asked of az for the app's audience. Nobody asks for a key."""
    asked: list[str] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(f"{self.headers['authorization']} {self.headers['x-functions-key']}")
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tool = tmp_path / "az"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.deploy.infra.azure_tools az "$@"\n')
    tool.chmod(0o755)
    (tmp_path / "az signed in").touch()
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environment |= {"STATE": str(tmp_path), "STANDIN_TOKEN": "t0ken"}
    command = [ROOT / "infra/order.sh", "group", "app", f"http://127.0.0.1:{server.server_port}", AUDIENCE]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # type: ignore[arg-type]
    server.shutdown()
    server.server_close()
    assert asked == ["Bearer t0ken None"]
    assert "403" in ran.stderr
    assert "t0ken" not in ran.stdout + ran.stderr
