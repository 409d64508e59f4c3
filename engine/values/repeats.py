"""Compares a repeated value with the first one.

Rules:
1. Both values are compared as data, as today's type reads them. If this type can't read the first value, both are
   compared as plain JSON.
2. A field that was given to neither of two models doesn't count, because its default may differ each time.
3. Messages show a value's `repr`, cut off. So data that a type hides in its `repr` stays hidden.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
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

_ABSENT: Any = object()


def changes(codec: Codec, first: str, given: str, path: str) -> tuple[str, ...]:
    """Where two stored texts differ, MAX_DIFFERENCES at most. Each difference names its place, which begins with
    `path`, and both values."""
    if first == given:
        return ()
    now = codec.decode(given)
    try:
        before = codec.decode(first)
    except DecodingError:
        before, now = plain_json(first), plain_json(given)
    found = list(_differences(before, now, path))
    more = len(found) - MAX_DIFFERENCES
    return (*found[:MAX_DIFFERENCES], *([f"and {more} more"] if more > 0 else []))


def _differences(before: Any, now: Any, path: str) -> Iterator[str]:
    parts_before, parts_now = _parts(before), _parts(now)
    if parts_before is None or parts_now is None or not _is_one_kind(before, now):
        if not _is_same(before, now):
            yield f"{path} was {_shown(before)}, is now {_shown(now)}"
        return
    if isinstance(before, BaseModel):
        given = before.model_fields_set | now.model_fields_set
        parts_before, parts_now = ({k: v for k, v in part.items() if k in given} for part in (parts_before, parts_now))
    for key in [*parts_before, *(key for key in parts_now if key not in parts_before)]:
        yield from _differences(parts_before.get(key, _ABSENT), parts_now.get(key, _ABSENT), f"{path}.{key}")


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


def _shown(value: Any) -> str:
    text = "not there" if value is _ABSENT else repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
