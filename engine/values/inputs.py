"""What a step asked for, as the history records it, and where that differs from what today's code asks for.

Rules:
1. The first event of a step records the step's input as JSON text, by name. A large input is known by its digest alone.
2. Two inputs are the same if today's types read the same from both. So a field may be renamed under an alias, or a type
   become wider, while executions sleep.
3. A difference names its place, what is recorded, and what the code asks for now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from engine.ground.errors import DecodingError

MAX_INPUT = 2_048
"""Characters of an input that is recorded. It is stored beside the result, so this is what a step may cost more."""
MAX_SHOWN = 60
"""Characters of a value in a message."""

NOTHING: Any = object()
"""Stands where one of two inputs has no value."""


def recordable(input: Mapping[str, str]) -> dict[str, str] | None:
    """The input as an event records it; None if there is none, or if it is too large."""
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
    """Where two pieces of plain data differ: the place, what was recorded, and what the code asks for now."""
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
