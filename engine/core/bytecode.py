"""Which names a function's code uses, read from its bytecode: this needs no source, and sees the functions inside."""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

_ROOTS = {
    "LOAD_GLOBAL",
    "LOAD_NAME",
    "LOAD_DEREF",
    "LOAD_CLASSDEREF",
    "LOAD_FROM_DICT_OR_GLOBALS",
    "LOAD_FROM_DICT_OR_DEREF",
}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"}
_BETWEEN = {"EXTENDED_ARG", "PUSH_NULL"}
"""What may stand between a name and its attribute."""


@dataclass(frozen=True)
class Import:
    """`from <dots><module> import <names>`, or `import <module>` if there are no names."""

    dots: int
    module: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Names:
    """chains: `("a", "b", "c")` for each `a.b.c` whose `a` is no local variable. attributes: every attribute that is
    read, of whatever. imports: those that the code makes itself."""

    chains: tuple[tuple[str, ...], ...]
    attributes: frozenset[str]
    imports: tuple[Import, ...]


@functools.lru_cache(maxsize=10_000)
def names_of(code: CodeType) -> Names:
    """The names that this code uses, and those of functions, classes and comprehensions inside of it."""
    chains = [chain for each in _with_nested(code) for chain in _chains(each)]
    attributes = frozenset(name for each in _with_nested(code) for name in _attributes(each))
    return Names(tuple(dict.fromkeys(chains)), attributes, tuple(i for c in _with_nested(code) for i in _imports(c)))


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_nested(constant)


def _chains(code: CodeType) -> Iterator[tuple[str, ...]]:
    chain: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        if chain and instruction.opname in _ATTRIBUTES:
            chain = (*chain, instruction.argval)
        elif instruction.opname not in _BETWEEN:
            if chain:
                yield chain
            chain = (instruction.argval,) if instruction.opname in _ROOTS else ()


def _attributes(code: CodeType) -> Iterator[str]:
    return (each.argval for each in dis.get_instructions(code) if each.opname in _ATTRIBUTES)


def _imports(code: CodeType) -> Iterator[Import]:
    constants: list[Any] = [0, None]
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            dots, names = constants[-2:]
            yield Import(dots, instruction.argval, tuple(names or ()))
        elif "CONST" in instruction.opname:
            constants.append(instruction.argval)
