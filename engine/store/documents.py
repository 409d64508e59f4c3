"""The documents of an execution.

One container, partition key `/executionId`. Fields are camelCase in the documents; system fields begin with `_`.

| id                     | written                                                                        |
| ---                    | ---                                                                            |
| `exec`                 | created once; replaced under its etag; patched by signals                      |
| `history::<8 digits>`  | created only: the log has one total order, and the loser of a race notices.    |
|                        | The last chunk of an execution that has ended may lie in `exec`, as `lastEvents` |
| `deferred::<name>`     | created only: the first writer wins                                            |
| `child::<step>::<runId>` | created only, by the child, in its parent's partition. For a parent that was   |
|                        | reopened, `.<reopenings>` follows                                              |
| `channel::<name>::<…>` | created only: one for each value                                               |
| `limit`                | in a partition of its own, one for each activity and key that has a limit:     |
|                        | replaced under its etag (`limit_state.py`)                                     |
| `input`, `output`      | created only: a payload or result that is too large for the exec document      |

`transitions.py` says how the exec document may change. Its fields depend on each other:
1. The driver holds `worker` (a fresh token for each drive) and `leaseExpiresAt`. A `worker` without a live lease means
   that the driver before may still be writing. The next driver then seals the log.
2. `wake` grows with every piece of news. `seen_wake` is the `wake` that the driver had taken in when it let go.
3. `dueAt` is the time at which somebody must look at the execution, if nothing has happened before.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote, unquote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from engine.ground.clock import Instant
from engine.ground.errors import DecodingError, LaterEngine, Unreadable
from engine.values.error_records import ErrorRecord
from engine.values.events import Event, Restarted, StepResolved, dump_events, load_events
from engine.values.logic_flags import unknown
from engine.values.outcome import OutcomeKind
from engine.values.unseen import problem_of

SCHEMA = 1
"""The version of these documents. A driver leaves alone an execution of a later version."""
EXEC = "exec"
INPUT = "input"
OUTPUT = "output"
CHUNK = "history::"
"""The beginning of the ids of chunks."""
INBOX = ("deferred::", "child::", "channel::")
"""The beginnings of the ids of inbox documents."""
INLINE_BYTES = 4_096
"""Payloads and results above this many characters get their own document, because `exec` is rewritten often."""
MAX_ID_BYTES = 1_023
"""The most bytes of a document's id (https://learn.microsoft.com/azure/cosmos-db/concepts-limits)."""

Document = dict[str, Any]


STORED = {"stored": True}
"""The pydantic context that marks the validation of a stored document."""


def _is_json(text: str, info: ValidationInfo) -> str:
    if info.context == STORED and (problem := problem_of(text)) is not None:
        raise ValueError(problem)
    return text


JsonText = Annotated[str, AfterValidator(_is_json)]
"""The stored text of a value. It is checked when it is read."""


class Record(BaseModel):
    """Base of all documents. Names are camelCase in the store. Fields that a later version added survive a rewrite."""

    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel, validate_by_name=True)

    id: str
    execution_id: str
    write_id: str = ""
    """A fresh id for each write. With it, a writer whose answer was lost recognises its own write."""

    def to_document(self) -> Document:
        """The document to store, without system fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"etag"})

    @classmethod
    def from_document(cls, document: Document) -> Self:
        """The record in a stored document. Raises DecodingError, or Unreadable for an exec document. The message names
        the document and the problem."""
        fields = {name: value for name, value in document.items() if not name.startswith("_")}
        try:
            return cls.model_validate(fields, context=STORED)
        except ValidationError as error:
            raise unreadable(
                str(document.get("executionId")), str(document.get("id", cls.default_id())), _problems(error)
            ) from None

    @classmethod
    def default_id(cls) -> str | None:
        """The id of all documents of this kind, if they share one. Otherwise None."""
        default: object = cls.model_fields["id"].default
        return default if isinstance(default, str) else None

    def with_write_id(self) -> Self:
        """The same record with a fresh write id."""
        return self.model_copy(update={"write_id": new_write_id()})


class Parent(BaseModel):
    """A parent that waits for a child: its execution and the step in it."""

    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel, validate_by_name=True)

    execution_id: str
    step: str
    run_id: str | None = None
    """The run of the parent. If that run was purged, the child's exit means nothing to the next run."""
    reopenings: int = Field(default=0, exclude_if=lambda count: not count)
    """How often the parent had been reopened when it asked. A parent that is reopened asks again, and an exit that
    answers the time before means nothing to it."""


