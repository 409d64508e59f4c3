"""What properties a resource may have, read from the models of Microsoft's azure-mgmt packages.

The models come in two styles: annotated fields (`rest_field`), and an `_attribute_map` whose dotted keys flatten a
tree. Both become a `Shape`: names, what is below each, and the values that a text may have.
"""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tests.deploy.infra.bicep import Each, Expression, OneOf


@dataclass(frozen=True)
class Place:
    """A property: what makes its shape (None: anything goes), its texts (none: any), and whether only the service sets
    it."""

    shape: Callable[[], Shape] | None = None
    texts: frozenset[str] = frozenset()
    is_map: bool = False
    is_read_only: bool = False


@dataclass(frozen=True)
class Shape:
    """The properties of an object. With a discriminator, `variants` holds the shape for each of its values."""

    places: Mapping[str, Place]
    discriminator: str | None = None
    variants: Mapping[str, Callable[[], Shape]] = field(default_factory=dict)


def shape_of(package: str, name: str) -> Shape:
    """The shape of a model. Raises LookupError where there is no such model."""
    module = importlib.import_module(package)
    model = getattr(module, name, None)
    if model is None:
        raise LookupError(f"{package} has no model {name}")
    return _shape(module, model)


def problems(value: Any, shape: Shape, path: str = "") -> Iterator[str]:
    """What in a value doesn't fit the shape: unknown names, read-only ones, texts that aren't allowed."""
    match value:
        case OneOf(values):
            for one in values:
                yield from problems(one, shape, path)
        case dict():
            for name, below in value.items():
                place = _place(value, shape, name)
                here = f"{path}.{name}".lstrip(".")
                if place is None:
                    yield f"{here} is no property"
                elif place.is_read_only:
                    yield f"{here} is set by the service alone"
                else:
                    yield from _problems_at(below, place, here)
        case _:
            pass


def _problems_at(value: Any, place: Place, path: str) -> Iterator[str]:
    match value:
        case Expression():
            pass
        case list():
            for number, one in enumerate(value):
                yield from _problems_at(one, place, f"{path}[{number}]")
        case OneOf(values):
            for one in values:
                yield from _problems_at(one, place, path)
        case Each(body):
            yield from _problems_at(body, place, path)
        case dict() if place.is_map:
            for name, below in value.items():
                yield from _problems_at(below, Place(place.shape, place.texts), f"{path}.{name}")
        case dict() if place.shape:
            yield from problems(value, place.shape(), path)
        case str() if place.shape:
            yield f"{path} is an object, not a text"
        case str() if place.texts and value not in place.texts:
            yield f"{path} is one of {sorted(place.texts)}, not {value!r}"
        case _:
            pass


def _place(value: Mapping[str, Any], shape: Shape, name: str) -> Place | None:
    if shape.discriminator and (variant := shape.variants.get(str(value.get(shape.discriminator)))) is not None:
        return variant().places.get(name) or shape.places.get(name)
    return shape.places.get(name)


@functools.cache
def _shape(module: ModuleType, model: type) -> Shape:
    return _from_map(module, model) if hasattr(model, "_attribute_map") else _from_fields(module, model)


# -- annotated fields --


def _from_fields(module: ModuleType, model: type) -> Shape:
    places: dict[str, Place] = {}
    discriminator = None
    for owner in reversed(model.__mro__):
        for attribute, annotation in inspect.get_annotations(owner).items():
            rest = owner.__dict__.get(attribute)
            if not hasattr(rest, "_rest_name_input"):
                continue
            name = rest._rest_name_input or attribute
            if rest._is_discriminator:
                discriminator = discriminator or name
            places[name] = _place_of(module, str(annotation), rest._visibility == ["read"])
    variants = {
        str(getattr(key, "value", key)): functools.partial(_shape, module, variant)
        for key, variant in model.__dict__.get("__mapping__", {}).items()
    }
    return Shape(places, discriminator, variants)


def _place_of(module: ModuleType, annotation: str, is_read_only: bool) -> Place:
    shape, texts = None, set()
    for name in re.findall(r"_models\.(\w+)", annotation):
        found = getattr(module, name, None)
        if isinstance(found, type) and issubclass(found, enum.Enum):
            texts |= {member.value for member in found}
        elif isinstance(found, type):
            shape = functools.partial(_shape, module, found)
    is_map = re.search(r"\b[Dd]ict\[", annotation) is not None
    return Place(shape, frozenset(texts), is_map, is_read_only)


# -- attribute maps --


def _from_map(module: ModuleType, model: Any) -> Shape:
    tree: dict[str, Any] = {}
    discriminator = None
    for attribute, entry in model._attribute_map.items():
        *above, name = (part.replace("\\.", ".") for part in re.split(r"(?<!\\)\.", entry["key"]))
        level = tree
        for part in above:
            level = level.setdefault(part, {})
        is_read_only = bool(model._validation.get(attribute, {}).get("readonly"))
        level[name] = _place_in_map(module, entry["type"], is_read_only)
    variants: dict[str, Callable[[], Shape]] = {}
    for attribute, known in getattr(model, "_subtype_map", {}).items():
        discriminator = model._attribute_map[attribute]["key"].replace("\\.", ".")
        variants = {key: functools.partial(_shape, module, getattr(module, name)) for key, name in known.items()}
    return _from_tree(tree, discriminator, variants)


def _from_tree(
    tree: Mapping[str, Any], discriminator: str | None = None, variants: Mapping[str, Callable[[], Shape]] | None = None
) -> Shape:
    places = {
        name: below if isinstance(below, Place) else Place(functools.partial(_from_tree, below))
        for name, below in tree.items()
    }
    return Shape(places, discriminator, variants or {})


def _place_in_map(module: ModuleType, type_name: str, is_read_only: bool) -> Place:
    found = getattr(module, type_name.strip("[]{}"), None)
    is_model = isinstance(found, type) and hasattr(found, "_attribute_map")
    shape = functools.partial(_shape, module, found) if is_model else None
    return Place(shape, is_map=type_name.startswith("{"), is_read_only=is_read_only)
