"""What Microsoft's published types for Bicep say of the resources in infra/: published_types.json, and how to read it.

For each type and API version, the file has the properties of each object that is used here, by the object's path: `[]`
is an element of an array, `{}` a value of a map. A kind is `string`, `bool`, `int`, `array`, `object`, `map`, `any`, or
`=` and the texts that are known. `!` after it: required. `-` before it: only the service sets the property.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.deploy.infra.bicep import Declaration, Each, Expression, OneOf

PUBLISHED: dict[str, Any] = json.loads(Path(__file__).with_name("published_types.json").read_text("utf-8"))
BICEP_ONLY = ("name", "parent", "scope", "dependsOn")
"""What a resource has in Bicep, whatever its type."""
_KINDS = {"string": str, "bool": bool, "int": int, "array": list, "object": dict, "map": dict}

Objects = Mapping[str, Mapping[str, str]]


def problems(resource: Declaration) -> Iterator[str]:
    """What in a resource doesn't fit its published type."""
    body = resource.value.body if isinstance(resource.value, Each) else resource.value
    name = resource.about if resource.about in PUBLISHED["types"] else f"{resource.about} {body.get('name')}"
    if name not in PUBLISHED["types"]:
        yield f"{name} is no published type"
        return
    objects: Objects = PUBLISHED["types"][name]
    yield from _object({key: value for key, value in body.items() if key not in BICEP_ONLY}, objects, "")


def _object(value: Mapping[str, Any], objects: Objects, path: str) -> Iterator[str]:
    known = objects.get(path)
    if known is None:
        yield f"{path}: published_types.json has nothing of this object"
        return
    for name, below in value.items():
        here = f"{path}.{name}".lstrip(".")
        if name not in known:
            yield f"{here} is no property"
        elif known[name].startswith("-"):
            yield f"{here} is set by the service alone"
        else:
            yield from _value(below, known[name].rstrip("!"), objects, here)
    for name in known.keys() - value.keys() - set(BICEP_ONLY if not path else ()):
        if known[name].endswith("!"):
            yield f"{path}.{name} is required".lstrip(".")


def _value(value: Any, kind: str, objects: Objects, path: str) -> Iterator[str]:
    match value:
        case None | Expression():
            return
        case OneOf(values):
            for one in values:
                yield from _value(one, kind, objects, path)
        case Each(body):
            yield from _element(body, objects, path)
        case str() if kind.startswith("="):
            if value not in kind[1:].split("|"):
                yield f"{path} is one of {kind[1:]}, not {value!r}"
        case _ if kind != "any" and type(value) is not _KINDS.get(kind):
            yield f"{path} is of kind {kind}, not {value!r}"
        case list():
            for one in value:
                yield from _element(one, objects, path)
        case dict() if kind == "map" and f"{path}{{}}" not in objects:
            return
        case dict() if kind == "map":
            for one in value.values():
                yield from _object(one, objects, f"{path}{{}}")
        case dict():
            yield from _object(value, objects, path)


def _element(value: Any, objects: Objects, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _object(value, objects, f"{path}[]")
