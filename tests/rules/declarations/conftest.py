from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.rules.declarations.app import HEAD, App


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    def write(**modules: str) -> ModuleType:
        package = tmp_path / "shop"
        package.mkdir()
        for name, source in modules.items():
            (package / f"{name}.py").write_text(HEAD + textwrap.dedent(source))
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module(f"shop.{next(iter(modules))}")

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]
