"""Facts about a value that JSON can't express and equality doesn't show: the given fields of a model, and the name of a
time zone.

Stored text is one line of JSON. If a value has such facts, a second line holds a tree of notes. In a note, `set` lists
the fields that were given to a model, and `zone` names the time zone of a moment. `at` holds the notes of the value's
parts, by field name, by position in a list, or by position in a mapping.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel
from pydantic_core import from_json

Notes = dict[str, Any]


def first_line(text: str) -> str:
    """The JSON of stored text, without the notes."""
    return text.partition("\n")[0]


def plain_json(text: str | None) -> Any:
    """The plain data of stored text, for a reader that doesn't know the type. None if there is no text."""
    return None if text is None else json.loads(first_line(text))


def problem_of(text: str) -> str | None:
    """What is wrong with stored text that isn't JSON. None if nothing is wrong."""
    json_text, _, notes = text.partition("\n")
    try:
        from_json(json_text)
        if notes:
            from_json(notes)
    except ValueError as error:
        return f"its text is no JSON: {error}" if text else "its text is empty"
    return None


def notes_of(before: Any, back: Any) -> Notes:
    """The notes with which `back`, read from JSON text, becomes what `before` was. Empty if none are needed."""
    notes: Notes = {}
    if isinstance(before, datetime):
        if (zone := zone_of(before)) is not None:
            notes["zone"] = zone
        return notes
    if isinstance(before, BaseModel) and before.model_fields_set != getattr(back, "model_fields_set", None):
        notes["set"] = sorted(before.model_fields_set)
    parts = dict(_parts(back))
    inner = {key: found for key, part in _parts(before) if key in parts and (found := notes_of(part, parts[key]))}
    if inner:
        notes["at"] = inner
    return notes


def zone_of(moment: datetime) -> str | None:
    """The name of the moment's time zone, if it has one other than UTC."""
    key = moment.tzinfo.key if isinstance(moment.tzinfo, ZoneInfo) else None
    return None if key == "UTC" else key


def restored(value: Any, notes: Notes) -> Any:
    """`value` with the facts of the notes. Models, lists and mappings are changed in place. Raises KeyError, ValueError
    or TypeError for notes that don't fit the value."""
    if "zone" in notes:
        return value.astimezone(ZoneInfo(notes["zone"]))
    inner: Mapping[str, Notes] = notes.get("at", {})
    if inner:
        parts = dict(_parts(value))
        changed = {key: restored(parts[key], found) for key, found in inner.items() if key in parts}
        value = _with_parts(value, changed)
    if "set" in notes and isinstance(value, BaseModel):
        known = {*type(value).model_fields, *(value.__pydantic_extra__ or {})}
        object.__setattr__(value, "__pydantic_fields_set__", known & set(notes["set"]))
    return value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        yield from value.__dict__.items()
        yield from (value.__pydantic_extra__ or {}).items()
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if hasattr(value, field.name):
                yield field.name, getattr(value, field.name)
    elif isinstance(value, Mapping):
        for number, part in enumerate(value.values()):
            yield str(number), part
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield str(number), part


def _with_parts(value: Any, changed: Mapping[str, Any]) -> Any:
    if isinstance(value, BaseModel):
        extra = value.__pydantic_extra__ or {}
        for name, part in changed.items():
            (extra if name in extra else value.__dict__)[name] = part
    elif dataclasses.is_dataclass(value):
        for name, part in changed.items():
            object.__setattr__(value, name, part)
    elif isinstance(value, dict):
        keys = list(value)
        for number, part in changed.items():
            value[keys[int(number)]] = part
    elif isinstance(value, list):
        for number, part in changed.items():
            value[int(number)] = part
    elif isinstance(value, tuple):
        parts = [changed.get(str(number), part) for number, part in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
