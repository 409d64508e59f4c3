"""Writes one type to JSON and reads it back, by pydantic's core schema of the type, adjusted for storage.

Rules:
1. Bytes are written as base64 and infinite floats as text, at every depth, including models and dataclasses. A model
   that sets `ser_json_bytes` or `ser_json_inf_nan` itself keeps its own way.
2. Fields are written and first read under their names. Text that isn't in today's form is read under aliases too. So a
   renamed field with `AliasChoices("new", "old")` finds its old value. Callers from outside use aliases, in both
   directions.
3. A stored value was valid when it was accepted, and must stay readable. A validator may refuse it later, because it
   looks at the clock, the disk or today's limits. Then tolerant validators read the value. Their result is written
   again, and counts only if each field that it shares with the stored text is the same.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import SchemaSerializer, SchemaValidator

_CONFIG: dict[str, Any] = {"ser_json_bytes": "base64", "val_json_bytes": "base64", "ser_json_inf_nan": "strings"}
_OPTIONS = {name: False for name in inspect.signature(SchemaValidator).parameters if name == "_use_prebuilt"}
"""Later versions of pydantic reuse the validators of a model's class. The validators here differ."""
_WITH_CONFIG = {"model", "dataclass", "typed-dict"}
_OPAQUE = {
    "metadata",
    "function",
    "cls",
    "default",
    "default_factory",
    "config",
    "expected",
    "members",
    "serialization",
}
_LIMITS = {
    "gt",
    "ge",
    "lt",
    "le",
    "multiple_of",
    "max_digits",
    "decimal_places",
    "min_length",
    "max_length",
    "pattern",
    "now_op",
    "tz_constraint",
    "allowed_schemes",
}


class Schema:
    """Writes and reads values of `annotation`. Raises pydantic's error for a type that pydantic doesn't know."""

    def __init__(self, annotation: Any) -> None:
        # The type is wrapped in a list, because pydantic refuses a configuration for a model's own type.
        adapter: TypeAdapter[list[Any]] = TypeAdapter(list[annotation], config=ConfigDict(**_CONFIG))  # type: ignore[typeddict-item]
        adapter.rebuild(force=False)
        self._core = _walk(adapter.core_schema, _with_config)
        described = repr(self._core)
        self.has_sets = re.search(r"'type': '(frozenset|set)'", described) is not None
        self.has_unseen = re.search(r"'type': '(model|datetime|any|definition-ref)'", described) is not None
        self._has_aliases = "'validation_alias'" in described
        self.is_read_once = "'type': 'generator'" in described
        self.has_outer_names = "'serialization_alias'" in described
        self._serializer = SchemaSerializer(self._core, _CONFIG, **_OPTIONS)  # type: ignore[arg-type]
        self._validator = SchemaValidator(self._core, _CONFIG, **_OPTIONS)  # type: ignore[arg-type]

    def check(self, value: Any) -> None:
        """Raise ValidationError unless `value` already has the type."""
        self._validator.validate_python([value], strict=True)

    def write(self, value: Any) -> bytes:
        """The JSON text of `[value]`. Raises errors of pydantic and of the type's own serializers."""
        return self._serializer.to_json([value], warnings="error", by_alias=False, round_trip=True)

    def plain(self, value: Any) -> Any:
        """`[value]` as plain data, as in its JSON text."""
        return self._serializer.to_python([value], mode="json", by_alias=False, round_trip=True)

    def outer(self, value: Any) -> Any:
        """`value` as plain JSON data with its fields under their aliases."""
        return json.loads(self._serializer.to_json([value], by_alias=True, round_trip=True))[0]

    def canonical(self, value: Any) -> Any:
        """`[value]` as plain JSON data, without fields that equal their defaults."""
        return json.loads(self._serializer.to_json([value], by_alias=False, exclude_defaults=True))

    def read_from_outside(self, text: str) -> Any:
        """The value of JSON text from outside, whose fields have the names and aliases that the type declares. Raises
        ValidationError."""
        return self._validator.validate_json(f"[{text}]")[0]

    def read_own(self, text: str) -> Any:
        """The value of text that `write` has just made. Raises ValidationError."""
        return self._validator.validate_json(f"[{text}]", by_alias=False, by_name=True)[0]

    def read(self, text: str) -> Any:
        """The value of stored text. Raises ValidationError, and errors of the type's own validators."""
        try:
            value = self._read(self._validator, text)
        except Exception:
            for validator in self._tolerant:
                if (found := self._read_faithfully(validator, text)) is not None:
                    return found[0]
            raise
        return value

    def _read(self, validator: SchemaValidator, text: str) -> Any:
        wrapped = f"[{text}]"
        if not self._has_aliases:
            return validator.validate_json(wrapped, by_alias=False, by_name=True)[0]
        try:
            value = validator.validate_json(wrapped, by_alias=False, by_name=True)[0]
            if json.loads(self.write(value)) == json.loads(wrapped):
                return value
        except Exception:  # noqa: BLE001 - the text isn't in today's form: aliases may fit it
            pass
        return validator.validate_json(wrapped, by_alias=True, by_name=True)[0]

    def _read_faithfully(self, validator: SchemaValidator, text: str) -> tuple[Any] | None:
        try:
            value = self._read(validator, text)
            return (value,) if _agree(json.loads(self.write(value)), [json.loads(text)]) else None
        except Exception:  # noqa: BLE001 - a type's own validators may raise anything
            return None

    @functools.cached_property
    def _tolerant(self) -> list[SchemaValidator]:
        tolerant = _walk(self._core, _tolerate)
        without_post_init = _walk(tolerant, _skip_post_init)
        return [SchemaValidator(core, _CONFIG, **_OPTIONS) for core in (tolerant, without_post_init)]  # type: ignore[arg-type]


