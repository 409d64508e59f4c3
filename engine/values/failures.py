"""Failures that are data: the user's typed `Failure` classes, and the record that any exception leaves in a document.

Rules:
1. `Failure` subclasses, and the classes that an activity names in `raises=`, come back as themselves. Every other
   exception comes back as ActivityError with its type's name, its message and its traceback.
2. Recording never fails: what can't be encoded is dropped, texts are cut with a visible mark, chains of causes are
   followed to a set depth and through no cycle.
3. Rebuilding never calls a recorded class's constructor.
"""

from __future__ import annotations

import json
import traceback
import typing
from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from engine.ground.errors import ActivityError, DecodingError

MAX_MESSAGE = 8_000
"""Characters of an exception's message that are kept."""
MAX_TRACEBACK = 16_000
"""Characters of a traceback's text that are kept: its end, where the cause stands."""
MAX_CAUSES = 8
"""Exceptions of a chain of causes that are kept."""
MAX_DATA = 64_000
"""Characters of JSON that a failure's own fields may take; beyond it they are dropped."""
MAX_RECORDS = 400_000
"""Bytes that the records of one list, or one chain, take before what follows is kept in brief only."""
MAX_BRIEF = 100
"""Characters of the message in a brief record, and how many of those a list keeps."""


class ErrorRecord(BaseModel):
    """An exception as a document keeps it."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    module: str = ""
    message: str = ""
    traceback: str = ""
    data: str | None = None
    """JSON text of a Failure's fields, or of a declared exception's `[args, attributes]`."""
    cause: ErrorRecord | None = None


@typing.dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class Failure(Exception):
    """Base of typed failures: annotated fields, validated, that survive being stored.

        class CardDeclined(Failure):
            code: str

        raise CardDeclined(code="insufficient_funds")

    Fields are given by keyword; a wrong or missing one raises pydantic's ValidationError where it is built. A Failure
    is an answer, so an activity that raises one isn't retried, unless its class sets `retryable = True`.
    """

    retryable: ClassVar[bool] = False
    _declared: ClassVar[dict[tuple[str, str], type[Failure]]] = {}
    _model: ClassVar[type[BaseModel] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if issubclass(cls, StopIteration | StopAsyncIteration):
            raise TypeError(f"{cls.__name__} can't be a StopIteration as well: no coroutine may raise that")
        cls._model = None
        Failure._declared[cls.__module__, cls.__qualname__] = cls

    def __init__(self, **fields: Any) -> None:
        values = self._fields_model()(**fields)
        super().__init__()
        self._adopt(values)

    @classmethod
    def _fields_model(cls) -> type[BaseModel]:
        if cls._model is None:
            # Built at first use: only then can annotations name what a module defines further down.
            hints = typing.get_type_hints(cls, include_extras=True)
            fields = {
                name: (hint, getattr(cls, name, ...))
                for name, hint in hints.items()
                if not name.startswith("_") and typing.get_origin(hint) is not ClassVar
            }
            config = ConfigDict(
                extra="forbid",
                populate_by_name=True,
                ser_json_bytes="base64",
                val_json_bytes="base64",
                ser_json_inf_nan="strings",
            )
            cls._model = create_model(cls.__name__, __config__=config, **typing.cast(Any, fields))
        return cls._model

    @classmethod
    def from_json(cls, text: str) -> typing.Self:
        """The failure behind the JSON text of its fields. Raises pydantic's ValidationError."""
        values = cls._fields_model().model_validate_json(text)
        failure = cls.__new__(cls)
        failure._adopt(values)
        return failure

    def to_json(self) -> str:
        """The JSON text of the fields."""
        model = self._fields_model()
        return model.model_construct(**{name: getattr(self, name) for name in model.model_fields}).model_dump_json()

    def _adopt(self, values: BaseModel) -> None:
        for name in type(values).model_fields:
            setattr(self, name, getattr(values, name))

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name, None)!r}" for name in self._fields_model().model_fields)
        return shown or type(self).__name__

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = Exception.__hash__


class ChildStopped(Failure):
    """A child workflow was interrupted or terminated: it has no result."""

    workflow: str
    execution_id: str
    outcome: str


def record(error: BaseException, raises: Iterable[type[BaseException]] = ()) -> ErrorRecord:
    """The record of an exception and its causes. `raises`: classes whose `args` and attributes are kept as well."""
    try:
        return _record_chain(error, tuple(raises))
    except BaseException as problem:  # noqa: BLE001 - whatever its class does when it is looked at
        return ErrorRecord(type=type(error).__name__, message=f"(it can't be shown: {type(problem).__name__})")


def _record_chain(error: BaseException, declared: tuple[type[BaseException], ...]) -> ErrorRecord:
    chain: list[BaseException] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and len(chain) < MAX_CAUSES and id(current) not in seen:
        chain.append(current)
        seen.add(id(current))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    result: ErrorRecord | None = None
    for saved in reversed(fitting(_record_one(link, declared) for link in chain)):
        result = saved.model_copy(update={"cause": result})
    assert result is not None
    return result


