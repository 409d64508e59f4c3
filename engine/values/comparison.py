"""Checks whether a value came back from storage as it was.

Rules:
1. A model or dataclass must come back as its own class, with equal fields, the same given fields (`model_fields_set`),
   and equal private attributes if these are plain data. Other private attributes (a lock, a client) don't count.
2. Any other value must come back equal, as its own class or as a declared base of that class. For example, a str enum
   member may come back as str, and an int as float where float is declared. What equality doesn't see must come back
   too: the length limit of a deque, and what a mapping answers for a missing key (a defaultdict, a Counter).
3. A moment must come back with the same wall clock time, UTC offset and named time zone. Without an offset, `fold` must
   be the same. A time zone without a name (not a `zoneinfo.ZoneInfo`) whose offset changes is refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict, deque
from collections.abc import Mapping, Set
from datetime import datetime, time
from typing import Any

from pydantic import BaseModel

from engine.values.unseen import zone_of

_SCALARS = (str, int, bool, type(None))
_DATA = (*_SCALARS, float, bytes, list, tuple, dict, set, datetime)
_ABSENT = object()


def difference(before: Any, after: Any, path: str = "") -> str | None:
    """Describes the first place where `after` differs from `before`. None if they are the same."""
    kind = type(before)
    if kind is type(after) and kind in _SCALARS:
        return None if before == after else _message(path, before, after)
    if isinstance(before, BaseModel) or dataclasses.is_dataclass(before):
        if kind is not type(after):
            return _message(path, before, after)
        return _of_items(_fields(before), _fields(after), path) or _unseen(before, after, path)
    if not isinstance(before, type(after)) and not (isinstance(before, int) and type(after) is float):
        return _message(path, before, after)
    if isinstance(before, deque) and before.maxlen != after.maxlen:
        return f"the length limit of a deque would be lost{_at(path)}"
    if isinstance(before, Mapping):
        if _answer_for_missing(before) != _answer_for_missing(after):
            return f"what a {type(before).__name__} answers for a missing key would be lost{_at(path)}"
        return _of_items(before, after, path)
    if isinstance(before, list | tuple):
        return _of_items(dict(enumerate(before)), dict(enumerate(after)), path)
    return None if _is_same(before, after) else _message(path, before, after)


def _answer_for_missing(mapping: Mapping[Any, Any]) -> object:
    if isinstance(mapping, defaultdict):
        return mapping.default_factory
    return getattr(type(mapping), "__missing__", None)


def _of_items(before: Mapping[Any, Any], after: Mapping[Any, Any], path: str) -> str | None:
    for key, value in before.items():
        back = after.get(key, _ABSENT)
        if type(value) is type(back) and type(value) in _SCALARS and value == back:
            continue
        if back is _ABSENT and value is not _ABSENT:
            return f"{path}.{key}".lstrip(".") + " would be lost"
        if (what := difference(value, back, f"{path}.{key}")) is not None:
            return what
    more = [key for key in after if key not in before]
    return f"{path}.{more[0]}".lstrip(".") + " would be added" if more else None


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, BaseModel):
        names = type(value).model_fields
        return {name: value.__dict__.get(name, _ABSENT) for name in names} | (value.__pydantic_extra__ or {})
    return {field.name: getattr(value, field.name, _ABSENT) for field in dataclasses.fields(value)}


def _unseen(before: Any, after: Any, path: str) -> str | None:
    if not isinstance(before, BaseModel):
        return None
    at = _at(path)
    if before.model_fields_set != after.model_fields_set:
        return f"which fields were given would be lost{at}"
    kept = after.__pydantic_private__ or {}
    for name, value in (before.__pydantic_private__ or {}).items():
        if isinstance(value, _DATA) and value != kept.get(name, _ABSENT):
            return f"the private attribute {name} would be lost{at}"
    return None


def _has_fixed_offset(moment: datetime) -> bool:
    naive = moment.replace(tzinfo=None)
    winter, summer = (naive.replace(month=month, day=1) for month in (1, 7))
    return moment.tzinfo is None or moment.tzinfo.utcoffset(winter) == moment.tzinfo.utcoffset(summer)


def _is_same(before: Any, after: Any) -> bool:
    if isinstance(before, float) and math.isnan(before):
        return math.isnan(after)
    if isinstance(before, datetime | time):
        wall = before.replace(tzinfo=None) == after.replace(tzinfo=None)
        aware = before.tzinfo is not None
        same_zone = before.utcoffset() == after.utcoffset() and aware == (after.tzinfo is not None)
        if isinstance(before, datetime) and zone_of(before) != zone_of(after):
            return False
        named = not isinstance(before, datetime) or zone_of(before) is not None or _has_fixed_offset(before)
        return wall and same_zone and named and (aware or before.fold == after.fold)
    if isinstance(before, Set):
        return len(before) == len(after) and all(member in after for member in before)
    return type(before).__eq__ is object.__eq__ or bool(before == after)  # type: ignore[comparison-overlap]


def _at(path: str) -> str:
    return f" at {path.lstrip('.')}" if path else ""


def _message(path: str, before: Any, after: Any) -> str:
    where = _at(path)
    if type(before) is type(after):
        return f"another {type(before).__name__} would come back{where}"
    return f"{type(before).__name__} would come back as {type(after).__name__}{where}"
