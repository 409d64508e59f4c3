"""Partial document update: add, set, replace, remove, incr, move.

https://learn.microsoft.com/azure/cosmos-db/partial-document-update gives the operations and
https://learn.microsoft.com/azure/cosmos-db/partial-document-update-faq the limits: ten operations, no system
properties. Paths are JSON pointers (`~0` and `~1` escape `~` and `/`; `-` is the place after an array's end).
Where the pages leave a case open, the double refuses it: a parent that is missing, an id or a partition key that
would change.
"""

import copy
from collections.abc import Callable
from math import isfinite
from typing import Any

from .errors import bad_request
from .indexing import Segments
from .rules import SYSTEM_PROPERTIES
from .wire import number

MAX_OPERATIONS = 10
_FIELDS = {
    "add": {"op", "path", "value"},
    "set": {"op", "path", "value"},
    "replace": {"op", "path", "value"},
    "remove": {"op", "path"},
    "incr": {"op", "path", "value"},
    "move": {"op", "path", "from"},
}


def apply(body: dict[str, Any], operations: Any, key_path: Segments) -> dict[str, Any]:
    """A changed copy of `body`; all operations or none."""
    if not isinstance(operations, list) or not operations:
        raise bad_request("A patch needs a list of operations.")
    if len(operations) > MAX_OPERATIONS:
        raise bad_request(f"The number of patch operations can't exceed '{MAX_OPERATIONS}'.")
    result = copy.deepcopy(body)
    for position, operation in enumerate(operations, 1):
        _check(operation, position, key_path)
        try:
            _HANDLERS[operation["op"]](result, operation)
        except _Refused as reason:
            raise bad_request(f"For Operation({position}): {reason}") from None
    return result


class _Refused(Exception):
    pass


def _check(operation: Any, position: int, key_path: Segments) -> None:
    name = operation.get("op") if isinstance(operation, dict) else None
    if name not in _FIELDS:
        raise bad_request(f"For Operation({position}): the operation type {name!r} is not supported.")
    if set(operation) != _FIELDS[name]:
        raise bad_request(f"For Operation({position}): {name!r} takes exactly {sorted(_FIELDS[name])}.")
    for member in ("path", "from"):
        if member not in operation:
            continue
        pointer = operation[member]
        if not isinstance(pointer, str) or not pointer.startswith("/") or pointer == "/":
            raise bad_request(f"For Operation({position}): the path {pointer!r} is invalid.")
        segments = _segments(pointer)
        if segments[0] in ("id", *SYSTEM_PROPERTIES):
            raise bad_request(f"For Operation({position}): the system property {segments[0]!r} can't be patched.")
        if segments == key_path[: len(segments)] or key_path == segments[: len(key_path)]:
            raise bad_request(f"For Operation({position}): the partition key {pointer!r} can't be patched.")


def _segments(pointer: str) -> Segments:
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def _parent(body: Any, segments: Segments) -> Any:
    """The object or array that holds the target; it must be there."""
    current = body
    for segment in segments[:-1]:
        if isinstance(current, dict) and segment in current:
            current = current[segment]
        elif isinstance(current, list) and _index(segment, len(current)) is not None:
            current = current[int(segment)]
        else:
            raise _Refused(f"the parent of the path /{'/'.join(segments)} does not exist.")
    if not isinstance(current, dict | list):
        raise _Refused(f"the parent of the path /{'/'.join(segments)} is neither an object nor an array.")
    return current


def _index(segment: str, length: int) -> int | None:
    """A valid index of an element that exists."""
    if not segment.isascii() or not segment.isdigit() or (segment != "0" and segment.startswith("0")):
        return None
    return int(segment) if int(segment) < length else None


def _exists(parent: Any, name: str) -> bool:
    return name in parent if isinstance(parent, dict) else _index(name, len(parent)) is not None


def _insert(body: Any, segments: Segments, value: Any, *, shift: bool) -> None:
    """Put a value at a path: `add` shifts an array to the right, `set` overwrites the element."""
    parent, name = _parent(body, segments), segments[-1]
    if isinstance(parent, dict):
        parent[name] = value
    elif name == "-" or name == str(len(parent)):
        parent.append(value)
    elif _index(name, len(parent)) is None:
        raise _Refused(f"the array index {name!r} is out of bounds.")
    elif shift:
        parent.insert(int(name), value)
    else:
        parent[int(name)] = value


def _add(body: Any, operation: dict[str, Any]) -> None:
    _insert(body, _segments(operation["path"]), copy.deepcopy(operation["value"]), shift=True)


def _set(body: Any, operation: dict[str, Any]) -> None:
    _insert(body, _segments(operation["path"]), copy.deepcopy(operation["value"]), shift=False)


def _replace(body: Any, operation: dict[str, Any]) -> None:
    segments = _segments(operation["path"])
    if not _exists(_parent(body, segments), segments[-1]):
        raise _Refused("Replace Operation can only be performed on existing path.")
    _set(body, operation)


def _remove(body: Any, operation: dict[str, Any]) -> Any:
    return _take(body, _segments(operation["path"]), "Remove")


def _take(body: Any, segments: Segments, verb: str) -> Any:
    parent, name = _parent(body, segments), segments[-1]
    if not _exists(parent, name):
        raise _Refused(f"{verb} Operation can only be performed on existing path.")
    return parent.pop(name if isinstance(parent, dict) else int(name))


def _incr(body: Any, operation: dict[str, Any]) -> None:
    amount = operation["value"]
    if not _is_number(amount):
        raise _Refused(f"the value {amount!r} of an increment is not a number.")
    segments = _segments(operation["path"])
    parent, name = _parent(body, segments), segments[-1]
    if not _exists(parent, name):
        _insert(body, segments, amount, shift=True)
        return
    place: Any = name if isinstance(parent, dict) else int(name)
    if not _is_number(parent[place]):
        raise _Refused("the target of an increment is not a number.")
    total = float(parent[place]) + float(amount)
    if not isfinite(total):
        raise _Refused("the increment leaves the range of a number.")
    parent[place] = number(total)


def _move(body: Any, operation: dict[str, Any]) -> None:
    source, target = _segments(operation["from"]), _segments(operation["path"])
    if target[: len(source)] == source:
        raise _Refused("the path of a move can't be the moved value or lie inside it.")
    _insert(body, target, _take(body, source, "Move"), shift=True)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_HANDLERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "add": _add,
    "set": _set,
    "replace": _replace,
    "remove": _remove,
    "incr": _incr,
    "move": _move,
}