def fitting(errors: Iterable[ErrorRecord]) -> tuple[ErrorRecord, ...]:
    """The records, in brief from where they would take more than a document has room for, and cut off after that."""
    kept, room, brief = list[ErrorRecord](), MAX_RECORDS, 0
    for error in errors:
        room -= len(error.model_dump_json().encode())
        if room < 0:
            brief += 1
            error = ErrorRecord(type=error.type[:MAX_BRIEF], message=error.message[:MAX_BRIEF] + "… [cut]")
        if brief <= MAX_BRIEF:
            kept.append(error)
    return tuple(kept)


def rebuild(saved: ErrorRecord, raises: Iterable[type[BaseException]] = (), exact: bool = True) -> BaseException:
    """The exception behind a record, causes included.

    A Failure, or a class of `raises`, comes back as itself. When a Failure's class is gone or its fields no longer
    fit, DecodingError is raised (`exact`), or ActivityError stands in for it.
    """
    error = _rebuild_one(saved, tuple(raises), exact)
    if saved.cause is not None:
        error.__cause__ = rebuild(saved.cause, raises, exact=False)
    return error


def _record_one(error: BaseException, raises: tuple[type[BaseException], ...]) -> ErrorRecord:
    if type(error) is ActivityError:  # passed on by the workflow: keep what the activity said
        return ErrorRecord(type=error.type_name, message=_cut(error.message), traceback=error.traceback)
    return ErrorRecord(
        type=type(error).__qualname__,
        module=type(error).__module__,
        message=_cut(_text(error)),
        traceback=_traceback(error),
        data=_data(error, raises),
    )


def _data(error: BaseException, raises: tuple[type[BaseException], ...]) -> str | None:
    try:
        if isinstance(error, Failure):
            text = error.to_json()
            type(error).from_json(text)  # what can't be read back would fail whoever has to
            return _short(text)
        if isinstance(error, raises):
            args = list(error.args) if _is_json(list(error.args)) else []
            attributes = {name: value for name, value in vars(error).items() if _is_json(value)}
            return _short(json.dumps([args, attributes]))
    except Exception:  # noqa: BLE001 - whatever a user's class does while it is read, its failure is still recorded
        return None
    return None


def _rebuild_one(saved: ErrorRecord, raises: tuple[type[BaseException], ...], exact: bool) -> BaseException:
    if saved.data is None:
        return ActivityError(saved.type, saved.message, saved.traceback)
    for declared in raises:
        if (saved.module, saved.type) == (declared.__module__, declared.__qualname__):
            if issubclass(declared, Failure):
                break
            args, attributes = json.loads(saved.data)
            # The built-in base makes it: the class's own constructor may want what was not kept.
            base = next(cls for cls in declared.__mro__ if cls.__module__ == "builtins")
            try:
                rebuilt: BaseException = base.__new__(declared, *args)
            except (TypeError, ValueError):  # a group of exceptions can't be made of what was kept
                return ActivityError(saved.type, saved.message, saved.traceback)
            rebuilt.args = tuple(args)
            rebuilt.__dict__.update(attributes)
            return rebuilt
    failure = _find_failure(saved)
    if failure is not None:
        try:
            return failure.from_json(saved.data)
        except Exception as error:  # noqa: BLE001 - a class's own validators may raise anything
            if exact:
                raise DecodingError(f"the recorded failure {saved.type} no longer fits its class: {error}") from None
    if exact:
        raise DecodingError(
            f"the recorded failure {saved.module}.{saved.type} is no longer a Failure class of this app, nor in raises="
        )
    return ActivityError(saved.type, saved.message, saved.traceback)


def _find_failure(saved: ErrorRecord) -> type[Failure] | None:
    exact = Failure._declared.get((saved.module, saved.type))
    if exact is not None:
        return exact
    # A class that moved to another module is still the same failure, if its name is unique.
    named = [cls for (_, name), cls in Failure._declared.items() if name == saved.type]
    return named[0] if len(named) == 1 else None


def examinable(error: BaseException) -> BaseException:
    """`error`, or an ActivityError in its place if its class raises when it is asked what it is."""
    try:
        isinstance(error, (Failure, ActivityError, OSError))
    except BaseException as problem:  # noqa: BLE001 - a class may answer with anything
        return ActivityError(type(error).__name__, f"(it can't be examined: {type(problem).__name__})")
    return error


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:  # noqa: BLE001 - a broken __str__ must not hide the failure itself
        return f"(its text can't be shown: {type(problem).__name__})"


def _traceback(error: BaseException) -> str:
    try:
        lines = traceback.format_tb(error.__traceback__)
    except Exception:  # noqa: BLE001 - source files may be gone or unreadable
        return ""
    text = "".join(lines)
    return _clean(text if len(text) <= MAX_TRACEBACK else "… [cut]\n" + text[-MAX_TRACEBACK:])


def _cut(text: str) -> str:
    if len(text) > MAX_MESSAGE:
        text = f"{text[:MAX_MESSAGE]}… [cut: {len(text):,} characters in all]"
    return _clean(text)


def _clean(text: str) -> str:
    # Lone surrogates can't be stored as UTF-8.
    return text.encode("utf-8", "backslashreplace").decode()


def _short(text: str) -> str | None:
    return text if len(text) <= MAX_DATA else None


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False
