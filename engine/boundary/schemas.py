"""JSON Schemas of the values that an app takes and gives, by the types that its code declares."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import PydanticSchemaGenerationError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

from engine.values.codec import Codec


def schema_of(
    codec: Codec,
    ref_template: str = "#/$defs/{model}",
    mode: Literal["validation", "serialization"] = "validation",
) -> dict[str, Any]:
    """The JSON Schema of what `codec` takes from outside, or (`serialization`) of what it gives. An empty one, which
    allows everything, for a type that has none."""
    if codec.plain:
        return {}
    annotation: Any = codec.annotation
    try:
        return TypeAdapter(annotation).json_schema(ref_template=ref_template, mode=mode)
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError):
        return {}
