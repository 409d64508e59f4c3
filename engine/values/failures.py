"""Typed failures of the author: exceptions with validated fields. They come back from the store as themselves."""

from __future__ import annotations

import typing
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from engine.values.codec import Codec, type_hints


@typing.dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class Failure(Exception):
    """Base of typed failures, whose annotated fields are validated and stored.

        class CardDeclined(Failure):
            code: str

        raise CardDeclined(code="insufficient_funds")

    Fields are given by keyword. The constructor raises pydantic's ValidationError for a wrong or missing field, and
    EncodingError for a field that the store would change. A Failure is an answer: an activity that raises one isn't
    retried, unless its class sets `retryable = True`.
    """

    retryable: ClassVar[bool] = False
    _model: ClassVar[type[BaseModel] | None] = None
    _codec: ClassVar[Codec | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if issubclass(cls, StopIteration | StopAsyncIteration):
            raise TypeError(
                f"{cls.__name__} can't derive from StopIteration, because no coroutine may raise StopIteration"
            )
        cls._model = cls._codec = None

    def __init__(self, **fields: Any) -> None:
        values = self._fields_model()(**fields)
        super().__init__()
        self._adopt(values)
        self.to_json()  # refuse a field that can't be stored

    @classmethod
    def _fields_model(cls) -> type[BaseModel]:
        if cls._model is None:
            # The model is built at first use, so that annotations may name classes that are defined later.
            hints = type_hints(cls, f"failure {cls.__name__}")
            fields = {
                name: (hint, getattr(cls, name, ...))
                for name, hint in hints.items()
                if not name.startswith("_") and typing.get_origin(hint) is not ClassVar
            }
            config = ConfigDict(extra="forbid", populate_by_name=True)
            cls._model = create_model(cls.__name__, __config__=config, **typing.cast(Any, fields))
        return cls._model

    @classmethod
    def _fields_codec(cls) -> Codec:
        if cls._codec is None:
            cls._codec = Codec(cls._fields_model(), f"failure {cls.__name__}")
        return cls._codec

    @classmethod
    def from_json(cls, text: str) -> typing.Self:
        """The failure with these fields, given as stored text. Raises DecodingError."""
        values = cls._fields_codec().decode(text)
        failure = cls.__new__(cls)
        failure._adopt(values)
        return failure

    @classmethod
    def shown(cls, text: str) -> typing.Any:
        """The stored text of the fields as the outside is given it: see `Codec.shown`."""
        return cls._fields_codec().shown(text)

    def to_json(self) -> str:
        """The stored text of the fields. Raises EncodingError that names a field which the store would change."""
        model = self._fields_model()
        given = {name: getattr(self, name) for name in model.model_fields}
        return self._fields_codec().encode(model.model_construct(**given))

    def _adopt(self, values: BaseModel) -> None:
        for name in type(values).model_fields:
            setattr(self, name, getattr(values, name))

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name, None)!r}" for name in self._fields_model().model_fields)
        return shown or type(self).__name__

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = Exception.__hash__


def check_fields(kind: type[Failure]) -> None:
    """Check that the fields of a class of failures can be stored. Raises TypeError or an error of pydantic if an
    annotation can't be resolved or stored."""
    kind._fields_codec()


class CircularWait(Failure):
    """The call would wait for an execution that waits for the caller, directly or through others. Both would wait for
    ever. `circle` names the executions in order, each as "workflow id", with the caller first and last."""

    circle: tuple[str, ...]


class ChildStopped(Failure):
    """A child workflow was interrupted or terminated, so it has no result."""

    workflow: str
    execution_id: str
    outcome: str