class Heartbeat(BaseModel):
    """How far an activity had come, by its own account: its details, as JSON text, and the attempt that gave them."""

    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel, validate_by_name=True)

    attempt: int
    details: JsonText


class ForkedFrom(BaseModel):
    """Where a fork comes from: the original, its run, and the step. `edited`: the fork was given another payload.
    `results`: the steps that were given other results, each with the digest of its result. `by`: who asked for it, if
    callers sign in. `reason`: why, if a reason was given."""

    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel, validate_by_name=True)

    execution_id: str
    run_id: str | None = None
    step: str
    edited: bool = False
    results: dict[str, str] = Field(default={}, exclude_if=lambda results: not results)
    by: str | None = None
    reason: str | None = None


class Execution(Record):
    """The exec document."""

    id: Literal["exec"] = "exec"
    schema_version: int = Field(default=SCHEMA, alias="schema")
    workflow: str
    version: str
    run_id: str | None = None
    """Tells this run from an earlier run with the same id, which was purged or ended by a restart."""
    logic_flags: tuple[str, ...] = Field(default=(), exclude_if=lambda flags: not flags)
    """The logic flags of the engine that created the execution. Later engines run its code in the same way."""
    payload: JsonText | None = None
    """JSON text. None if it is large. Then it is in the `input` document, or in the event that began the run."""
    parents: tuple[Parent, ...] = ()
    """The parents that wait for its end."""
    parents_notified: bool = Field(default=False, exclude_if=lambda notified: not notified)
    """Whether all parents have its exit."""
    creator: str | None = None
    """The execution that started it as a child."""
    ancestors: tuple[str, ...] = ()
    """The executions that wait for it, directly or through others, and the one that started it without waiting. It
    must not wait for any of them."""
    forked_from: ForkedFrom | None = None
    """The execution whose history it took over, if it is a fork."""
    tags: dict[str, str] = {}
    custom_status: JsonText | None = None
    """What the workflow's code shows of itself, as JSON text."""
    status: Literal["running", "complete"] = "running"
    suspended: bool = False
    interrupted: bool = False
    interrupt_reason: str | None = None
    interrupted_by: str | None = Field(default=None, exclude_if=lambda by: by is None)
    """The caller who interrupted it, if callers sign in."""
    cause: ErrorRecord | None = None
    """Why the execution is suspended, if it doesn't simply wait."""
    outcome: OutcomeKind | None = None
    completed_result: JsonText | None = None
    """JSON text. None if it is in the `output` document."""
    error: ErrorRecord | None = None
    compensation_errors: tuple[ErrorRecord, ...] = ()
    """The errors of compensations and finalizers."""
    leftovers: tuple[str, ...] = Field(default=(), exclude_if=lambda leftovers: not leftovers)
    """What its code left behind at its end: tasks whose failure nobody saw, and unfinished steps and tasks."""
    undone: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """The compensations that had begun at its end, by name."""
    ended_at: int | None = None
    """The number of events when its own code ended. `retry` keeps no more events than that."""
    purging: bool = Field(default=False, exclude_if=lambda purging: not purging)
    """Whether its purge has begun."""
    unread_values: int = Field(default=0, exclude_if=lambda unread: not unread)
    """How many channel values had arrived by its end, and were never received."""
    retention_seconds: float | None = None
    """How long it is kept after its end. None: for ever."""
    traceparent: str | None = Field(default=None, exclude_if=lambda traceparent: traceparent is None)
    """The span in which it was started, in the format of W3C trace context."""
    worker: str | None = None
    lease_expires_at: Instant | None = None
    due_at: Instant | None = None
    wake: int = 0
    seen_wake: int = 0
    inbox_count: int = 0
    history_start: int = Field(default=0, exclude_if=lambda start: not start)
    """The first chunk of this run. Those before it belong to runs that a restart ended."""
    stale_from: int = Field(default=0, exclude_if=lambda start: not start)
    """The first chunk before `history_start` that is not deleted yet."""
    history_length: int = 0
    """The number after that of the last chunk, as known when this document was last written. There may be more
    chunks."""
    last_events: tuple[Document, ...] | None = None
    """The events of the last chunk, if the execution has ended and they are few. Then the chunk has no document."""
    logged: int = 0
    """The number of turns whose log lines have been written."""
    claims: int = 0
    """The number of claims since the last progress."""
    at_work: str | None = Field(default=None, exclude_if=lambda place: place is None)
    """Where the workflow's code was at work when the last driver before a quarantine stored this."""
    heartbeats: dict[str, Heartbeat] = Field(default={}, exclude_if=lambda heartbeats: not heartbeats)
    """The last heartbeats of the activities that it waits for, by step."""
    parked: dict[str, str] = Field(default={}, exclude_if=lambda parked: not parked)
    """The steps that wait for a permit, each with the limit that holds it back."""
    reopenings: int = Field(default=0, exclude_if=lambda count: not count)
    """How often a retry let it run again after its end."""
    restarts: int = Field(default=0, exclude_if=lambda restarts: not restarts)
    """The number of runs of this execution that a restart ended."""
    created_at: Instant
    restarted_at: Instant | None = None
    """When a restart began this run. None for the first run."""
    updated_at: Instant
    completed_at: Instant | None = None

    etag: str = Field(default="", exclude=True)

    @field_validator("execution_id")
    @classmethod
    def _is_hex(cls, value: str) -> str:
        if not re.fullmatch(r"[0-9a-f]{32}", value):
            raise ValueError("an execution id is 32 hexadecimal digits")
        return value

    @classmethod
    def from_document(cls, document: Document) -> Self:
        return super().from_document(document).model_copy(update={"etag": document.get("_etag", "")})

    @property
    def run_started_at(self) -> datetime:
        """The time that the code of this run sees at its beginning."""
        return self.restarted_at or self.created_at

    @property
    def last_chunk(self) -> Chunk | None:
        """The chunk that lies in this document, if one does."""
        if self.last_events is None:
            return None
        return Chunk(
            id=chunk_id(self.history_length - 1),
            execution_id=self.execution_id,
            write_id=self.write_id,
            events=list(self.last_events),
            run_id=self.run_id,
        )

    @property
    def is_complete(self) -> bool:
        return self.status == "complete"

    @property
    def is_of_later_engine(self) -> bool:
        """Whether it needs a later engine: it has a later schema, or logic flags that this engine doesn't know."""
        return self.schema_version > SCHEMA or bool(unknown(self.logic_flags))

    def check_schema(self) -> None:
        """Raises LaterEngine for an execution whose documents this version must not rewrite."""
        if self.schema_version > SCHEMA:
            raise LaterEngine(
                f"a later version of the engine wrote execution {self.execution_id} (schema {self.schema_version}; "
                f"this version knows schema {SCHEMA}). Nothing was changed: ask an app that runs that version"
            )

    @property
    def owes(self) -> bool:
        """Whether it has ended and some parents don't have its exit yet."""
        return self.is_complete and bool(self.parents) and not self.parents_notified

    def is_expired(self, now: datetime) -> bool:
        """Whether its retention is over."""
        return self.is_complete and not self.owes and self.due_at is not None and self.due_at <= now

    @property
    def is_fresh(self) -> bool:
        """Whether nothing has happened to it yet, so that there is nothing to load."""
        happened = self.history_length or self.inbox_count or self.wake or self.claims or self.worker
        return not happened and self.payload is not None

    def is_leased(self, now: datetime, skew: timedelta) -> bool:
        """Whether a driver holds it. Clocks may be `skew` apart."""
        return self.worker is not None and self.lease_expires_at is not None and now <= self.lease_expires_at + skew

    def is_runnable(self, now: datetime, skew: timedelta) -> bool:
        """Whether it has something to do, and nobody drives it."""
        if self.is_complete or self.is_leased(now, skew):
            return False
        return not self.suspended or self.wake > self.seen_wake or (self.due_at is not None and self.due_at <= now)