def _agree(written: Any, stored: Any) -> bool:
    """Whether two JSON values are equal, apart from fields that only one of them has."""
    if isinstance(written, dict) and isinstance(stored, dict):
        return all(_agree(written[key], stored[key]) for key in written.keys() & stored.keys())
    if isinstance(written, list) and isinstance(stored, list):
        return len(written) == len(stored) and all(map(_agree, written, stored))
    return bool(written == stored)


def _walk(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy of a core schema, with `change` applied to each part, the innermost first."""
    if isinstance(schema, dict):
        copied = {key: part if key in _OPAQUE else _walk(part, change) for key, part in schema.items()}
        return change(copied) if isinstance(copied.get("type"), str) else copied
    if isinstance(schema, list):
        return [_walk(part, change) for part in schema]
    if isinstance(schema, tuple):
        return tuple(_walk(part, change) for part in schema)
    return schema


def _with_config(schema: dict[str, Any]) -> dict[str, Any]:
    if schema["type"] in _WITH_CONFIG:
        own = schema.get("config") or {}
        wanted = dict(_CONFIG)
        if "ser_json_bytes" in own or "val_json_bytes" in own:
            del wanted["ser_json_bytes"], wanted["val_json_bytes"]
        return {**schema, "config": {**wanted, **own}}
    return schema


def _tolerate(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema["type"]
    if kind in ("function-after", "function-before", "function-wrap"):
        function = schema["function"]
        return {**schema, "function": {**function, "function": _forgiving(kind, function["function"])}}
    return {key: part for key, part in schema.items() if key not in _LIMITS}


def _skip_post_init(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in schema.items() if key != "post_init"}


def _forgiving(kind: str, validate: Callable[..., Any]) -> Callable[..., Any]:
    """A validator that lets a value pass if `validate` refuses it."""

    def forgiving(value: Any, *more: Any) -> Any:
        try:
            return validate(value, *more)
        except (ValueError, AssertionError, ValidationError):
            return more[0](value) if kind == "function-wrap" else value

    return forgiving
