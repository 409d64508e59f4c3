"""Records exceptions in documents, and rebuilds them from there.

Rules:
1. A `Failure` comes back as itself. So does an exception whose class, or a base of it, the activity names in `raises=`.
   Between executions, the classes count that any activity of the app names there. If a subclass no longer exists, the
   exception comes back as the class in `raises=`. Every other exception comes back as ActivityError with the name of
   its type, its message and its traceback.
2. A group comes back as a group. Each exception in it comes back by rule 1, so `except*` finds it.
3. Recording never fails. The record's notes name what can't be kept. A text that is cut has a visible mark. Causes and
   groups are followed to a limited depth and number, and each exception is recorded only once.
4. Rebuilding calls no constructor of a recorded class. The rebuilt exception has the text of the recorded one.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterable, Iterator
from types import MemberDescriptorType
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from engine.ground.errors import ActivityError, ActivityErrorGroup, DecodingError
from engine.values.failures import Failure
from engine.values.unseen import plain_json

MAX_MESSAGE = 8_000
"""The most characters of an exception's message."""
MAX_TRACEBACK = 16_000
"""The most characters of a traceback. Its end is kept, because the end names the cause."""
MAX_DEPTH = 8
"""The greatest depth of causes and of groups within groups."""
MAX_ERRORS = 100
"""The most exceptions of one tree of groups and causes."""
MAX_NOTES = 20
"""The most notes of one exception."""
MAX_DATA = 300_000
"""The most characters of a failure's fields, or of an exception's arguments and attributes."""
MAX_RECORDS = 400_000
"""The most bytes of full records in one list or tree. Records beyond this are brief."""
MAX_BRIEF = 100
"""The most characters of the message in a brief record, and the most brief records in a list."""

T = TypeVar("T")
ErrorClasses = tuple[type[BaseException], ...]


class ErrorRecord(BaseModel):
    """An exception in its stored form."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    module: str = ""
    message: str = ""
    traceback: str = ""
    data: str | None = None
    """Stored text of a Failure's fields, or JSON of a declared exception's `[args, attributes]`. If any attributes are
    tuples, their names follow."""
    declared: str | None = None
    """The class in `raises=` that the exception is an instance of, as `module:name`."""
    notes: tuple[str, ...] = Field(default=(), exclude_if=lambda notes: not notes)
    """The exception's own notes, and notes on what was not kept."""
    exceptions: tuple[ErrorRecord, ...] = Field(default=(), exclude_if=lambda inner: not inner)
    """The exceptions of a group."""
    cause: ErrorRecord | None = None


# -- recording --


def record(error: BaseException, raises: Iterable[type[BaseException]] = ()) -> ErrorRecord:
    """The record of an exception, with its causes and the exceptions of its group. `raises`: exception classes whose
    `args` and attributes are recorded too."""
    try:
        return _Recorder(tuple(raises)).tree(error, 1)
    except BaseException as problem:  # noqa: BLE001 - the exception's own class may raise anything
        return ErrorRecord(type=type(error).__name__, message=f"(it can't be shown: {type(problem).__name__})")


class _Recorder:
    """Records one tree of exceptions, within the limits of bytes and number."""

    def __init__(self, raises: ErrorClasses) -> None:
        self._raises = raises
        self._room = MAX_RECORDS
        self._left = MAX_ERRORS
        self._seen: set[int] = set()

    def tree(self, error: BaseException, depth: int) -> ErrorRecord:
        self._seen.add(id(error))
        self._left -= 1
        saved = _record_one(error, self._raises)
        self._room -= _size(saved)
        if self._room < 0:
            saved = _brief(saved)
        inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        kept = tuple(self.tree(part, depth + 1) for part in inner if self._goes_on(part, depth))
        if len(kept) < len(inner):
            saved = saved.model_copy(update={"notes": (*saved.notes, f"{len(inner) - len(kept)} more were not kept")})
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        saved_cause = self.tree(cause, depth + 1) if cause is not None and self._goes_on(cause, depth) else None
        return saved.model_copy(update={"exceptions": kept, "cause": saved_cause})

    def _goes_on(self, error: BaseException, depth: int) -> bool:
        return id(error) not in self._seen and depth < MAX_DEPTH and self._left > 0


def fitting(errors: Iterable[ErrorRecord]) -> tuple[ErrorRecord, ...]:
    """The records that fit into a document. Records beyond MAX_RECORDS become brief, and after MAX_BRIEF brief records
    the rest are left out."""
    kept, room, brief = list[ErrorRecord](), MAX_RECORDS, 0
    for error in errors:
        room -= _size(error)
        if room < 0:
            brief += 1
            error = _brief(error)
        if brief <= MAX_BRIEF:
            kept.append(error)
    return tuple(kept)