class Chunk(Record):
    """A piece of the history: events in the order in which the workflow saw them."""

    events: list[Document]
    run_id: str | None = None
    """The run of the execution that wrote the chunk."""

    @classmethod
    def of(cls, execution_id: str, number: int, events: Sequence[Event], run_id: str | None = None) -> Chunk:
        return cls(
            id=chunk_id(number),
            execution_id=execution_id,
            write_id=new_write_id(),
            events=dump_events(list(events)),
            run_id=run_id,
        )

    @field_validator("id")
    @classmethod
    def _has_number(cls, value: str) -> str:
        if not re.fullmatch(r"history::[0-9]{8}", value):
            raise ValueError("the id of a chunk is history:: and 8 digits")
        return value

    @property
    def number(self) -> int:
        return int(self.id.partition("::")[2])

    def decoded(self, start: int = 0, stop: int | None = None) -> list[Event]:
        """The chunk's events from `start` up to `stop`. Raises DecodingError for events that this version of the engine
        doesn't know, and for values that aren't JSON."""
        try:
            events = load_events(self.events[start:stop])
        except ValidationError as error:
            raise unreadable(self.execution_id, self.id, f"this version doesn't know its events: {error}") from None
        for number, event in enumerate(events, start):
            value = _text_of(event)
            if value is not None and (problem := problem_of(value)) is not None:
                raise unreadable(self.execution_id, self.id, f"events.{number}: {problem}")
        return events


