"""Finds what the code of workflows can reach: one walk over an app's functions and the objects that they name.

Rules:
1. The walk begins at the workflows. It follows the names that a function and its nested functions load: globals,
   closures, attributes of modules, and imports. It also follows default arguments, wrapped functions, partials, bound
   methods, and the contents of containers.
2. The walk follows a member of an instance, a class or a module object only if some reached code reads an attribute
   with the member's name.
3. The walk ends at activities. The code of an activity is no part of a workflow.
4. The walk stays in the app's own modules. It doesn't enter the standard library, the engine or an installed package,
   unless a workflow is defined there.
5. The walk looks at each object once.
6. The walk also finds objects at the module level of the visited modules. It doesn't follow their code.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import sys
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CellType, FunctionType, MappingProxyType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from engine.core.activity import Activity, plain
from engine.core.bytecode import Import, names_of
from engine.core.declarations import Channel, Deferred, Workflow
from engine.core.own_modules import OwnModules
from engine.values.failures import Failure

MISSING: Any = object()
"""Stands for a name whose value isn't known while the code doesn't run."""

_ATOMS = frozenset({str, bytes, bytearray, int, float, complex, bool, type(None), type(Ellipsis), range})
_CONTAINERS = (list, tuple, set, frozenset, deque)
_HOLDERS = (SimpleNamespace, ChainMap, UserDict, UserList)


@dataclass(frozen=True)
class Found:
    """A declaration, or the class of a Failure. `within`: the function whose code names it, if any."""

    value: Any
    within: FunctionType | None


@dataclass(frozen=True)
class Reached:
    """What the walk found.

    functions: the app's own functions that workflows run, in the order in which the walk found them.
    named: declarations that their code names.
    beside: other declarations in the visited modules and objects.
    """

    functions: tuple[FunctionType, ...]
    named: tuple[Found, ...]
    beside: tuple[Found, ...]


def reach(
    workflows: Iterable[Workflow[Any, Any]], into_children: bool = True, passing_by: Iterable[FunctionType] = ()
) -> Reached:
    """Walk from these workflows. With `into_children`, also walk through the workflows that they call. The walk doesn't
    enter the functions `passing_by`."""
    walk = _Walk(list(workflows), into_children, passing_by)
    walk.run()
    return Reached(tuple(walk.functions), tuple(walk.named), tuple(walk.beside()))


def value_of(function: FunctionType, name: str, attributes: Iterable[str] = ()) -> Any:
    """The object that `name.attribute…` stands for in a function's code, if the path leads through modules. MISSING if
    that isn't known."""
    value = _closure(function).get(name, MISSING)
    if value is MISSING and name not in (*function.__code__.co_varnames, *function.__code__.co_cellvars):
        value = function.__globals__.get(name, MISSING)
    for attribute in attributes:
        if not _is(value, ModuleType):
            return MISSING
        value = vars(value).get(attribute, MISSING)
    return value


