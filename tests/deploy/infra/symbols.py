"""Names in Bicep: what is used and not declared, what is declared and not used, and what modules and their callers
disagree about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tree_sitter import Node

from tests.deploy.infra.bicep import BicepFile, Declaration, Expression, read, text, walk

FUNCTIONS = frozenset(
    {
        "bool",
        "empty",
        "environment",
        "filter",
        "guid",
        "int",
        "max",
        "readEnvironmentVariable",
        "replace",
        "string",
        "subscription",
        "subscriptionResourceId",
        "tenant",
        "toLower",
        "union",
        "uniqueString",
    }
)
"""The functions of Bicep that are used here."""

_LITERALS = {"string": str, "int": int, "bool": bool, "object": dict, "array": list}
_OUTPUT = re.compile(r"\b(\w+)(!?)\.outputs\.(\w+)")


def undeclared(file: BicepFile) -> list[str]:
    """Names that are used but mean nothing."""
    known = {d.name for d in file.declarations if d.kind != "output"}
    return [
        f"{file.path.name}:{node.start_point[0] + 1}: {text(node)} is not declared"
        for node in _uses(file.root, frozenset())
        if text(node) not in (FUNCTIONS if _is_function(node) else known)
    ]


def unused(file: BicepFile) -> list[str]:
    """Params, variables and existing resources that nothing uses."""
    used = {text(node) for node in _uses(file.root, frozenset())}
    return [
        f"{file.path.name}:{d.line}: {d.kind} {d.name} is not used"
        for d in file.declarations
        if (d.kind in ("param", "var") or d.is_existing) and d.name not in used
    ]


def disagreements(file: BicepFile) -> Iterator[str]:
    """What the modules of a file don't take or don't give."""
    modules = {name: (d, read(file.path.parent / d.about)) for name, d in file.of("module").items()}
    for name, (declared, module) in modules.items():
        given: Mapping[str, Any] = declared.value.get("params", {})
        for problem in mismatches(given, module, file):
            yield f"{file.path.name}: module {name}: {problem}"
    for module_name, bang, output in _OUTPUT.findall(text(file.root)):
        if module_name not in modules:
            yield f"{file.path.name}: {module_name} is no module"
            continue
        declared, module = modules[module_name]
        if output not in module.of("output"):
            yield f"{file.path.name}: module {module_name} has no output {output}"
        if declared.is_conditional != bool(bang):
            yield f"{file.path.name}: {module_name}.outputs.{output}: ! is for modules that may be missing"


def mismatches(given: Mapping[str, Any], template: BicepFile, caller: BicepFile | None = None) -> Iterator[str]:
    """What is wrong with the values that a template's params are given."""
    params = template.of("param")
    for name in given.keys() - params.keys():
        yield f"there is no param {name}"
    for name, param in params.items():
        if name in given:
            yield from _misfits(param, given[name], caller)
        elif param.is_required:
            yield f"param {name} is missing"


def _misfits(param: Declaration, value: Any, caller: BicepFile | None) -> Iterator[str]:
    allowed = param.decorators.get("allowed")
    if isinstance(value, Expression):
        source = caller.of("param").get(value) if caller else None
        if source is not None and source.about != param.about:
            yield f"param {param.name} is of type {param.about}, but {value} of type {source.about}"
        if source is not None and "secure" in source.decorators and "secure" not in param.decorators:
            yield f"param {param.name} has to be secure, as {value} is"
    elif isinstance(value, str | int | bool | dict | list):
        if type(value) is not _LITERALS.get(param.about):
            yield f"param {param.name} is of type {param.about}, not {value!r}"
        elif allowed and value not in allowed:
            yield f"param {param.name} is one of {allowed}, not {value!r}"
        elif isinstance(value, int) and value < param.decorators.get("minValue", value):
            yield f"param {param.name} is at least {param.decorators['minValue']}, not {value}"
        elif isinstance(value, int) and value > param.decorators.get("maxValue", value):
            yield f"param {param.name} is at most {param.decorators['maxValue']}, not {value}"


def _uses(node: Node, loop: frozenset[str]) -> Iterator[Node]:
    """The identifiers that are used in a node, but for a loop's or lambda's own."""
    children = list(node.named_children)
    if node.type == "decorators" or not children:
        if node.type == "identifier" and text(node) not in loop:
            yield node
        return
    if node.type.endswith("_declaration"):
        children = children[1:]  # its own name
    elif node.type == "object_property" and children[0].type == "identifier":
        children = children[1:]
    elif node.type == "for_statement":
        loop |= {text(n) for n in walk(children[0]) if n.type == "identifier"}
    elif node.type == "lambda_expression":
        loop |= {text(children[0])}
    for child in children:
        if child.type not in ("type", "primitive_type"):
            yield from _uses(child, loop)


def _is_function(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type == "call_expression" and parent.child_by_field_name("function") == node
