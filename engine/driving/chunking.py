"""Divides events into groups, each of which fits into one chunk of the history."""

from __future__ import annotations

from collections.abc import Iterable

from engine.values.codec import stored_size
from engine.values.events import AttemptFailed, Begun, Event, StepHeld, StepResolved

MAX_CHUNK_BYTES = 900_000
"""The most bytes of values in a chunk, unless one event alone is larger. A chunk and the exec document must fit into
one transaction of 2 MB."""


def grouped(events: Iterable[Event]) -> list[list[Event]]:
    """Events in groups, each small enough for one chunk."""
    groups: list[list[Event]] = []
    room = 0
    for event in events:
        size = size_of(event)
        if not groups or size > room:
            groups.append([])
            room = MAX_CHUNK_BYTES
        groups[-1].append(event)
        room -= size
    return groups


def size_of(event: Event) -> int:
    """The approximate size of an event in a chunk, in bytes."""
    size = 200 + (stored_size(event.value or "") if isinstance(event, StepResolved) else 0)
    if isinstance(event, StepResolved | AttemptFailed | StepHeld) and event.error is not None:
        size += len(event.error.model_dump_json().encode())
    if isinstance(event, StepResolved | AttemptFailed | StepHeld | Begun) and event.input is not None:
        size += sum(stored_size(text) for text in event.input.values())
    if isinstance(event, AttemptFailed | StepHeld):
        size += stored_size(event.details or "")
    return size
