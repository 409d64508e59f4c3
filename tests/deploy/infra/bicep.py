"""Reads Bicep without its compiler: tree-sitter gives the syntax, this gives the declarations and their values.

It knows no types and evaluates nothing but literals. What is not a literal stays an `Expression`, its source text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tree_sitter_bicep
from tree_sitter import Language, Node, Parser

INFRA = Path(__file__).parents[3] / "infra"

_parser = Parser(Language(tree_sitter_bicep.language()))
_DECLARATIONS = {
    "parameter_declaration": "param",
    "variable_declaration": "var",
    "resource_declaration": "resource",
    "module_declaration": "module",
    "output_declaration": "output",
}


class Expression(str):
    """Source text of what is not a literal."""

    __slots__ = ()


@dataclass(frozen=True)
class OneOf:
    """A ternary: one of two values."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Each:
    """A loop: its body, once for each element."""

    body: Any


@dataclass(frozen=True)
class Declaration:
    """A param, var, resource, module or output. `about` is its type: of a resource with the API version, of a module
    its path."""

    kind: str
    name: str
    line: int
    about: str = ""
    value: Any = None
    decorators: dict[str, Any] = field(default_factory=dict)
    is_conditional: bool = False
    is_existing: bool = False

    @property
    def is_required(self) -> bool:
        """Whether a param has to be given."""
        return self.kind == "param" and self.value is None and not self.about.endswith("?")


@dataclass(frozen=True)
class BicepFile:
    """A parsed file."""

    path: Path
    root: Node
    declarations: tuple[Declaration, ...]

    def of(self, kind: str) -> dict[str, Declaration]:
        """Its declarations of that kind, by name."""
        return {d.name: d for d in self.declarations if d.kind == kind}

    def of_type(self, type: str) -> list[Declaration]:
        """Its resources of that type, whatever the API version."""
        return [d for d in self.declarations if d.kind == "resource" and d.about.partition("@")[0] == type]

    @property
    def scope(self) -> str:
        """What it deploys to."""
        return next((text(n).partition("'")[2].rstrip("'") for n in self.root.children if "scope" in n.type), "")


def read(path: Path) -> BicepFile:
    """Parse a .bicep file. Raises SyntaxError that names the line."""
    return read_text(path.read_text("utf-8"), path)


@functools.lru_cache(maxsize=64)
def read_text(source: str, path: Path = INFRA / "text.bicep") -> BicepFile:
    """Parse Bicep text. Raises SyntaxError that names the line."""
    root = _parser.parse(source.encode()).root_node
    for node in walk(root):
        if node.is_error or node.is_missing:
            raise SyntaxError(f"{path.name}:{node.start_point[0] + 1}: {text(node)[:60]!r} is no Bicep")
    return BicepFile(path, root, tuple(_declarations(root)))


def read_parameters(path: Path) -> tuple[str, dict[str, Any]]:
    """The template that a .bicepparam file is for, and its values. Raises SyntaxError."""
    source = path.read_text("utf-8")
    using = re.search(r"^using '([^']+)'", source, re.MULTILINE)
    if using is None:
        raise SyntaxError(f"{path.name}: no template is named by `using`")
    # The grammar knows `param name type` alone; a value has the syntax of a variable's.
    rest = re.sub(r"^param (\w+) =", r"var \1 =", source.replace(using[0], ""), flags=re.MULTILINE)
    return using[1], {d.name: d.value for d in read_text(rest, path).declarations if d.kind == "var"}


def walk(node: Node) -> Iterator[Node]:
    """The node and everything in it, in the order of the text."""
    yield node
    for child in node.children:
        yield from walk(child)


def text(node: Node) -> str:
    """The source text of a node."""
    return (node.text or b"").decode()


def _declarations(root: Node) -> Iterator[Declaration]:
    decorators: dict[str, Any] = {}
    for node in root.named_children:
        if node.type == "decorators":
            decorators = dict(_decorator(child.named_children[0]) for child in node.named_children)
        elif node.type in _DECLARATIONS:
            yield _declaration(node, decorators)
            decorators = {}


def _decorator(call: Node) -> tuple[str, Any]:
    function, arguments = call.named_children[0], call.named_children[1:]
    values = [value(a) for a in (arguments[0].named_children if arguments else [])]
    return text(function), values[0] if values else True


def _declaration(node: Node, decorators: dict[str, Any]) -> Declaration:
    kind = _DECLARATIONS[node.type]
    name, *rest = node.named_children
    about = ""
    if kind in ("param", "output"):
        about = text(rest.pop(0))
    elif kind in ("resource", "module"):
        about = str(value(rest.pop(0)))
    found = rest[-1] if rest else None
    return Declaration(
        kind,
        text(name),
        node.start_point[0] + 1,
        about,
        value(found) if found is not None else None,
        decorators,
        is_conditional=found is not None and found.type == "if_statement",
        is_existing=any(text(child) == "existing" for child in node.children),
    )


def value(node: Node) -> Any:
    """The value of a node, as far as it is a literal."""
    match node.type:
        case "object":
            return dict(_property(child) for child in node.named_children if child.type == "object_property")
        case "array":
            return [value(child) for child in node.named_children if child.type != "comment"]
        case "string" if any(child.type == "interpolation" for child in node.named_children):
            return Expression(text(node))
        case "string":
            return _unquoted(text(node))
        case "number":
            return int(text(node))
        case "boolean":
            return text(node) == "true"
        case "null":
            return None
        case "ternary_expression" | "conditional_expression":
            return OneOf(tuple(value(child) for child in node.named_children[1:]))
        case "if_statement":
            return value(node.named_children[-1])
        case "for_statement":
            return Each(value(node.named_children[-1]))
        case _:
            return Expression(text(node))


def _property(node: Node) -> tuple[str, Any]:
    name, *rest = node.named_children
    key = value(name) if name.type == "string" else text(name)
    return str(key), value(rest[-1]) if rest else None


def _unquoted(source: str) -> str:
    if source.startswith("'''"):
        return source[3:-3].removeprefix("\n")
    return re.sub(r"\\(.)", r"\1", source[1:-1])
