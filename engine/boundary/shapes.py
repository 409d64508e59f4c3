"""The JSON form of answers, with one model for each. The description of the API is made from the same models.

Rules:
1. Names are camelCase, and absent values are left out.
2. Values are plain JSON data, with fields under their aliases.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from engine.core.trace import Line
from engine.ground.clock import Instant
from engine.store.documents import ForkedFrom
from engine.values.codec import Codec
from engine.values.error_records import ErrorRecord, shown_data
from engine.values.outcome import OutcomeKind
from engine.values.unseen import plain_json

MAX_SHORT, MAX_BRIEF = 4_096, 256
"""The most characters of a value's JSON text in lists."""


class Shape(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, validate_by_name=True)

    def to_json(self) -> dict[str, Any]:
        """The answer as plain JSON data."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class ErrorShape(Shape):
    """An error, without its traceback."""

    type: str
    message: str
    data: Any = None
    notes: list[str] | None = None
    exceptions: list[ErrorShape] | None = None
    """The errors of a group."""
    cause: ErrorShape | None = None

    @classmethod
    def of(cls, error: ErrorRecord) -> Self:
        """The shape of a recorded error."""
        return cls(
            type=error.type,
            message=error.message,
            data=shown_data(error),
            notes=list(error.notes) or None,
            exceptions=[cls.of(inner) for inner in error.exceptions] or None,
            cause=None if error.cause is None else cls.of(error.cause),
        )


class LineShape(Shape):
    """A place in the workflow's source."""

    file: str
    line: int
    function: str

    @classmethod
    def of(cls, line: Line) -> Self:
        """The shape of a line."""
        return cls(file=line.file, line=line.line, function=line.function)


class ValueShape(Shape):
    """A value in a list of many: the `value` itself, or only its `size` if the value is too large."""

    value: Any = None
    size: int = Field(description="Characters of the value's JSON text.")

    @classmethod
    def of(cls, text: str, most: float = MAX_SHORT, codec: Codec | None = None) -> Self:
        """The shape of stored text, whose type `codec` knows. It holds the value if the text has no more than `most`
        characters."""
        if len(text) > most:
            return cls(size=len(text))
        return cls(value=plain_json(text) if codec is None else codec.shown(text), size=len(text))


class ChildShape(Shape):
    """A child as its parent's step sees it. `status` is left out if the child doesn't exist. `leftAlone`: why this app
    doesn't drive the child."""

    execution_id: str
    workflow: str
    status: str | None = None
    outcome: str | None = None
    suspended: bool | None = None
    left_alone: str | None = None


class StepShape(Shape):
    """A step that the workflow's code asked for.

    state: `open`, `resolved` or `dropped` (the code no longer waits for it).
    stack: where the code asked, the innermost line first.
    """

    kind: str
    step: str
    name: str = Field(description="Of the activity, deferred, channel or workflow; `timer` for a timer.")
    state: str
    since: Instant
    ended_at: Instant | None = None
    stack: list[LineShape]
    attempt: int | None = Field(default=None, description="The attempt that runs or comes next.")
    last_error: ErrorShape | None = None
    next_try_at: Instant | None = None
    details: ValueShape | None = Field(default=None, description="Of the activity's last heartbeat.")
    held_back_by: str | None = Field(default=None, description="The limits for which the activity waits.")
    due_at: Instant | None = None
    json_schema: dict[str, Any] | None = Field(
        default=None, alias="schema", description="JSON Schema of the value that is awaited from outside."
    )
    child: ChildShape | None = None


class StepsShape(Shape):
    """Steps in the order in which the code asked for them. `problem`: why some steps may be missing."""

    execution_id: str
    steps: list[StepShape]
    problem: str | None = None
    continuation: str | None = None


class ForkedFromShape(Shape):
    """Where a fork comes from: the original and the step. `edited`: it was given another payload. `results`: the steps
    that were given other results."""

    execution_id: str
    step: str
    edited: bool | None = None
    results: list[str] | None = None
    by: str | None = None
    reason: str | None = None

    @classmethod
    def of(cls, origin: ForkedFrom) -> Self:
        """The shape of a stored origin."""
        return cls(
            execution_id=origin.execution_id,
            step=origin.step,
            edited=origin.edited or None,
            results=[*origin.results] or None,
            by=origin.by,
            reason=origin.reason,
        )