def _record_one(error: BaseException, raises: ErrorClasses) -> ErrorRecord:
    if type(error) is ActivityError:  # the workflow passed it on: keep the activity's own type and message
        return ErrorRecord(type=error.type_name, message=_cut(error.message), traceback=error.traceback)
    if isinstance(error, ActivityErrorGroup):
        return ErrorRecord(type=error.type_name, message=_cut(_text(error)), traceback=error.traceback)
    declared = next((kind for kind in raises if isinstance(error, kind)), None)
    data, lost = _data(error, declared is not None)
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, str)] + lost
    return ErrorRecord(
        type=type(error).__qualname__,
        module=type(error).__module__,
        message=_cut(_text(error)),
        traceback=_traceback(error),
        data=data,
        declared=None if declared is None else _name(declared),
        notes=tuple(_cut(note) for note in notes[:MAX_NOTES]),
    )


def _data(error: BaseException, is_declared: bool) -> tuple[str | None, list[str]]:
    """The stored text of an exception's fields, and notes on what isn't kept."""
    try:
        if isinstance(error, Failure):
            text, lost = error.to_json(), list[str]()
        elif is_declared:
            text, lost = _arguments_and_attributes(error)
        else:
            return None, []
    except Exception as problem:  # noqa: BLE001 - the author's class may raise anything while it is read
        return None, [f"its fields were not kept: {_text(problem)}"]
    if len(text) > MAX_DATA:
        return None, [f"its fields were not kept: they take {len(text):,} characters, the limit is {MAX_DATA:,}"]
    return text, lost


def _arguments_and_attributes(error: BaseException) -> tuple[str, list[str]]:
    args, lost = list(error.args), list[str]()
    if not _is_json(args):
        lost = [f"argument {n} ({type(arg).__name__}) was not kept" for n, arg in enumerate(args) if not _is_json(arg)]
        args = [_text(error)]
    attributes, tuples = dict[str, Any](), list[str]()
    for name, value in _attributes(error):
        if _is_json(list(value) if type(value) is tuple else value):
            attributes[name] = value
            tuples += [name] if type(value) is tuple else []
        else:
            lost.append(f"attribute {name} ({type(value).__name__}) was not kept")
    return json.dumps([args, attributes, *([tuples] if tuples else [])]), lost


def _attributes(error: BaseException) -> Iterator[tuple[str, Any]]:
    yield from ((name, value) for name, value in vars(error).items() if name != "__notes__")
    for kind in type(error).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(error, name):
                yield name, getattr(error, name)
        if kind.__module__ == "builtins":
            yield from _built_in_attributes(error, kind)


def _built_in_attributes(error: BaseException, kind: type) -> Iterator[tuple[str, Any]]:
    """What a built-in class keeps beside `args`, such as the `filename` of an OSError."""
    for name, member in vars(kind).items():
        if isinstance(member, MemberDescriptorType) and not name.startswith("__"):
            value = member.__get__(error)
            if value is not None:
                yield name, value


def examinable(error: BaseException) -> BaseException:
    """`error`, or an ActivityError in its place if even `isinstance` raises for it."""
    try:
        isinstance(error, (Failure, ActivityError, OSError))
    except BaseException as problem:  # noqa: BLE001 - a class may answer with anything
        return ActivityError(type(error).__name__, f"(it can't be examined: {type(problem).__name__})")
    return error


# -- rebuilding --


def rebuild(saved: ErrorRecord, raises: Iterable[type[BaseException]] = (), exact: bool = True) -> BaseException:
    """The exception of a record, with its causes and the exceptions of its group.

    A Failure, or an exception declared in `raises`, comes back as itself. If a Failure's class no longer exists, or its
    fields no longer fit, DecodingError is raised. Without `exact`, an ActivityError stands in for the Failure instead.
    """
    declared = tuple(raises)
    error = _rebuild_group(saved, declared) if saved.exceptions else _rebuild_one(saved, declared, exact)
    cause = None if saved.cause is None else rebuild(saved.cause, declared, exact=False)
    try:
        return _with_notes_and_cause(error, saved, cause)
    except Exception:  # noqa: BLE001 - the class's own __setattr__ or add_note may raise anything
        return _with_notes_and_cause(ActivityError(saved.type, saved.message, saved.traceback), saved, cause)


def _with_notes_and_cause(error: BaseException, saved: ErrorRecord, cause: BaseException | None) -> BaseException:
    for note in saved.notes:
        error.add_note(note)
    if cause is not None:
        error.__cause__ = cause
    return error


def shown_data(saved: ErrorRecord) -> Any:
    """What a record keeps of a failure's fields, as the outside is given it. None if there is nothing."""
    if saved.data is None:
        return None
    failure = _find_failure(saved)
    return plain_json(saved.data) if failure is None else failure.shown(saved.data)


