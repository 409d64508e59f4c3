"""The names that a function's code uses, read from its bytecode. This needs no source, and includes nested
functions."""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ENCLOSING = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"}
_BETWEEN = {"EXTENDED_ARG", "PUSH_NULL"}
"""Instructions that may stand between a name and its attribute."""


@dataclass(frozen=True)
class Import:
    """`from <dots><module> import <names>`, or `import <module>` if there are no names."""

    dots: int
    module: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Names:
    """The names that a function's code uses.

    from_globals: `("a", "b", "c")` for each `a.b.c` whose `a` is a global.
    from_enclosing: the same for each `a` that is a variable of an enclosing function.
    attributes: the name of every attribute that the code reads, of any object.
    imports: the imports that the code makes while it runs.
    """

    from_globals: tuple[tuple[str, ...], ...]
    from_enclosing: tuple[tuple[str, ...], ...]
    attributes: frozenset[str]
    imports: tuple[Import, ...]


@functools.lru_cache(maxsize=10_000)
def names_of(code: CodeType) -> Names:
    """The names that this code uses, including the functions, classes and comprehensions inside it."""
    codes = list(_with_nested(code))
    return Names(
        from_globals=tuple(dict.fromkeys(chain for each in codes for chain in _chains(each, _GLOBAL))),
        from_enclosing=tuple(dict.fromkeys(chain for each in codes for chain in _chains(each, _ENCLOSING))),
        attributes=frozenset(name for each in codes for name in _attributes(each)),
        imports=tuple(made for each in codes for made in _imports(each)),
    )


def texts_of(code: CodeType) -> set[str]:
    """The texts that stand in this code, including the functions inside it."""
    return {text for each in _with_nested(code) for text in each.co_consts if isinstance(text, str)}


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_nested(constant)


def _chains(code: CodeType, roots: set[str]) -> Iterator[tuple[str, ...]]:
    chain: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        if chain and instruction.opname in _ATTRIBUTES:
            chain = (*chain, instruction.argval)
        elif instruction.opname not in _BETWEEN:
            if chain:
                yield chain
            chain = (instruction.argval,) if instruction.opname in roots else ()


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
