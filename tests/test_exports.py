"""The public door: `engine.__all__` is sorted, complete, and every name in it explains itself."""

import ast
from pathlib import Path

import engine
import engine.testing

SOURCES = {engine: Path(engine.__file__), engine.testing: Path(engine.testing.__file__)}


def _imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if node.module != "__future__"
    }


def test_all_is_sorted_and_complete() -> None:
    """What the door imports, it offers: no more and no less."""
    for module, path in SOURCES.items():
        assert list(module.__all__) == sorted(module.__all__), module
        assert set(module.__all__) == _imported(path), module


def test_every_public_name_explains_itself() -> None:
    """A docstring of its own, also the words `activity` and `workflow`."""
    for module in SOURCES:
        for name in module.__all__:
            assert getattr(module, name).__doc__, f"{module.__name__}.{name}"


def test_public_errors_are_one_tree() -> None:
    """Whoever catches Fault or ClientError catches all of their kind, and neither catches the other."""
    for name in ("NonDeterminism", "NotDurable"):
        assert issubclass(getattr(engine, name), engine.Fault)
    for name in ("AlreadyEnded", "AlreadyResolved", "InvalidInput", "UnknownDeferred", "UnknownExecution"):
        assert issubclass(getattr(engine, name), engine.ClientError)
    assert not issubclass(engine.Fault, engine.ClientError)
    assert not issubclass(engine.Failure, engine.Fault)
