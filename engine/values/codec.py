"""Values to JSON text and back, by their declared types.

Rules:
1. Values are stored as JSON text. A document holds the text as one string, so that no store can change its numbers,
   key order or depth (Cosmos DB keeps numbers as IEEE doubles, and nests at most 128 deep).
2. A value is decoded as soon as it is encoded. Its reader sees the decoded value, live and in replay.
3. A value comes back as it was, or it is refused with an EncodingError that names the place, the type and the reason.
   "As it was" means what `comparison` compares: equality, class, the given fields, private attributes, time zone.
4. A place without an annotation takes only plain JSON values.
5. Stored text is one line of JSON. A second line may note what JSON can't express (see `unseen`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import math
import re
import typing
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import JsonValue, PydanticUserError, ValidationError
from pydantic_core import SchemaError

from engine.ground.errors import DecodingError, EncodingError, InvalidInput, TooLarge
from engine.values.comparison import difference
from engine.values.inputs import NOTHING, differences, unequal
from engine.values.schema import Schema
from engine.values.unseen import notes_of, plain_json, restored

_UNEXPECTED = re.compile(
    r"Expected `([^`]+)`.*?\[(?:field_name='([^']*)', )?input_value=.*?, input_type=(\w+)\]", re.DOTALL
)
"""What pydantic's serializer says of a value that isn't of its type."""

WHOLE = (str, bool, int, type(None))
"""Types of which JSON says everything: their values come back as they were."""
MAX_WHOLE = 2**63
"""An int from here on may have more digits than can be read."""
MAX_VALUE_BYTES = 1_800_000
"""The most bytes that one value's JSON text may take in a document. A Cosmos DB item may have 2 MB
(https://learn.microsoft.com/azure/cosmos-db/concepts-limits). The rest is for the other fields."""


class Codec:
    """Encodes and decodes the values of one place: an argument, a result, a payload, a deferred.

    `annotation` is the declared type. `inspect.Parameter.empty`, `Any` and `object` mean plain JSON. `place` names the
    place in messages ("the result of activity charge").
    """

    def __init__(self, annotation: Any, place: str) -> None:
        self.place = place
        self.plain = annotation in (inspect.Parameter.empty, Any, object)
        self.annotation = JsonValue if self.plain else annotation
        try:
            self._schema = _json_schema() if self.plain else Schema(self.annotation)
        except (PydanticUserError, SchemaError, NameError, TypeError) as error:
            raise TypeError(f"{place}: {_name(annotation)} can't be stored: {_first_line(error)}") from error
        if self._schema.is_read_once:
            raise TypeError(
                f"{place}: {_name(annotation)} can't be stored, because it can only be read once: "
                "declare a list, as in list[int]"
            )

    def encode(self, value: Any) -> str:
        """The stored text of `value`. Raises EncodingError if the declared type doesn't allow the value, or if it would
        come back changed."""
        return self._encode(value)[0]

    def decode(self, text: str) -> Any:
        """The value of stored text. Raises DecodingError if today's type refuses it."""
        json_text, _, notes = text.partition("\n")
        try:
            value = self._schema.read(json_text)
            return restored(value, json.loads(notes)) if notes else value
        except Exception as error:  # noqa: BLE001 - a type's own validators may raise anything
            raise DecodingError(
                f"{self.place} can't be read as {_name(self.annotation)}: {_first_line(error)}"
            ) from None

    def round_trip(self, value: Any) -> tuple[str, Any]:
        """The stored text of `value`, and the value that comes back from it. Raises EncodingError, and TooLarge if the
        text exceeds MAX_VALUE_BYTES."""
        text, back = self._encode(value)
        check_size(text, self.place)
        return text, back

    def _encode(self, value: Any) -> tuple[str, Any]:
        text = self._write(value)
        if self._keeps_whole(value):
            return text, value
        try:
            back = self._schema.read_own(text)
            if self._schema.has_unseen and (notes := notes_of(value, back)):
                back = restored(back, notes)
                text += "\n" + json.dumps(notes, separators=(",", ":"))
            changed = difference(value, back)
        except Exception as error:  # noqa: BLE001 - a type's own validators and comparison may raise anything
            verb = "can't be stored as" if self._problems(value) else "doesn't survive being stored as"
            raise EncodingError(
                f"{self.place}: a value of type {_name(type(value))} {verb} {_name(self.annotation)}: "
                f"{self._misfit(value, error)}"
            ) from None
        if changed is not None:
            raise EncodingError(
                f"{self.place}: a value of type {_name(type(value))} doesn't survive being stored as "
                f"{_name(self.annotation)}: {changed}; annotate the place with the value's own type"
            )
        return text, back

    def _keeps_whole(self, value: Any) -> bool:
        kind = type(value)
        is_of_place = kind is self.annotation or (self.plain and kind in WHOLE)
        return is_of_place and kind in WHOLE and (kind is not int or -MAX_WHOLE < value < MAX_WHOLE)

    def _write(self, value: Any) -> str:
        try:
            if self.plain and not self._keeps_whole(value):
                self._schema.check(value)
            raw = self._schema.write(value)
            if b"null" in raw:
                _refuse_nan(self._schema.plain(value), json.loads(raw))
            return raw[1:-1].decode()
        except Exception as error:  # noqa: BLE001 - a type's own serializers may raise anything
            why = "an await is missing before the call" if inspect.iscoroutine(value) else self._misfit(value, error)
            raise EncodingError(
                f"{self.place}: a value of type {_name(type(value))} can't be stored as {_name(self.annotation)}: {why}"
            ) from None

    def _problems(self, value: Any) -> str:
        """Where a value isn't of the type, in words; empty if it is."""
        try:
            self._schema.check(value)
        except ValidationError as error:
            return _first_line(error).removeprefix("(value): ").replace("a valid dictionary or instance", "an instance")
        except Exception:  # noqa: BLE001 - a type's own validators may raise anything
            return ""
        return ""

    def _misfit(self, value: Any, error: Exception) -> str:
        said = _first_line(error).removeprefix("(value): ")
        return (
            said
            if said.endswith(f"expected {_name(self.annotation)}, not {_name(type(value))}")
            else (self._problems(value) or said)
        )

    def accept(self, text: str) -> str:
        """The stored text of a value that came from outside as JSON text. Raises InvalidInput with the wrong fields."""
        try:
            value = self._schema.read_from_outside(text)
        except Exception as error:  # noqa: BLE001 - a type's own validators may raise anything
            fields = _problems(error) if isinstance(error, ValidationError) else []
            raise InvalidInput(
                f"{self.place} doesn't fit {_name(self.annotation)}: {_first_line(error)}", fields
            ) from None
        try:
            return self.round_trip(value)[0]
        except (EncodingError, TooLarge) as error:
            raise InvalidInput(str(error)) from None

    def shown(self, text: str) -> Any:
        """Stored text as the outside is given it: plain JSON data with fields under their aliases. What today's type
        can't read is shown as it is stored."""
        if self._schema.has_outer_names:
            with contextlib.suppress(Exception):  # a type's own validators and serializers may raise anything
                return self._schema.outer(self.decode(text))
        return plain_json(text)

    def canonical(self, value: Any) -> Any:
        """`value` as plain JSON data for a digest. The data is the same in every process, and stays the same when its
        type gets a new field with a default."""
        if self._keeps_whole(value):
            return [value]
        data = self._schema.canonical(value)
        return _sorted(data) if self._schema.has_sets else data

    def canonical_of(self, text: str) -> Any:
        """The canonical data of stored text, as today's type reads it. Raises DecodingError."""
        return self.canonical(self.decode(text))[0]


@functools.cache
def _json_schema() -> Schema:
    return Schema(JsonValue)


class Signature:
    """The arguments and the result of a function, each encoded by its annotation."""

    def __init__(self, function: Callable[..., Any], owner: str) -> None:
        self.owner = owner
        self._signature = inspect.signature(function)
        hints = type_hints(function, owner)
        self._codecs: dict[str, Codec] = {}
        for name, parameter in self._signature.parameters.items():
            annotation = hints.get(name, parameter.empty)
            if parameter.kind is parameter.VAR_POSITIONAL:
                annotation = list[Any] if annotation is parameter.empty else list[annotation]  # type: ignore[valid-type]
            elif parameter.kind is parameter.VAR_KEYWORD:
                annotation = dict[str, Any] if annotation is parameter.empty else dict[str, annotation]  # type: ignore[valid-type]
            self._codecs[name] = Codec(annotation, f"argument {name!r} of {owner}")
        self.result = Codec(hints.get("return", inspect.Parameter.empty), f"the result of {owner}")
        self._positional = _positional(self._signature)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, str], str]:
        """The JSON text of each argument by name, and the digest of all. Raises TypeError if they don't fit the
        signature and EncodingError if one can't be stored."""
        arguments = self._bind(args, kwargs)
        texts = {name: self._codecs[name].encode(value) for name, value in arguments.items()}
        return texts, digest({name: self._codecs[name].canonical(value) for name, value in arguments.items()})

    def decode(self, texts: dict[str, str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of `texts`, ready for the function. Raises EncodingError if one can't be decoded."""
        bound = inspect.BoundArguments(self._signature, OrderedDict())
        try:
            if self._positional is not None and tuple(texts) == self._positional:
                return tuple(self._codecs[name].decode(text) for name, text in texts.items()), {}
            for name, text in texts.items():
                value = self._codecs[name].decode(text)
                variadic = self._signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
                bound.arguments[name] = tuple(value) if variadic else value
        except DecodingError as error:
            raise EncodingError(f"the argument doesn't survive being stored: {error}") from None
        return bound.args, bound.kwargs

    def by_name(self, texts: dict[str, str]) -> dict[str, Any]:
        """The arguments of `texts` by name, with the defaults of those that weren't passed. Raises EncodingError if one
        can't be decoded."""
        args, kwargs = self.decode(texts)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def differences(self, recorded: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
        """Where the arguments differ from recorded ones, as today's types read them. An argument that wasn't passed
        counts with its default."""
        found_at: list[str] = []
        for name in [*recorded, *(name for name in found if name not in recorded)]:
            before, now = self._text(recorded, name), self._text(found, name)
            if before is None or now is None:
                one, other = (NOTHING if text is None else plain_json(text) for text in (before, now))
                found_at += unequal(one, other, name)
            else:
                found_at += differences(self._codecs[name].canonical_of, before, now, name)
        return found_at

    def _text(self, texts: Mapping[str, str], name: str) -> str | None:
        parameter = self._signature.parameters.get(name)
        if name in texts or parameter is None or parameter.default is parameter.empty:
            return texts.get(name)
        with contextlib.suppress(EncodingError):
            return self._codecs[name].encode(parameter.default)
        return None

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if self._positional is not None and not kwargs and len(args) == len(self._positional):
            return dict(zip(self._positional, args, strict=True))
        try:
            arguments = dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise TypeError(f"{self.owner}: {error}") from None
        for name, parameter in self._signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL and name in arguments:
                arguments[name] = list(arguments[name])
        return arguments


def _positional(signature: inspect.Signature) -> tuple[str, ...] | None:
    """The names of the parameters, if each of them may be passed by position alone."""
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = signature.parameters
    return tuple(parameters) if all(one.kind in by_position for one in parameters.values()) else None


def type_hints(function: Callable[..., Any], owner: str) -> dict[str, Any]:
    """The annotations of a function as types. Raises TypeError that names the annotation that can't be resolved."""
    while isinstance(function, functools.partial):
        function = function.func
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{owner}: the annotation {error.name!r} can't be resolved: it has to be defined or imported at module "
            "level, not inside of a function or under TYPE_CHECKING"
        ) from None
    except Exception as error:  # noqa: BLE001 - an annotation is an expression, and may raise anything
        raise TypeError(f"{owner}: an annotation can't be resolved: {_first_line(error)}") from None


def check_size(text: str, place: str) -> None:
    """Raise TooLarge if `text`, as a string inside a JSON document, takes more than MAX_VALUE_BYTES."""
    if len(text) * 6 <= MAX_VALUE_BYTES:  # no character takes more than six bytes
        return
    size = stored_size(text)
    if size > MAX_VALUE_BYTES:
        raise TooLarge(
            f"{place} takes {size:,} bytes as stored, more than the limit of {MAX_VALUE_BYTES:,}; "
            "store it elsewhere and pass a reference to it"
        )


def stored_size(text: str) -> int:
    """How many bytes `text` takes as a string inside a JSON document."""
    return len(_json.encode(text).encode())


def digest(data: Any) -> str:
    """A short fingerprint of plain JSON data, the same in every process."""
    return hashlib.sha256(_canonical.encode(data).encode()).hexdigest()[:16]


_json = json.JSONEncoder(ensure_ascii=False)
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def _problems(error: ValidationError) -> list[tuple[str, str]]:
    return [(".".join(str(part) for part in item["loc"][1:]) or "(value)", item["msg"]) for item in error.errors()]


def _refuse_nan(data: Any, stored: Any) -> None:
    # A model's own configuration may write NaN and infinities as null. Such a value would come back as None.
    if sum(item is None for item in _leaves(stored)) == sum(item is None for item in _leaves(data)):
        return
    for item in _leaves(data):
        if isinstance(item, float) and not math.isfinite(item):
            raise ValueError(f"JSON has no {item}")


def _leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, dict):
        for value in data.values():
            yield from _leaves(value)
    elif isinstance(data, list):
        for value in data:
            yield from _leaves(value)
    else:
        yield data


def _sorted(data: Any) -> Any:
    # pydantic writes a set in the order of this process's hashes.
    if isinstance(data, list):
        return sorted((_sorted(item) for item in data), key=lambda item: json.dumps(item, sort_keys=True))
    return {key: _sorted(value) for key, value in data.items()} if isinstance(data, dict) else data


def _name(annotation: Any) -> str:
    if annotation is JsonValue:
        return "plain JSON (annotate it with its type to store anything else)"
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return getattr(annotation, "__name__", None) or str(annotation)


def _first_line(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{field}: {what}" for field, what in _problems(error))
    text = str(error).strip() or type(error).__name__
    if text.startswith("Unable to generate pydantic-core schema"):
        return "it has no form in JSON. Declare plain data, a dataclass or a pydantic model"
    if unexpected := _UNEXPECTED.findall(text):
        return "; ".join(
            f"{f'{field}: ' if field else ''}expected {kind}, not {given}" for kind, field, given in unexpected[:5]
        )
    return " ".join(text.split())[:500]
