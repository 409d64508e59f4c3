"""The determinism guard: reads the source of workflows, and reports code that a replay can't repeat.

    python -m engine.guard workflows        # every workflow in a module's WORKFLOWS

The guard reads a workflow's own function with everything inside it, and the app's functions and methods that this
code can reach (see `engine.core.discovery`). It reads names, not values. So it misses code that is hidden behind a
variable, and a finding may be harmless.
"""

from __future__ import annotations

import ast
import builtins
import collections
import inspect
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from types import FunctionType, ModuleType
from typing import Any

from engine.core.activity import Activity, plain
from engine.core.declarations import Workflow
from engine.core.discovery import MISSING, reach, value_of
from engine.core.inline_step import Steps
from engine.guard.rules import CHANGES, FILE_METHODS, FILES, REPEATED, TAKES_ORDER, TAKES_SECONDS, rule_for

_COLLECTIONS = (list, dict, set, bytearray, collections.deque)


@dataclass(frozen=True)
class Finding:
    """A place in a workflow's source that a replay can't repeat."""

    file: str
    line: int
    workflow: str
    what: str
    why: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: workflow {self.workflow}: {self.what} {self.why}; use {self.instead}"


def check(workflows: Iterable[Workflow[Any, Any]]) -> list[Finding]:
    """The findings in the source of these workflows, in the order of the source."""
    found: dict[Finding, None] = {}
    for workflow in workflows:
        readers = [_Reader(workflow.name, each) for each in reach([workflow], into_children=False).functions]
        inline = [function for reader in readers for function in reader.inline_steps()]
        for function in reach([workflow], into_children=False, passing_by=inline).functions:
            found |= dict.fromkeys(_Reader(workflow.name, function).findings())
    return sorted(found, key=lambda f: (f.file, f.line))


