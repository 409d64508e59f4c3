"""Apps that tests write as packages `shop`: what each module holds, and where a line of it stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

App = Callable[..., ModuleType]
"""Writes a package `shop` with these modules, and gives the one named first."""

HEAD = "from __future__ import annotations; from engine import *\n"
MAIL = "@activity\nasync def send(to: str) -> None: ...\n"


def place(module: ModuleType, name: str, line: int) -> str:
    return re.escape(str(Path(str(module.__file__)).with_name(f"{name}.py")) + f":{line}")