def _text_of(event: Event) -> str | None:
    """The JSON text that an event holds, if any."""
    match event:
        case StepResolved(value=text) | Restarted(payload=text):
            return text
        case _:
            return None


def unreadable(execution_id: str, id: str, problem: str) -> DecodingError | Unreadable:
    """The error for a stored document that can't be read."""
    if id == EXEC:
        return Unreadable(f"the exec document of execution {execution_id[:80]} can't be read: {problem}")
    return DecodingError(f"document {id[:200]} can't be read: {problem}. Mend or restore it, then resume.")


def _problems(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])


def chunk_id(number: int) -> str:
    """The id of the history's chunk with this number."""
    return f"history::{number:08d}"


def new_write_id() -> str:
    """A fresh id that marks one write."""
    return uuid.uuid4().hex


def new_run_id() -> str:
    """A fresh id that tells a new run from earlier runs with the same execution id."""
    return uuid.uuid4().hex[:12]


def of_run(chunks: Iterable[Chunk], run_id: str | None, start: int = 0) -> list[Chunk]:
    """The history of a run, from chunk `start` on. A chunk that names another run was written late, by a driver that
    didn't know that its execution had been purged. Such a chunk counts as an empty chunk within this history, and is
    ignored after its end."""
    history: list[Chunk] = []
    for chunk in chunks:
        if chunk.run_id not in (None, run_id):
            if chunk.number != start + len(history):
                continue
            chunk = chunk.model_copy(update={"events": []})
        history.append(chunk)
    return history


class InboxItem(Record):
    """A value or an error from outside or from a child: for a deferred, for a channel, or the exit of a child."""

    name: str
    at: Instant
    value: JsonText | None = None
    error: ErrorRecord | None = None
    position: int = 0
    """How many items the sender knew of when it sent this one. It comes after those items, whatever the clocks say."""
    run_id: str | None = None
    """For the exit of a child: the run of the parent that waits for it."""
    reopenings: int = Field(default=0, exclude_if=lambda count: not count)
    """For the exit of a child: as in Parent."""

    @classmethod
    def of(
        cls,
        kind: Literal["deferred", "child", "channel"],
        execution_id: str,
        name: str,
        at: datetime,
        value: str | None = None,
        error: ErrorRecord | None = None,
        one_of_many: str = "",
        position: int = 0,
        run_id: str | None = None,
        reopenings: int = 0,
    ) -> InboxItem:
        suffix = one_of_many or (f"{run_id}.{reopenings}" if reopenings else run_id) or ""
        id = inbox_id(kind, name) + (f"::{quote(suffix, safe='', errors='surrogatepass')}" if suffix else "")
        return cls(
            id=id,
            execution_id=execution_id,
            name=name,
            at=at,
            value=value,
            error=error,
            position=position,
            run_id=run_id,
            reopenings=reopenings,
        ).with_write_id()

    @property
    def kind(self) -> str:
        return self.id.partition("::")[0]


class Large(Record):
    """A payload (`input`) or a result (`output`) in its own document."""

    value: JsonText


def inbox_id(kind: str, name: str) -> str:
    """The id of an inbox document. Raises ValueError for an id that is too long for a store."""
    id = f"{kind}::{quote(name, safe='', errors='surrogatepass')}"
    if len(id.encode()) > MAX_ID_BYTES:
        raise ValueError(f"the name {name[:50]!r}… is too long: its quoted form may have {MAX_ID_BYTES} bytes")
    return id


def inbox_name(id: str) -> str:
    """The name in the id of an inbox document."""
    return unquote(id.partition("::")[2], errors="surrogatepass")


def is_large(text: str) -> bool:
    """Whether a payload or result needs a document of its own."""
    return len(text) > INLINE_BYTES
