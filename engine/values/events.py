"""What a history can say. Events are recorded in the order in which the workflow saw them.

Rules:
1. A recorded event never changes. A new kind may be added; a field may be added with a default.
2. `step` names what the event answers: an activity's name, `name#2` for its second call, and so on; `timer`,
   `timer#2`; a deferred's name. Steps are numbered in the order in which the workflow asked for them.
3. `digest` is a fingerprint of what was asked, so that an answer can't reach another question. The first event of a
   step also holds the `input` itself, as JSON text by name, unless that is large.
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
    """A step came to its end: `value` (JSON text) or `error`; a timer has neither."""

    step: str
    digest: str
    at: Instant
    kind: StepKind
    value: str | None = None
    error: ErrorRecord | None = None
    item: str | None = None
    """The inbox document that a channel's value came in."""
    input: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt of an activity failed and the next one is due at `retry_at`. The workflow doesn't see it."""

    step: str
    digest: str
    at: Instant
    attempt: int
    error: ErrorRecord
    retry_at: Annotated[Instant, Field(alias="retryAt")]
    kind: Literal["attempt"] = "attempt"
    input: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class StepHeld:
    """An activity failed for good, and its workflow is one that is held then. The workflow doesn't see it. The next
    driver runs the step again, with all its attempts."""

    step: str
    digest: str
    at: Instant
    error: ErrorRecord
    kind: Literal["held"] = "held"
    input: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A child that is waited for exists. The workflow doesn't see it."""

    step: str
    digest: str
    at: Instant
    kind: Literal["begun"] = "begun"
    input: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The interrupt reached the workflow, as a cancellation of its task."""

    at: Instant
    kind: Literal["interrupted"] = "interrupted"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Takeover:
    """A driver found the lease expired and sealed the log against the one before it."""

    at: Instant
    worker: str
    kind: Literal["takeover"] = "takeover"


@dataclass(frozen=True, slots=True)
class Restarted:
    """The first event of a run that a restart began. `payload` is JSON text."""

    at: Instant
    payload: str
    kind: Literal["restarted"] = "restarted"


@dataclass(frozen=True, slots=True)
class Reopened:
    """An execution that had ended runs again: of the events before this one, only the first `kept` still count."""

    at: Instant
    kept: int
    kind: Literal["reopened"] = "reopened"


@dataclass(frozen=True, slots=True)
class Patched:
    """From `turn` on (the number of the event after which the code asked; 0 is the beginning) the run goes by this
    change of its code. `deprecated`: the code no longer had the other way, and may stop asking."""

    at: Instant
    patch: str
    turn: int
    deprecated: bool = False
    kind: Literal["patched"] = "patched"


Event = StepResolved | AttemptFailed | StepHeld | Begun | Interrupted | Takeover | Restarted | Reopened | Patched

_events: TypeAdapter[list[Event]] = TypeAdapter(list[Annotated[Event, Field(discriminator="kind")]])


def dump_events(events: list[Event]) -> list[dict[str, Any]]:
    """Events as a document keeps them."""
    dumped: list[dict[str, Any]] = _events.dump_python(events, mode="json", exclude_none=True, by_alias=True)
    return dumped


def effective(events: Iterable[Event]) -> list[Event]:
    """The events that count: without those that a Reopened took back, and without itself."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event, Reopened):
            del kept[event.kept :]
        else:
            kept.append(event)
    return kept


def load_events(data: list[dict[str, Any]]) -> list[Event]:
    """The events of a document. Raises pydantic's ValidationError on what no version of this engine wrote."""
    return list(_events.validate_python(data))
