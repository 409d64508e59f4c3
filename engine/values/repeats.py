"""Compares a repeated value with the first one.

Rules:
1. Both values are compared as data, as today's type reads them. If this type can't read the first value, both are
   compared as plain JSON.
2. A field that was given to neither of two models doesn't count, because its default may differ each time.
3. Messages show a value's `repr`, cut off. So data that a type hides in its `repr` stays hidden.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel

from engine.ground.errors import DecodingError
from engine.values.codec import Codec
from engine.values.unseen import plain_json

MAX_DIFFERENCES = 3
"""The most differences in a message."""
MAX_SHOWN = 60
"""The most characters of a value in a message."""

NameOf = Callable[[Any, Any], str]
"""Gives the name of a part, from the value that holds the part and from the part's key."""

_ABSENT: Any = object()


@dataclasses.dataclass(frozen=True)
class Changes:
    """Where two values differ, MAX_DIFFERENCES at most. Each difference names its place and both values."""

    differences: tuple[str, ...] = ()
    """With the names that the fields have in Python."""
    outer: tuple[str, ...] = ()
    """With the names that the fields have outside: their aliases."""

    def __bool__(self) -> bool:
        return bool(self.differences)


def changes(codec: Codec, first: str, given: str, path: str) -> Changes:
    """Where two stored texts differ. Each place begins with `path`."""
    if first == given:
        return Changes()
    now = codec.decode(given)
    try:
        before = codec.decode(first)
    except DecodingError:
        before, now = plain_json(first), plain_json(given)
    return Changes(*(_first_of(_differences(before, now, path, name_of)) for name_of in (_own_name, _outer_name)))


def _first_of(differences: Iterator[str]) -> tuple[str, ...]:
    found = list(differences)
    more = len(found) - MAX_DIFFERENCES
    return (*found[:MAX_DIFFERENCES], *([f"and {more} more"] if more > 0 else []))


def _differences(before: Any, now: Any, path: str, name_of: NameOf) -> Iterator[str]:
    parts_before, parts_now = _parts(before), _parts(now)
    if parts_before is None or parts_now is None or not _is_one_kind(before, now):
        if not _is_same(before, now):
            yield f"{path} was {_shown(before, name_of)}, is now {_shown(now, name_of)}"
        return
    if isinstance(before, BaseModel):
        given = before.model_fields_set | now.model_fields_set
        parts_before, parts_now = ({k: v for k, v in part.items() if k in given} for part in (parts_before, parts_now))
    for key in [*parts_before, *(key for key in parts_now if key not in parts_before)]:
        place = f"{path}.{name_of(now, key)}"
        yield from _differences(parts_before.get(key, _ABSENT), parts_now.get(key, _ABSENT), place, name_of)


def _parts(value: Any) -> Mapping[Any, Any] | None:
    """The parts of a value that are compared one by one. None for a value without parts."""
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, _ABSENT) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return value
    return dict(enumerate(value)) if isinstance(value, list | tuple) else None


def _is_one_kind(before: Any, now: Any) -> bool:
    return type(before) is type(now) or (isinstance(before, Mapping) and isinstance(now, Mapping))


def _is_same(before: Any, now: Any) -> bool:
    if isinstance(before, bool) is not isinstance(now, bool):
        return False
    if before is not _ABSENT and type(before) is type(now) and _compares_by_identity(before):
        return True
    return bool(before == now) or (before != before and now != now)


def _compares_by_identity(value: Any) -> bool:
    own: Any = type(value).__eq__
    return own is object.__eq__ and not isinstance(value, Enum)


def _own_name(holder: Any, key: Any) -> str:
    return str(key)


def _outer_name(holder: Any, key: Any) -> str:
    """The alias of a model's or dataclass's field, or else its name."""
    fields = type(holder).model_fields if isinstance(holder, BaseModel) else getattr(holder, "__pydantic_fields__", {})
    alias = getattr(fields.get(key), "serialization_alias", None)
    return str(key if alias is None else alias)


def _shown(value: Any, name_of: NameOf) -> str:
    text = "not there" if value is _ABSENT else _repr(value, name_of)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _repr(value: Any, name_of: NameOf) -> str:
    if type(value) is list:
        return f"[{', '.join(_repr(part, name_of) for part in value)}]"
    if name_of is _own_name or not isinstance(value, BaseModel) or type(value).__repr__ is not BaseModel.__repr__:
        return repr(value)
    named = ((name, _repr(part, name_of)) for name, part in value.__repr_args__())
    parts = (text if name is None else f"{name_of(value, name)}={text}" for name, text in named)
    return f"{type(value).__name__}({', '.join(parts)})"
