"""Which modules are an app's own: neither the standard library, nor the engine, nor an installed package."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from types import FunctionType, ModuleType

_INSTALLED = {"site-packages", "dist-packages"}


class OwnModules:
    """The own modules of an app whose workflows are defined in `modules`. The top-level packages of these modules are
    the app's own, wherever they lie."""

    def __init__(self, modules: Iterable[str]) -> None:
        self._packages = {_top(module) for module in modules}
        self._known: dict[str, bool] = {}

    def has(self, module: str | None, place: str | None) -> bool:
        """Whether a module of that name, in that file or folder, is the app's own."""
        top = _top(module)
        if top in self._packages:
            return True
        if top == "engine" or top in sys.stdlib_module_names or place is None:
            return False
        return not _INSTALLED & set(re.split(r"[\\/]", place))

    def has_function(self, function: FunctionType) -> bool:
        """Whether a function is defined in an own module."""
        return self.has(function.__globals__.get("__name__"), function.__code__.co_filename)

    def has_module(self, module: ModuleType) -> bool:
        """Whether a module is an own one."""
        name = module.__name__
        if name not in self._known:
            folders = list(getattr(module, "__path__", ()))
            self._known[name] = self.has(name, getattr(module, "__file__", None) or next(iter(folders), None))
        return self._known[name]

    def has_class(self, kind: type) -> bool:
        """Whether a class is defined in an own module."""
        module = sys.modules.get(kind.__module__)
        return self.has(kind.__module__, None) if module is None else self.has_module(module)

    def has_name(self, name: str) -> bool:
        """Whether a module that may not be imported yet is an own one."""
        top = _top(name)
        if top in sys.modules:
            return self.has_module(sys.modules[top])
        spec = importlib.util.find_spec(top)
        folders = list(spec.submodule_search_locations or ()) if spec else []
        return spec is not None and self.has(top, spec.origin or next(iter(folders), None))


def _top(module: str | None) -> str:
    return (module or "").partition(".")[0]