def _rebuild_group(saved: ErrorRecord, raises: ErrorClasses) -> BaseException:
    inner = [rebuild(part, raises, exact=False) for part in saved.exceptions]
    message = re.sub(r" \(\d+ sub-exceptions?\)$", "", saved.message)
    return ActivityErrorGroup(message, [part for part in inner if isinstance(part, Exception)], saved.type)


def _rebuild_one(saved: ErrorRecord, raises: ErrorClasses, exact: bool) -> BaseException:
    declared = _find_declared(saved, raises)
    if saved.data is None:
        return ActivityError(saved.type, saved.message, saved.traceback)
    if declared is not None and not issubclass(declared, Failure):
        return _rebuild_declared(saved, declared) or ActivityError(saved.type, saved.message, saved.traceback)
    failure = declared if declared is not None and issubclass(declared, Failure) else _find_failure(saved)
    if failure is not None:
        try:
            return failure.from_json(saved.data)
        except Exception as error:  # noqa: BLE001 - a class's own validators may raise anything
            if exact and saved.declared is None:
                raise DecodingError(f"the recorded failure {saved.type} no longer fits its class: {error}") from None
    elif exact and saved.declared is None:
        raise DecodingError(
            f"the recorded failure {saved.module}.{saved.type} is no longer a Failure class of this app, nor in raises="
        )
    return ActivityError(saved.type, saved.message, saved.traceback)


def _rebuild_declared(saved: ErrorRecord, declared: type[BaseException]) -> BaseException | None:
    args, attributes, *tuples = json.loads(saved.data or "[[], {}]")
    attributes |= {name: tuple(attributes[name]) for names in tuples for name in names}
    # The built-in base class makes the object, because the class's own constructor may need data that was not kept.
    base = next(kind for kind in declared.__mro__ if kind.__module__ == "builtins")
    for kind in (declared, _readable(declared, saved.message)):
        try:
            rebuilt: BaseException = base.__new__(kind, *args)
            rebuilt.args = tuple(args)
            for name, value in attributes.items():
                object.__setattr__(rebuilt, name, value)
        except (TypeError, ValueError, AttributeError):  # a group, for example, can't be made from the kept data
            continue
        if kind is not declared or (_says(rebuilt, saved.message) and _can_be_asked(rebuilt)):
            return rebuilt
    return None


def _says(error: BaseException, message: str) -> bool:
    try:
        return _cut(str(error)) == message
    except Exception:  # noqa: BLE001 - the class's own __str__ may need data that was not kept
        return False


def _can_be_asked(error: BaseException) -> bool:
    try:
        return getattr(error, "_no_such_attribute_", None) is None
    except Exception:  # noqa: BLE001 - the class's own __getattr__ may need data that was not kept
        return False


def _readable(declared: type[BaseException], message: str) -> type[BaseException]:
    """A subclass of `declared` whose text is the recorded message, because the class's own methods need data that was
    not kept."""

    def not_kept(error: BaseException, name: str) -> Any:
        raise AttributeError(f"{declared.__name__} has no attribute {name!r}: it isn't there, or wasn't kept")

    names = {"__module__": declared.__module__, "__qualname__": declared.__qualname__, "__str__": lambda _: message}
    names |= {"__getattr__": not_kept} if hasattr(declared, "__getattr__") else {}
    return type(declared.__name__, (declared,), names)


def _find_declared(saved: ErrorRecord, raises: ErrorClasses) -> type[BaseException] | None:
    for kind in raises:
        if (saved.module, saved.type) == (kind.__module__, kind.__qualname__):
            return kind
    base = next((kind for kind in raises if _name(kind) == saved.declared), None)
    if base is None:
        return None
    return next((kind for kind in _below(base) if _is_class_of(kind, saved)), base)


def _find_failure(saved: ErrorRecord) -> type[Failure] | None:
    known = list(_below(Failure))
    exact = [kind for kind in known if _is_class_of(kind, saved)]
    # A class that moved to another module still counts as the same failure, if its name is unique.
    named = [kind for kind in known if kind.__qualname__ == saved.type]
    found = exact or (named if len({kind.__module__ for kind in named}) == 1 else [])
    return found[-1] if found else None  # the last declared class, if a test declares several


def _is_class_of(kind: type, saved: ErrorRecord) -> bool:
    return (kind.__module__, kind.__qualname__) == (saved.module, saved.type)


def _below(base: type[T]) -> Iterator[type[T]]:
    for kind in type.__subclasses__(base):
        yield kind
        yield from _below(kind)


# -- texts --


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _size(saved: ErrorRecord) -> int:
    return len(saved.model_dump_json().encode())


def _brief(saved: ErrorRecord) -> ErrorRecord:
    return ErrorRecord(type=saved.type[:MAX_BRIEF], message=saved.message[:MAX_BRIEF] + "… [cut]")


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


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False