class EventShape(Shape):
    """An event of the history. An event of a step says since when the code waited, and from which line."""

    number: int
    kind: str
    at: Instant
    step: str | None = None
    since: Instant | None = None
    duration_seconds: float | None = None
    attempt: int | None = None
    retry_at: Instant | None = None
    result: ValueShape | None = None
    error: ErrorShape | None = None
    worker: str | None = None
    patch: str | None = None
    child: str | None = Field(default=None, description="The execution id of the child.")
    original: str | None = Field(
        default=None, description="The execution id of the original, in whose history the events before are recorded."
    )
    by: str | None = Field(default=None, description="Who asked for the fork.")
    reason: str | None = Field(default=None, description="The reason of the fork or the interrupt.")
    stack: list[LineShape] | None = None


class HistoryShape(Shape):
    """A page of the history, the oldest event first. `problem`: why times and lines may be missing."""

    execution_id: str
    payload: ValueShape | None = None
    length: int = Field(description="Events of the whole history.")
    events: list[EventShape]
    problem: str | None = None
    continuation: str | None = None


class RelativeShape(Shape):
    """An execution in a family."""

    execution_id: str
    workflow: str | None = None
    step: str | None = Field(default=None, description="The step of the parent that asked for it.")
    status: str = Field(description="`running`, `complete`, or `missing` if it is not stored.")
    outcome: str | None = None
    suspended: bool | None = None
    created_at: Instant | None = None
    completed_at: Instant | None = None
    children: list[RelativeShape] = []
    problem: str | None = None


class FamilyShape(Shape):
    """The tree that an execution belongs to, from the first of its creators. `truncated`: the tree has more
    executions."""

    execution_id: str
    root: RelativeShape
    parents: list[str] = Field(description="The executions that wait for this one.")
    truncated: bool = False


class ExecutionShape(Shape):
    """How an execution stands."""

    execution_id: str
    workflow: str
    version: str
    status: Literal["running", "complete"]
    outcome: OutcomeKind | None = None
    suspended: bool
    interrupted: bool
    interrupt_reason: str | None = None
    interrupted_by: str | None = None
    cause: ErrorShape | None = None
    error: ErrorShape | None = None
    compensation_errors: list[ErrorShape] | None = None
    leftovers: list[str] | None = None
    unread_values: int | None = None
    tags: dict[str, str] | None = None
    custom_status: Any = Field(default=None, description="What the workflow's code showed last.")
    created_at: Instant
    updated_at: Instant
    completed_at: Instant | None = None
    due_at: Instant | None = None
    left_alone: str | None = None
    heartbeats: dict[str, Any] | None = None
    forked_from: ForkedFromShape | None = None
    result: Any = None
    links: dict[str, str] | None = None
    pending: list[StepShape] | None = None
    pending_problem: str | None = None


class ListShape(Shape):
    """A page of executions, the newest first. `slow`: fields of the filter that no index serves."""

    executions: list[ExecutionShape]
    slow: list[str] | None = None
    continuation: str | None = None


class CountsShape(Shape):
    """How many executions there are in each state. `stuck` are running as well."""

    running: int
    stuck: int
    completed: int
    failed: int
    interrupted: int
    terminated: int


class HealthShape(Shape):
    """How the app stands: see `engine.boundary.health`."""

    status: Literal["ok", "attention"]
    overdue_seconds: float
    stuck: dict[str, int]
    left_alone: dict[str, int]
    unreadable: dict[str, str]


class TokenShape(Shape):
    """A signed token, and the address that takes it."""

    token: str
    url: str


class FieldShape(Shape):
    """A field of the input that is at fault."""

    field: str
    problem: str


class ProblemShape(Shape):
    """Problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    fields: list[FieldShape] | None = None
    position: int | None = None
    first: Any = None