class _Walk:
    def __init__(
        self, workflows: list[Workflow[Any, Any]], into_children: bool, passing_by: Iterable[FunctionType]
    ) -> None:
        self.functions: list[FunctionType] = []
        self.named: list[Found] = []
        self._roots = {id(workflow) for workflow in workflows}
        self._into_children = into_children
        self._own = OwnModules(plain(workflow.function).__module__ for workflow in workflows)
        self._waiting: list[tuple[Any, FunctionType | None]] = [(workflow, None) for workflow in reversed(workflows)]
        self._seen: dict[int, Any] = {id(function): function for function in passing_by}
        """The objects by their ids. They are kept alive, so that no id is used twice."""
        self._attributes: set[str] = set()
        """Names of attributes that reached code reads."""
        self._members: dict[str, list[tuple[Any, FunctionType | None]]] = {}
        """Members of reached objects, by names that no code has read yet."""
        self._modules: dict[int, dict[str, Any]] = {}
        """The globals of the modules that were visited."""

    def run(self) -> None:
        while self._waiting:
            value, within = self._waiting.pop()
            if self._is_new(value):
                self._waiting += [(part, within) for part in reversed(self._look_at(value, within))]

    def beside(self) -> Iterator[Found]:
        """Declarations at module level, in containers and objects there, and in members that no code names."""
        waiting = [value for module in self._modules.values() for value in module.values()]
        waiting += [value for members in self._members.values() for value, _ in members]
        while waiting:
            value = waiting.pop()
            if not self._is_new(value) or _is(value, Workflow | ModuleType | FunctionType):
                continue
            if _is(value, Activity | Deferred | Channel) or self._is_failure(value):
                yield Found(value, None)
            elif not _is(value, type):
                waiting += _parts(value)
                if self._own.has_class(type(value)):
                    waiting += [member for _, member in _members(value)]

    def _is_new(self, value: Any) -> bool:
        if type(value) in _ATOMS or id(value) in self._seen:
            return False
        self._seen[id(value)] = value
        return True

    def _is_failure(self, value: Any) -> bool:
        return _is(value, type) and issubclass(value, Failure) and self._own.has_class(value)

    def _look_at(self, value: Any, within: FunctionType | None) -> list[Any]:
        """Note a found declaration. Returns the objects to look at next."""
        kind = type(value)
        if issubclass(kind, Activity | Deferred | Channel | Workflow):
            self.named.append(Found(value, within))
            return self._look_at_declaration(value)
        if issubclass(kind, FunctionType):
            self._read(value)
            return [*_closure(value).values(), *_defaults(value), *_parts(value)]
        if issubclass(kind, ModuleType):
            if self._own.has_module(value):
                self._visit(vars(value))
                self._offer(vars(value).items(), within)
            return []
        if issubclass(kind, type):
            return self._look_at_class(value, within) if self._own.has_class(value) else []
        if self._own.has_class(kind):
            self._offer(_members(value), within)
            return [kind, *_parts(value)]
        return _parts(value)

    def _look_at_declaration(self, value: Any) -> list[Any]:
        if _is(value, Workflow):
            return [value.function] if self._into_children or id(value) in self._roots else []
        if _is(value, Activity):
            self._visit(getattr(inspect.unwrap(plain(value.function)), "__globals__", {}))
            return list(value.raises)
        return []

    def _look_at_class(self, value: type, within: FunctionType | None) -> list[Any]:
        if self._is_failure(value):
            self.named.append(Found(value, within))
        self._offer(((name, member) for name, member in vars(value).items() if not name.startswith("__")), within)
        # Code calls `__init__`, `__call__` and other special methods without naming them.
        implicit = [member for name, member in vars(value).items() if name.startswith("__")]
        return [*value.__bases__, *(member for member in implicit if _is(member, FunctionType))]

    def _offer(self, members: Iterable[tuple[str, Any]], within: FunctionType | None) -> None:
        for name, member in list(members):
            if name in self._attributes:
                self._waiting.append((member, within))
            elif type(member) not in _ATOMS:
                self._members.setdefault(name, []).append((member, within))

    def _read(self, function: FunctionType) -> None:
        """Follow the names in a function's own code."""
        if not self._own.has_function(function):
            return
        self.functions.append(function)
        self._visit(function.__globals__)
        names = names_of(function.__code__)
        for attribute in sorted(names.attributes - self._attributes):
            self._attributes.add(attribute)
            self._waiting += self._members.pop(attribute, [])
        variables, enclosing = function.__globals__, _closure(function)
        loaded = [(self._follow(variables.get(root), path), function) for root, *path in names.from_globals]
        loaded += [(self._follow(enclosing.get(root), path), function) for root, *path in names.from_enclosing]
        loaded += [(value, function) for each in names.imports for value in self._import(each, function)]
        self._waiting += reversed(loaded)

    def _follow(self, value: Any, path: list[str]) -> Any:
        """The object that `value.attribute…` stands for, followed for as long as the path leads through modules."""
        for attribute in path:
            if _is(value, ModuleType) and self._own.has_module(value):
                self._visit(vars(value))
                value = vars(value).get(attribute)
            elif _is(value, Workflow | Activity) and attribute == "function":
                value = value.function
            else:
                break
        return value

    def _import(self, wanted: Import, function: FunctionType) -> list[Any]:
        """The objects that an import inside a function brings from the app's own modules. If the module isn't imported
        yet, it is imported here: the app has to import it at some time anyway."""
        package = function.__globals__.get("__package__") or ""
        try:
            name = importlib.util.resolve_name("." * wanted.dots + wanted.module, package)
            if not self._own.has_name(name):
                return []
            module = importlib.import_module(name)
        except Exception:  # noqa: BLE001 - an import that fails here raises when the code runs
            return []
        if not wanted.names:
            return [sys.modules[name.partition(".")[0]], module]
        self._visit(vars(module))
        here = [vars(module)[each] for each in wanted.names if each in vars(module)]
        below = [Import(0, f"{name}.{each}", ()) for each in wanted.names if each not in vars(module)]
        return [*here, *(value for each in below for value in self._import(each, function)[1:])]

    def _visit(self, module: dict[str, Any]) -> None:
        if self._own.has(module.get("__name__"), module.get("__file__")):
            self._modules[id(module)] = module


def _is(value: Any, kinds: Any) -> bool:
    """As isinstance, but without asking a proxy for the class of its target."""
    return issubclass(type(value), kinds)


def _closure(function: FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: content for name, cell in cells if (content := _content(cell)) is not MISSING}


def _defaults(function: FunctionType) -> list[Any]:
    return [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return MISSING


def _parts(value: Any) -> list[Any]:
    """The contents of a container, or the function inside a wrapper object."""
    kind = type(value)
    if issubclass(kind, dict | MappingProxyType):
        return [part for item in value.items() for part in item if type(part) not in _ATOMS]
    if issubclass(kind, _CONTAINERS):
        return [part for part in value if type(part) not in _ATOMS]
    if issubclass(kind, _HOLDERS):
        return list(vars(value).values())
    if issubclass(kind, functools.partial | functools.partialmethod):
        return [value.func, *value.args, *value.keywords.values()]
    if issubclass(kind, MethodType):
        return [value.__func__, value.__self__]
    if issubclass(kind, property):
        return [value.fget, value.fset]
    if issubclass(kind, functools.cached_property):
        return [value.func]
    if issubclass(kind, staticmethod | classmethod):
        return [value.__func__]
    # An object that a decorator made from a function often names that function.
    return [inspect.getattr_static(value, "__wrapped__", None)] if callable(value) else []


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that an instance itself holds, in its dictionary or in slots."""
    yield from list(getattr(value, "__dict__", {}).items())
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if _is(slots, str) else slots:
            with contextlib.suppress(AttributeError):
                yield name, object.__getattribute__(value, name)
