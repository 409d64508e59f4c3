"""What the app's code asks of its surroundings: settings, read from its source text, and triggers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
TRIGGERS = ROOT / "engine/boundary/functions.py"

_NAME = re.compile(r"COSMOS(__\w+)?|(AZURE|COSMOS|ENGINE|LEDGER)(_[A-Z0-9]+)+")
_REFERENCE = re.compile(r"%([A-Z][A-Z0-9_]{2,})%")


def sources() -> list[Path]:
    """The files that run in Azure."""
    engine = [path for path in (ROOT / "engine").rglob("*.py") if not path.is_relative_to(ROOT / "engine/cli")]
    return [ROOT / "function_app.py", *sorted(engine), *sorted(ROOT.glob("workflows/*.py"))]


def settings_read() -> set[str]:
    """The settings that this code names, itself or by `%NAME%` in a trigger."""
    return {name for path in sources() for name in settings_in(path.read_text("utf-8"))}


def settings_in(source: str) -> Iterator[str]:
    """The settings that source text names, in texts of their own."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _REFERENCE.findall(node.value)
            if _NAME.fullmatch(node.value):
                yield node.value


def trigger(function: str) -> dict[str, object]:
    """The arguments of the trigger of one of the engine's functions, by name."""
    for node in ast.walk(ast.parse(TRIGGERS.read_text("utf-8"))):
        if isinstance(node, ast.AsyncFunctionDef) and node.name == function:
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("_trigger"):
                    return {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    raise LookupError(f"{TRIGGERS.name} has no function {function} with a trigger")


def driving_functions() -> set[str]:
    """The names of the engine's functions whose trigger is not an HTTP route."""
    return {
        node.name
        for node in ast.walk(ast.parse(TRIGGERS.read_text("utf-8")))
        if isinstance(node, ast.AsyncFunctionDef)
        and any(ast.unparse(decorator).partition("(")[0].endswith("_trigger") for decorator in node.decorator_list)
    }


def routes_of_functions() -> dict[str, str]:
    """The route of each of the engine's HTTP functions."""
    return {
        node.name: ast.literal_eval(decorator.args[0])
        for node in ast.walk(ast.parse(TRIGGERS.read_text("utf-8")))
        if isinstance(node, ast.AsyncFunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "triggers.route"
    }
