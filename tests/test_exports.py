"""The public door: `engine.__all__` is sorted, complete, and every name in it explains itself."""

import ast
import contextlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import engine
import engine.testing
from engine.ground import errors as ground_errors

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


INTERNAL = {
    *("Client.read", "Runtime.change_feed", "Runtime.store", "Runtime.worker", "Runtime.inspect"),
    *("Workflow.arguments", "Environment.new_worker"),
}
"""Calls of public classes that are for the engine's own modules. So is a store, whoever watches it."""
PUBLIC = [(module, name) for module in SOURCES for name in module.__all__]


def _calls(thing: Any) -> Iterator[Any]:
    """A public name and its public methods, as functions."""
    kind = thing if isinstance(thing, type) else type(thing)
    if inspect.isfunction(thing):
        yield thing
    elif kind.__module__.startswith("engine."):
        for name, member in inspect.getmembers(kind):
            function = getattr(member, "fget", None) or inspect.unwrap(member) if name[0] != "_" else None
            if inspect.isfunction(function) and function.__module__.startswith("engine."):
                yield function


def _classes_in(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    for part in get_args(annotation):
        yield from _classes_in(part)


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=lambda value: getattr(value, "__name__", value))
def test_what_public_calls_return_and_raise_is_public(module: Any, name: str) -> None:
    """Whoever gets a value or an error of a public call can name its class."""
    public = {getattr(other, one) for other, one in PUBLIC}
    errors = {one.__name__: one for one in vars(ground_errors).values() if isinstance(one, type)}
    hidden = set[str]()
    for function in _calls(getattr(module, name)):
        raised = re.findall(r"\b[A-Z]\w+", (function.__doc__ or "").partition("Raises ")[2])
        secret = {one for one in raised if one in errors and errors[one] not in public}
        hidden |= {f"{function.__qualname__} raises {one}" for one in secret}
        with contextlib.suppress(NameError):  # a name for type checkers alone
            for kind in _classes_in(get_type_hints(function).get("return")):
                if kind.__module__.startswith("engine.") and kind not in public and not kind.__name__.startswith("_"):
                    hidden.add(f"{function.__qualname__} returns {kind.__name__}")
    assert {one for one in hidden if one.split()[0] not in INTERNAL and not one.startswith("WatchedStore.")} == set()