class _Reader(ast.NodeVisitor):
    """Reads one function."""

    def __init__(self, workflow: str, function: FunctionType) -> None:
        self._workflow = workflow
        self._function = function
        self._file = inspect.getsourcefile(function) or "?"
        self._first_line = function.__code__.co_firstlineno
        self._imported: dict[str, str] = {}
        """The imports inside the function: full names by the names that the function uses."""
        self._inline: set[str] = set()
        """The names of functions inside the function that it gives to `step`."""
        self._sets: set[str] = set()
        self._found: list[Finding] = []

    def findings(self) -> list[Finding]:
        tree = _parse(self._function)
        if tree is not None:
            given = [self._given_to_step(node) for node in ast.walk(tree)]
            self._inline = {node.id for node in given if isinstance(node, ast.Name)}
            self.visit(tree)
        return self._found

    # -- inline steps: what `step` runs is no part of the workflow --

    def inline_steps(self) -> list[FunctionType]:
        """The app's functions that this function gives to `step`."""
        tree = _parse(self._function)
        given = [self._given_to_step(node) for node in ast.walk(tree)] if tree is not None else []
        split = [_split(node) for node in given if isinstance(node, ast.Name | ast.Attribute)]
        values = [value_of(self._function, root, attributes) for root, attributes in split if root is not None]
        return [value for each in values if isinstance(value := plain(each), FunctionType)]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name not in self._inline:
            self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        if node.name not in self._inline:
            self.generic_visit(node)

    def _given_to_step(self, node: ast.AST) -> ast.expr | None:
        """The function that a call gives to `step`, if the node is such a call."""
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            return None
        called = node.func
        if isinstance(called, ast.Call) and isinstance(called.func, ast.Attribute):
            called = called.func.value if called.func.attr == "with_options" else called
        if not isinstance(called, ast.Name | ast.Attribute):
            return None
        root, attributes = _split(called)
        value = MISSING if root is None else value_of(self._function, root, attributes)
        is_step = isinstance(value, Steps) or self._imported.get(root or "") == "engine.step"
        return node.args[1] if is_step else None

    # -- names --

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._imported[name] = alias.name if alias.asname else name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def visit_Name(self, node: ast.Name) -> None:
        self._judge(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self._judge(node):
            self.generic_visit(node)

    def _judge(self, node: ast.Name | ast.Attribute) -> bool:
        name = self._qualified(node)
        rule = rule_for(name) if name is not None else None
        if name is not None and rule is not None and rule[0]:
            self._note(node, name.removeprefix("builtins."), *rule)
        return rule is not None

    def _qualified(self, node: ast.Name | ast.Attribute) -> str | None:
        """The full name of the object that `a.b.c` stands for, if the source and the function's module show it."""
        root, attributes = _split(node)
        if root is None:
            return None
        if root in self._imported:
            return ".".join([self._imported[root], *attributes])
        value = self._global(root)
        return None if value is MISSING else ".".join([_full_name(value, root), *attributes])

    def _global(self, name: str) -> Any:
        code = self._function.__code__
        if name in self._imported or name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            return MISSING
        return self._function.__globals__.get(name, getattr(builtins, name, MISSING))

    # -- calls --

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name | ast.Attribute):
            root, attributes = _split(node.value.func)
            value = MISSING if root is None else value_of(self._function, root, attributes)
            if isinstance(value, Activity | Workflow) or inspect.iscoroutinefunction(value):
                self._note(
                    node.value, f"{ast.unparse(node.value.func)}()", "is never awaited, so it does nothing", "await"
                )
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called, given = node.func, self._given_to_step(node)
        if given is not None:
            for part in (called, *(one for one in node.args if one is not given), *node.keywords):
                self.visit(part)
            return
        if isinstance(called, ast.Name):
            if called.id == "print" and self._global("print") is print:
                self._note(node, "print()", REPEATED, "workflow.logger")
            if called.id in TAKES_ORDER:
                for argument in node.args:
                    self._check_order(argument)
        elif isinstance(called, ast.Attribute):
            if called.attr in FILE_METHODS:
                self._note(node, f"….{called.attr}()", FILES, "an activity")
            if called.attr == "join":
                for argument in node.args:
                    self._check_order(argument)
            if called.attr in CHANGES and isinstance(called.value, ast.Name):
                self._check_shared(called.value, isinstance(self._global(called.value.id), _COLLECTIONS))
            if called.attr == "pop" and self._is_set(called.value):
                self._note(node, "….pop() of a set", "takes another one in every process", "sorted(), or a list")
        self._check_duration(node)
        self.generic_visit(node)

    def _check_duration(self, node: ast.Call) -> None:
        name = self._qualified(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else None
        module, _, function = (name or "").rpartition(".")
        if module.partition(".")[0] == "asyncio" and function in TAKES_SECONDS:
            for given in (*node.args, *(keyword.value for keyword in node.keywords)):
                if self._is_timedelta(given):
                    self._note(node, f"asyncio.{function}(timedelta)", "takes seconds", f"{_seconds(given)}")

    def _is_timedelta(self, node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp):
            return self._is_timedelta(node.left) or self._is_timedelta(node.right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            return self._qualified(node.func) == "datetime.timedelta"
        return isinstance(node, ast.Name) and isinstance(self._global(node.id), timedelta)

    # -- what is shared with other executions --

    def visit_Global(self, node: ast.Global) -> None:
        for name in node.names:
            self._note(node, f"global {name}", "is shared by all executions and replays", "a local variable")

    def _check_shared(self, name: ast.Name, is_changed: bool) -> None:
        if is_changed:
            self._note(name, f"changing {name.id}", "changes it for all executions and replays", "a local variable")

    def _check_target(self, target: ast.expr) -> None:
        if not isinstance(target, ast.Subscript | ast.Attribute):
            return
        while isinstance(target, ast.Subscript | ast.Attribute):
            target = target.value
        if isinstance(target, ast.Name):
            self._check_shared(target, self._global(target.id) is not MISSING)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._check_target(target)
        if self._is_set(node.value):
            self._sets |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._check_target(node.target)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._check_target(target)
        self.generic_visit(node)

    # -- order --

    def visit_For(self, node: ast.For) -> None:
        self._check_order(node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._check_order(node.iter)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self._check_order(node.value)
        self.generic_visit(node)

    def _check_order(self, iterated: ast.expr) -> None:
        if self._is_set(iterated):
            self._note(iterated, "iteration over a set", "has another order in every process", "sorted(), or a list")

    def _is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id in ("set", "frozenset")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
            return self._is_set(node.left) or self._is_set(node.right)
        return isinstance(node, ast.Set | ast.SetComp) or (isinstance(node, ast.Name) and node.id in self._sets)

    # -- exceptions --

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        catches_all = node.type is None or (isinstance(node.type, ast.Name) and node.type.id == "BaseException")
        if catches_all and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node)):
            what = "except" if node.type is None else "except BaseException"
            self._note(node, what, "swallows an interrupt, and the code goes on", "except Exception, or raise again")
        self.generic_visit(node)

    def _note(self, node: ast.AST, what: str, why: str, instead: str) -> None:
        line = self._first_line + getattr(node, "lineno", 1) - 1
        self._found.append(Finding(self._file, line, self._workflow, what, why, instead))


def _seconds(duration: ast.expr) -> str:
    text = ast.unparse(duration)
    return f"({text}).total_seconds()" if isinstance(duration, ast.BinOp) else f"{text}.total_seconds()"


def _parse(function: FunctionType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


def _split(node: ast.Name | ast.Attribute) -> tuple[str | None, list[str]]:
    """Split `a.b.c` into "a" and the attributes after it. None instead of "a" if the expression doesn't begin with a
    name."""
    attributes: list[str] = []
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        attributes.insert(0, root.attr)
        root = root.value
    return (root.id if isinstance(root, ast.Name) else None), attributes


def _full_name(value: Any, name: str) -> str:
    if isinstance(value, ModuleType):
        # A module gives its own name, not the one in the code: `os.path` gives posixpath.
        full = value.__name__
    elif isinstance(getattr(value, "__self__", None), ModuleType | type) or inspect.isroutine(value):
        owner = getattr(value, "__self__", None)
        module = owner.__name__ if isinstance(owner, ModuleType) else getattr(value, "__module__", None)
        full = f"{module or 'builtins'}.{getattr(value, '__qualname__', name)}"
    elif isinstance(value, type):
        full = f"{value.__module__}.{value.__qualname__}"
    else:
        full = f"{type(value).__module__}.{name}"
    return {"_socket": "socket", "posix": "os", "io.open": "builtins.open", "_io.open": "builtins.open"}.get(full, full)
