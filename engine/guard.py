"""The determinism guard: reads workflows' source, and names what a replay can't repeat.

    python -m engine.guard workflows        # every workflow in a module's WORKFLOWS

It sees a workflow's own function, what is defined inside of it, and the plain functions of the same app that these
call. It reads names, not values: it misses what is hidden behind a variable, and what it finds is worth a look.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from engine.definition import Workflow

_RULES: list[tuple[str, str, str]] = [
    ("time.sleep", "blocks the host", "asyncio.sleep()"),
    ("time.", "reads the machine's clock", "workflow.now()"),
    ("datetime.datetime.now", "reads the machine's clock", "workflow.now()"),
    ("datetime.datetime.utcnow", "reads the machine's clock", "workflow.now()"),
    ("datetime.datetime.today", "reads the machine's clock", "workflow.now()"),
    ("datetime.date.today", "reads the machine's clock", "workflow.now().date()"),
    ("random.Random", "", ""),
    ("random.", "differs in every replay", "workflow.random()"),
    ("secrets.", "differs in every replay", "an activity that makes the secret"),
    ("uuid.uuid1", "differs in every replay", "workflow.uuid4()"),
    ("uuid.uuid4", "differs in every replay", "workflow.uuid4()"),
    ("os.urandom", "differs in every replay", "workflow.random()"),
    ("os.environ", "reads the environment, which a deployment changes", "the payload, or an activity"),
    ("os.getenv", "reads the environment, which a deployment changes", "the payload, or an activity"),
    ("os.path.", "", ""),
    ("os.", "touches the machine", "an activity"),
    ("builtins.open", "touches files", "an activity"),
    ("builtins.input", "waits for a person at the machine", "a Deferred"),
    ("pathlib.Path.", "touches files", "an activity"),
    ("shutil.", "touches files", "an activity"),
    ("tempfile.", "touches files", "an activity"),
    ("sqlite3.", "touches a database", "an activity"),
    ("socket.", "uses the network", "an activity"),
    ("urllib.request.", "uses the network", "an activity"),
    ("http.client.", "uses the network", "an activity"),
    ("requests.", "uses the network", "an activity"),
    ("httpx.", "uses the network", "an activity"),
    ("aiohttp.", "uses the network", "an activity"),
    ("azure.", "uses the network", "an activity"),
    ("smtplib.", "uses the network", "an activity"),
    ("subprocess.", "starts a process", "an activity"),
    ("multiprocessing.", "starts a process", "an activity"),
    ("concurrent.futures.", "uses threads", "a sync activity, which runs in a thread"),
    ("threading.", "uses threads", "a sync activity, which runs in a thread"),
    ("asyncio.to_thread", "uses threads", "a sync activity, which runs in a thread"),
    ("asyncio.open_connection", "uses the network", "an activity"),
    ("asyncio.create_subprocess", "starts a process", "an activity"),
    ("asyncio.run", "starts another loop", "await"),
]
"""Beginnings of qualified names; the first that fits counts. An empty reason means that it is fine."""

_FILE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "iterdir"}


@dataclass(frozen=True)
class Finding:
    """Something in a workflow's source that a replay can't repeat."""

    file: str
    line: int
    workflow: str
    what: str
    why: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: workflow {self.workflow}: {self.what} {self.why}; use {self.instead}"


def check(workflows: Iterable[Workflow[Any, Any]]) -> list[Finding]:
    """What is suspicious in the source of these workflows, in the order of the source."""
    found: dict[Finding, None] = {}
    for workflow in workflows:
        for function in _reachable(workflow.function):
            found |= dict.fromkeys(_Reader(workflow.name, function).findings())
    return sorted(found, key=lambda f: (f.file, f.line))


class _Reader(ast.NodeVisitor):
    """Reads one function."""

    def __init__(self, workflow: str, function: FunctionType) -> None:
        self._workflow = workflow
        self._function = function
        self._file = inspect.getsourcefile(function) or "?"
        self._first_line = function.__code__.co_firstlineno
        self._sets: set[str] = set()
        self._found: list[Finding] = []

    def findings(self) -> list[Finding]:
        tree = _parse(self._function)
        if tree is not None:
            self.visit(tree)
        return self._found

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in _FILE_METHODS:
            self._note(node, f"….{node.func.attr}()", "touches files", "an activity")
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._judge(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self._judge(node):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._is_set(node.value):
            self._sets |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._check_iteration(node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._check_iteration(node.iter)
        self.generic_visit(node)

    def _check_iteration(self, iterated: ast.expr) -> None:
        if self._is_set(iterated):
            self._note(iterated, "iteration over a set", "has another order in every process", "sorted(), or a list")

    def _is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id in ("set", "frozenset")
        return isinstance(node, ast.Set | ast.SetComp) or (isinstance(node, ast.Name) and node.id in self._sets)

    def _judge(self, node: ast.Name | ast.Attribute) -> bool:
        name = _qualified(node, self._function)
        for beginning, why, instead in _RULES:
            if name is not None and (name.startswith(beginning) if beginning.endswith(".") else name == beginning):
                if why:
                    self._note(node, name.removeprefix("builtins."), why, instead)
                return True
        return False

    def _note(self, node: ast.expr, what: str, why: str, instead: str) -> None:
        line = self._first_line + node.lineno - 1
        self._found.append(Finding(self._file, line, self._workflow, what, why, instead))


def _reachable(start: Callable[..., Any]) -> Iterator[FunctionType]:
    """The function, and the plain functions of the same top-level package that it calls, directly or not."""
    waiting, seen = [start], set[object]()
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or function in seen or _package(function) != _package(start):
            continue
        seen.add(function)
        yield function
        tree = _parse(function)
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree else set()
        waiting += [function.__globals__[name] for name in sorted(names) if name in function.__globals__]


def _package(function: Callable[..., Any]) -> str:
    return (getattr(function, "__module__", None) or "").partition(".")[0]


def _parse(function: FunctionType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


def _qualified(node: ast.Name | ast.Attribute, function: FunctionType) -> str | None:
    """The full name of what `a.b.c` stands for, as far as the function's module tells."""
    attributes: list[str] = []
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        attributes.insert(0, root.attr)
        root = root.value
    if not isinstance(root, ast.Name):
        return None
    missing = object()
    value: Any = function.__globals__.get(root.id, getattr(builtins, root.id, missing))
    if value is missing or root.id in function.__code__.co_varnames:
        return None
    if isinstance(value, ModuleType):
        # A submodule is found under its own name: os.path is posixpath, but `os.path` is what the code says.
        name = value.__name__
    elif isinstance(getattr(value, "__self__", None), ModuleType | type) or inspect.isroutine(value):
        owner = getattr(value, "__self__", None)
        module = owner.__name__ if isinstance(owner, ModuleType) else getattr(value, "__module__", None)
        name = f"{module or 'builtins'}.{getattr(value, '__qualname__', root.id)}"
    elif isinstance(value, type):
        name = f"{value.__module__}.{value.__qualname__}"
    else:
        name = f"{type(value).__module__}.{root.id}"
    name = {"_socket": "socket", "posix": "os", "io.open": "builtins.open", "_io.open": "builtins.open"}.get(name, name)
    return ".".join([name, *attributes])


def main(arguments: Sequence[str]) -> int:
    """Check the WORKFLOWS of the modules named. Returns the exit code: 1 if anything was found."""
    if not arguments:
        sys.stderr.write("usage: python -m engine.guard MODULE [MODULE …], each with a WORKFLOWS list\n")
        return 2
    sys.path.insert(0, "")
    found = [finding for name in arguments for finding in check(importlib.import_module(name).WORKFLOWS)]
    for finding in found:
        sys.stdout.write(f"{finding}\n")
    sys.stdout.write(f"{len(found)} finding{'' if len(found) == 1 else 's'}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
