"""Route templates, and the match of a request with a template.

The rules are those of ASP.NET Core, which routes on the platform:
1. A template has literal text, `{name}`, `{name:constraint}`, and at its end `{name?}` or `{*rest}`.
2. Upper and lower case match each other.
3. A literal segment beats a constrained parameter, which beats a free one, which beats a catch-all.
4. If no template matches the path with this method, the path is not found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar
from urllib.parse import unquote

from devhost.settings import LoadError

T = TypeVar("T")

_TOKEN = re.compile(r"\{(\*{0,2})([A-Za-z_]\w*)((?::[^{}?:]+)*)(\??)\}|([^{}]+)", re.ASCII)
_GUID = r"(?i)\{?[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}\}?"
_PATTERNS = {
    "guid": _GUID,
    "int": r"[+-]?\d{1,10}",
    "long": r"[+-]?\d{1,19}",
    "bool": r"(?i)true|false",
    "alpha": r"(?i)[a-z]*",
    "decimal": r"[+-]?\d+(\.\d+)?",
    "double": r"[+-]?\d+(\.\d+)?(?i:e[+-]?\d+)?",
    "float": r"[+-]?\d+(\.\d+)?(?i:e[+-]?\d+)?",
    "required": r".+",
}
_MEASURES: dict[str, Callable[[str, list[int]], bool]] = {
    "length": lambda text, bounds: bounds[0] <= len(text) <= bounds[-1],
    "minlength": lambda text, bounds: len(text) >= bounds[0],
    "maxlength": lambda text, bounds: len(text) <= bounds[0],
    "min": lambda text, bounds: _is_number(text) and int(text) >= bounds[0],
    "max": lambda text, bounds: _is_number(text) and int(text) <= bounds[0],
    "range": lambda text, bounds: _is_number(text) and bounds[0] <= int(text) <= bounds[-1],
}


class Template:
    """A route template. Raises LoadError if the text can't be read, or has a constraint that this host doesn't know."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._names: list[str] = []
        self._checks: list[list[Callable[[str], bool]]] = []
        pattern, rank = "", []
        segments = text.split("/") if text else []
        for index, segment in enumerate(segments):
            part, part_rank = self._segment(segment, is_first=index == 0, is_last=index == len(segments) - 1)
            pattern += part
            rank.append(part_rank)
        self.rank = tuple(rank)
        """The order of templates. The lowest rank wins."""
        self._pattern = re.compile(pattern, re.IGNORECASE | re.DOTALL)

    def match(self, path: str) -> dict[str, str] | None:
        """The parameters in a path without slashes at its ends, or None if the path doesn't match."""
        match = self._pattern.fullmatch(path)
        if match is None:
            return None
        values = {name: text for name, text in zip(self._names, match.groups(), strict=True) if text}
        for name, checks in zip(self._names, self._checks, strict=True):
            if name in values and not all(check(values[name]) for check in checks):
                return None
        return values

    def _segment(self, segment: str, *, is_first: bool, is_last: bool) -> tuple[str, int]:
        """The pattern of one segment, including the slash before it, and its rank."""
        slash, rank, pattern, position = "" if is_first else "/", 1, "", 0
        while position < len(segment):
            token = _TOKEN.match(segment, position)
            if token is None:
                raise LoadError(f"route {self.text!r} can't be read at {segment[position:]!r}")
            position = token.end()
            stars, name, constraints, optional, literal = token.groups()
            if literal:
                pattern += re.escape(literal)
                continue
            if name.lower() in (known.lower() for known in self._names):
                raise LoadError(f"route {self.text!r} has two parameters {name}")
            self._names.append(name)
            self._checks.append([_constraint(self.text, text) for text in constraints.split(":")[1:]])
            rank = max(rank, 3 if constraints else 4)
            if not (stars or optional):
                pattern += "([^/]+)"
                continue
            if not is_last or token.group() != segment:
                raise LoadError(f"route {self.text!r}: only the last segment can be {token.group()}")
            pattern = f"(?:{slash}({'.*' if stars else '[^/]+'}))?"
            return pattern, 5 if stars else 4
        if not segment:
            raise LoadError(f"route {self.text!r} has an empty segment")
        return slash + pattern, rank


class RouteTable(Generic[T]):
    """Finds the target of a request."""

    def __init__(self) -> None:
        self._routes: list[tuple[Template, frozenset[str] | None, T]] = []

    def add(self, template: Template, methods: frozenset[str] | None, target: T) -> None:
        """Adds a route. `methods` are in upper case; None means all."""
        self._routes.append((template, methods, target))
        self._routes.sort(key=lambda route: route[0].rank)

    def find(self, method: str, path: str) -> tuple[T, Mapping[str, str]] | None:
        """The target of the best route for a method and a decoded path, and the path's parameters."""
        trimmed = path.removeprefix("/").removesuffix("/")
        for template, methods, target in self._routes:
            if methods is None or method in methods:
                values = template.match(trimmed)
                if values is not None:
                    return target, values
        return None


def decode_path(raw: str) -> str:
    """The path of a request with its escapes decoded, by the rules of the platform's server.

    An escaped slash stays escaped, because it separates nothing. Bytes that aren't UTF-8 stay escaped too.
    """

    def decoded(part: str) -> str:
        try:
            return unquote(part, errors="strict")
        except UnicodeDecodeError:
            return part

    return "".join(part if part.lower() == "%2f" else decoded(part) for part in re.split("(%2[fF])", raw))


def _constraint(route: str, text: str) -> Callable[[str], bool]:
    name, _, argument = text.partition("(")
    if name in _PATTERNS and not argument:
        pattern = re.compile(_PATTERNS[name], re.ASCII)
        return lambda value: pattern.fullmatch(value) is not None
    bounds = argument.removesuffix(")").split(",")
    if name in _MEASURES and argument.endswith(")") and all(_is_number(bound.strip()) for bound in bounds):
        measure, limits = _MEASURES[name], [int(bound) for bound in bounds]
        return lambda value: measure(value, limits)
    raise LoadError(f"route {route!r}: this host doesn't know the constraint {text!r}")


def _is_number(text: str) -> bool:
    return re.fullmatch(_PATTERNS["long"], text, re.ASCII) is not None
