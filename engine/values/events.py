"""The events of a history. They are recorded in the order in which the workflow saw them.

Rules:
1. A recorded event never changes. A later version may add a kind of event, or a field with a default.
2. `step` is the id of the step: an activity's name, `name#2` for its second call, and so on; `timer`, `timer#2`; or a
   deferred's name. Steps are numbered in the order in which the workflow asked for them.
3. `digest` is a fingerprint of the step's input, so that a result can't reach a step with another input. The first
   event of a step also holds the `input` itself, as JSON text by name, unless the input is large.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from engine.ground.clock import Instant
from engine.values.error_records import ErrorRecord

StepKind = Literal["activity", "timer", "deferred", "child", "channel"]
"""The kinds of steps that a workflow waits for."""


@dataclass(frozen=True, slots=True)
class StepResolved:
    """A step ended with a `value` (JSON text) or an `error`. A timer has neither."""

    step: str
    digest: str
    at: Instant
    kind: StepKind
    value: str | None = None
    error: ErrorRecord | None = None
    item: str | None = None
    """The id of the inbox document that held a channel's value."""
    input: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt of an activity failed, and the next one is due at `retry_at`. The workflow doesn't see this event."""

    step: str
    digest: str
    at: Instant
    attempt: int
    error: ErrorRecord
    retry_at: Annotated[Instant, Field(alias="retryAt")]
    kind: Literal["attempt"] = "attempt"
    input: dict[str, str] | None = None
    details: str | None = None
    """The details of the step's last heartbeat, as JSON text."""


@dataclass(frozen=True, slots=True)
class StepHeld:
    """An activity failed for good, and its workflow has `suspend_on_failure`. The workflow doesn't see this event. The
    next driver runs the step again, with all its attempts."""

    step: str
    digest: str
    at: Instant
    error: ErrorRecord
    kind: Literal["held"] = "held"
    input: dict[str, str] | None = None
    details: str | None = None
    """As in AttemptFailed."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The child that a step waits for exists. The workflow doesn't see this event. In an execution that is reopened, a
    step asks for its child again: `reopenings` says how often the execution had been reopened by then. None: never."""

    step: str
    digest: str
    at: Instant
    kind: Literal["begun"] = "begun"
    input: dict[str, str] | None = None
    reopenings: int | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The interrupt reached the workflow, as a cancellation of its task."""

    at: Instant
    kind: Literal["interrupted"] = "interrupted"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Takeover:
    """A driver found an expired lease, and sealed the log against the driver before it."""

    at: Instant
    worker: str
    kind: Literal["takeover"] = "takeover"


@dataclass(frozen=True, slots=True)
class Restarted:
    """The first event of a run that a restart began. `payload` is JSON text."""

    at: Instant
    payload: str
    read: tuple[str, ...] = ()
    """The write ids of the inbox items that the run before has read. They are deleted; a lagging replica may show
    them."""
    kind: Literal["restarted"] = "restarted"


@dataclass(frozen=True, slots=True)
class Reopened:
    """An execution that had ended runs again. Of the events before this one, only the first `kept` still count."""

    at: Instant
    kept: int
    kind: Literal["reopened"] = "reopened"


@dataclass(frozen=True, slots=True)
class Forked:
    """The events before this one, since the Forked before, come from the history of the original `execution_id`.

    run_id, ancestors: of the original. Its code asked for its steps under them, so the replay does the same.
    started_at: the time that the code of the first original saw at its beginning.
    turn: the last turn of the taken-over code. It is run anew: from there on, the code asks as the fork.
    step: the step from which the execution was forked.
    by: who asked for the fork, if callers sign in. `reason`: why, if a reason was given.
    """

    at: Instant
    execution_id: Annotated[str, Field(alias="executionId")]
    run_id: Annotated[str | None, Field(alias="runId")]
    ancestors: tuple[str, ...]
    started_at: Annotated[Instant, Field(alias="startedAt")]
    turn: int
    step: str
    kind: Literal["forked"] = "forked"
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Patched:
    """From `turn` on, the run follows this change of its code. `turn` is the number of the event after which the code
    asked; 0 is the beginning. `deprecated`: the code had already lost the old branch, so it may stop asking."""

    at: Instant
    patch: str
    turn: int
    deprecated: bool = False
    kind: Literal["patched"] = "patched"


Event = (
    StepResolved | AttemptFailed | StepHeld | Begun | Interrupted | Takeover | Restarted | Reopened | Forked | Patched
)

_events: TypeAdapter[list[Event]] = TypeAdapter(list[Annotated[Event, Field(discriminator="kind")]])


def dump_events(events: list[Event]) -> list[dict[str, Any]]:
    """Events in their stored form."""
    dumped: list[dict[str, Any]] = _events.dump_python(events, mode="json", exclude_none=True, by_alias=True)
    return dumped


def effective(events: Iterable[Event]) -> list[Event]:
    """The events that count: all except each Reopened event and the events that it took back."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event, Reopened):
            del kept[event.kept :]
        else:
            kept.append(event)
    return kept


def load_events(data: list[dict[str, Any]]) -> list[Event]:
    """The events of a document. Raises pydantic's ValidationError for events that this version doesn't know."""
    return list(_events.validate_python(data))
