"""The recorded input of a step, and how it differs from the input of today's code.

Rules:
1. The first event of a step records the step's input as JSON text, by name. A large input is known by its digest alone.
2. Two inputs are the same if today's types read the same data from both. So a field may get a new name with an alias,
   and a type may become wider, while executions are suspended.
3. A difference names its place, the recorded value, and the value that the code asks with now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from engine.ground.errors import DecodingError

MAX_INPUT = 2_048
"""The most characters of an input that is recorded. This is how much a step's record may grow by its input."""
MAX_SHOWN = 60
"""The most characters of a value in a message."""

NOTHING: Any = object()
"""Stands for a value that one of two inputs lacks."""


def recordable(input: Mapping[str, str]) -> dict[str, str] | None:
    """The input as an event records it. None if the step has no input, or if the input is too large."""
    size = sum(len(name) + len(text) for name, text in input.items())
    return dict(input) if input and size <= MAX_INPUT else None


def differences(read: Callable[[str], Any], recorded: str, found: str, path: str) -> Iterator[str]:
    """Where two stored texts of one place differ. `read` gives the plain data that today's type reads from a text."""
    if recorded == found:
        return
    try:
        before = read(recorded)
    except DecodingError as error:
        yield f"{path}: what is recorded doesn't fit: {error}"
        return
    yield from unequal(before, read(found), path)


def unequal(before: Any, now: Any, path: str) -> Iterator[str]:
    """Where two pieces of plain data differ: the place, the recorded value, and the value now."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            yield from unequal(before.get(key, NOTHING), now.get(key, NOTHING), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from unequal(one, other, f"{path}.{number}")
    elif before is NOTHING or now is NOTHING or before != now:
        yield f"{path}: recorded {_shown(before)}, now {_shown(now)}"


def _shown(value: Any) -> str:
    text = "nothing" if value is NOTHING else repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
