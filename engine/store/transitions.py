"""The transitions of the exec document that a store makes by itself, whatever else is written meanwhile.

A driver changes the exec document under its etag, from the version that it read (the methods of `Execution`). The
outside has no version in hand. So its transitions are values: a guard and the changes of fields. SQLite applies them to
the document in its transaction; Cosmos DB gets the patch operations and the predicate that follow from them.

Rules:
1. An inbox item is added to a running execution. `wake` and `inboxCount` grow by one. `dueAt` becomes now.
2. A running execution that isn't interrupted yet may be interrupted. `interrupted` is set, and `wake` grows by one.
   `dueAt` becomes now.
3. A complete execution may be marked for its purge, under its etag as well: it becomes due.
4. Transitions 1 and 2 set `updatedAt` to now. Transition 3 keeps it: nothing has happened to the execution.
5. A transition whose guard doesn't hold changes nothing. To apply it is an IllegalTransition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic.alias_generators import to_camel

from engine.ground.errors import Conflict
from engine.store.documents import Execution

Guard = Mapping[str, str | bool]
"""The fields of the exec document that decide, each with the value that it must have."""

IS_RUNNING: Guard = {"status": "running"}
CAN_BE_INTERRUPTED: Guard = {"status": "running", "interrupted": False}
IS_COMPLETE: Guard = {"status": "complete"}


class IllegalTransition(Conflict):
    """The exec document is in a state that doesn't allow this transition."""


@dataclass(frozen=True)
class Transition:
    """One change of the exec document. Fields have their Python names."""

    name: str
    guard: Guard
    set: Mapping[str, Any] = field(default_factory=dict)
    """Fields, each with its new value."""
    increment: tuple[str, ...] = ()
    """Fields that grow by one."""

    def is_allowed(self, execution: Execution) -> bool:
        """Whether the guard holds."""
        return all(getattr(execution, name) == value for name, value in self.guard.items())

    def apply(self, execution: Execution) -> Execution:
        """The execution after the transition. Raises IllegalTransition if the guard doesn't hold."""
        if not self.is_allowed(execution):
            state = ", ".join(f"{name} is {getattr(execution, name)!r}" for name in self.guard)
            raise IllegalTransition(f"execution {execution.execution_id} doesn't allow to {self.name}: {state}")
        grown = {name: getattr(execution, name) + 1 for name in self.increment}
        return execution.model_copy(update={**self.set, **grown})


def add_inbox_item(now: datetime) -> Transition:
    """Rule 1."""
    return Transition(
        "add an inbox item", IS_RUNNING, {"due_at": now, "updated_at": now}, increment=("wake", "inbox_count")
    )


def interrupt(now: datetime) -> Transition:
    """Rule 2."""
    changes = {"interrupted": True, "due_at": now, "updated_at": now}
    return Transition("interrupt it", CAN_BE_INTERRUPTED, changes, increment=("wake",))


def mark_for_purge(execution: Execution) -> Transition:
    """Rule 3. The document becomes due as of its end, so that the sweep finishes a purge that died half way."""
    return Transition("purge it", IS_COMPLETE, {"due_at": execution.completed_at or execution.updated_at})


def stored_name(name: str) -> str:
    """The name that a field has in stored documents."""
    return to_camel(name)
