"""Reads the workflows of a module that a command line names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

from engine.core.declarations import Workflow


class Unreadable(Exception):
    """The module has no workflows to read. The message says why."""


def workflows_of(name: str) -> Sequence[Workflow[Any, Any]]:
    """The WORKFLOWS of a module. The working directory is searched too. Raises Unreadable, and any exception of the
    module's own code."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise Unreadable(f"there is no module {error.name!r} here") from None
    try:
        workflows: Sequence[Workflow[Any, Any]] = module.WORKFLOWS
    except AttributeError:
        raise Unreadable(f"module {name!r} has no list WORKFLOWS") from None
    return workflows
