"""The exception classes that keep their identity between executions: across a child's end, and in a handle's result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.core.activity import Activity
from engine.core.messages import REFUSALS
from engine.values.error_records import ErrorClasses


def declared_errors(activities: Iterable[Activity[Any, Any]]) -> ErrorClasses:
    """The classes that these activities name in `raises=`, and the refusals of messages, subclasses first.

    `Exception` itself is left out: as it covers every class, one activity would decide how each child's error comes
    back.
    """
    named = {kind for activity in activities for kind in activity.raises if kind is not Exception}
    return tuple(
        sorted(named | set(REFUSALS), key=lambda kind: (-len(kind.__mro__), kind.__module__, kind.__qualname__))
    )
