"""The smoke test of a deployment passes on an app that runs, here the local host's, and tells what is wrong."""

from __future__ import annotations

import importlib.util
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
    assert smoke.main(host.url, host.key, patience=20, pause=0.1).endswith(": completed")


def test_a_wrong_key_is_an_error_at_once(host: Address, smoke: Any) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        smoke.main(host.url, "no key", patience=20, pause=0.1)


def test_nobody_there_is_an_error(smoke: Any) -> None:
    with pytest.raises(urllib.error.URLError):
        smoke.main("http://127.0.0.1:9/api", "no key", patience=0.2, pause=0.1)
