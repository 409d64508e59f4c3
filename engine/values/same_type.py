"""Whether two annotations mean one type, and how a message shows an annotation."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin


def is_same_type(one: Any, other: Any) -> bool:
    """Whether two annotations mean one type. The order of a union doesn't matter, `List[int]` means `list[int]`, and
    the metadata of Annotated is compared by value. Two class objects are never one type, even with one name."""
    if one is other:
        return True
    kind = _kind(one)
    if kind is not _kind(other):
        return False
    mine, others = list(get_args(one)), list(get_args(other))
    if kind is Union:
        return len(mine) == len(others) and all(any(is_same_type(a, b) for b in others) for a in mine)
    if kind is Annotated:
        metadata = one.__metadata__, other.__metadata__
        return (
            is_same_type(mine[0], others[0]) and len(set(map(len, metadata))) == 1 and all(map(_says_same, *metadata))
        )
    if kind in (None, Literal) or not mine:
        return _is_equal(one, other)
    return len(mine) == len(others) and all(map(is_same_type, mine, others))


def shown_type(annotation: Any) -> str:
    """An annotation as people write it: a class with its module."""
    is_class = isinstance(annotation, type) and not get_args(annotation)
    if not is_class or annotation.__module__ == "builtins":
        return getattr(annotation, "__name__", "") if is_class else str(annotation)
    return f"{annotation.__module__}.{annotation.__qualname__}"


def _kind(annotation: Any) -> Any:
    kind = get_origin(annotation)
    return Union if kind is types.UnionType else kind


def _is_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - metadata may compare in any way
        return False


def _is_same_metadata(some: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return len(some) == len(others) and all(map(_says_same, some, others))


def _says_same(one: Any, other: Any) -> bool:
    """Whether two pieces of metadata are equal, or of one class and with equal attributes."""
    if _is_equal(one, other):
        return True
    try:
        return type(one) is type(other) and bool(one.__reduce_ex__(2)[2] == other.__reduce_ex__(2)[2])
    except Exception:  # noqa: BLE001 - functions, locks and the like have no attributes to compare
        return False
