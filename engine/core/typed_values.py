"""What brings values of one type from outside. The type is given in either spelling: `Channel("orders", Order)` and
`Channel[Order]("orders")`."""

from __future__ import annotations

import functools
import typing
from typing import Any, ClassVar, TypeVar

from engine.values.codec import Codec


class TypedValues:
    """Base of deferreds and channels: a name, the type of the values, and how these are stored."""

    VALUE: ClassVar[str]
    """What a value is called in messages, before the name."""

    name: str
    type: Any

    @functools.cached_property
    def codec(self) -> Codec:
        """How a value is stored. Raises TypeError for a type that can't be."""
        return Codec(self.type, f"{self.VALUE} {self.name}")

    @property
    def __orig_class__(self) -> Any:
        """Set by Python, after the call, to what stood before it: `Channel[Order]`."""
        return self.__dict__.get("_spelled")

    @__orig_class__.setter
    def __orig_class__(self, spelled: Any) -> None:
        self.__dict__["_spelled"] = spelled
        (kind,) = typing.get_args(spelled)
        if self.type is Any and not isinstance(kind, TypeVar):
            self.type = kind
            self.__dict__.pop("codec", None)
