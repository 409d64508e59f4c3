"""The values that pass between a run and its driver: the steps that a workflow's code waits for, and its log lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from engine.core.activity import Activity
from engine.core.declarations import Channel, Deferred, Workflow
from engine.core.loop import DurableFuture, DurableTimer
from engine.values.codec import Codec
from engine.values.events import StepKind
from engine.values.inputs import differences, recordable, unequal


@dataclass(frozen=True, eq=False)
class Step:
    """A step that the code waits for."""

    kind: StepKind
    id: str
    digest: str
    is_recorded: bool = field(default=False, kw_only=True)
    """Whether the history already has an event of this step. The first event records the input."""

    @property
    def key(self) -> tuple[StepKind, str]:
        return self.kind, self.id

    @property
    def input(self) -> Mapping[str, str]:
        """The step's input: JSON text by name."""
        return {}

    @property
    def new_input(self) -> dict[str, str] | None:
        """The input, if the step's next event is to record it."""
        return None if self.is_recorded else recordable(self.input)

    def differences(self, recorded: Mapping[str, str]) -> list[str]:
        """Where the input differs from a recorded one, as today's types read it."""
        return list(unequal(dict(recorded), dict(self.input), self.kind))


@dataclass(frozen=True, eq=False)
class ActivityStep(Step):
    """A call of an activity. `attempts` is the number of failed attempts. The next one is due at `retry_at`, if set."""

    activity: Activity[Any, Any]
    arguments: dict[str, str]
    future: DurableFuture
    attempts: int = 0
    retry_at: datetime | None = None
    details: str | None = None
    """The details of heartbeats that are recorded with the last failed attempt."""

    @property
    def input(self) -> Mapping[str, str]:
        return self.arguments

    def differences(self, recorded: Mapping[str, str]) -> list[str]:
        return self.activity.signature.differences(recorded, self.arguments)


@dataclass(frozen=True, eq=False)
class TimerStep(Step):
    """A timer of the loop, due at `due`."""

    timer: DurableTimer
    due: datetime
    seconds: float

    @property
    def input(self) -> Mapping[str, str]:
        return {"seconds": str(self.seconds)}


@dataclass(frozen=True, eq=False)
class DeferredStep(Step):
    """A deferred that someone waits for."""

    deferred: Deferred[Any]
    waiters: list[DurableFuture] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class ChildStep(Step):
    """A child workflow. `waits`: the step waits for the child's end, not only for its start. `abandon`: the child
    outlives its parent. `is_own`: the child has no key, so only this step can ask for it."""

    workflow: Workflow[Any, Any]
    payload: str
    execution_id: str
    waits: bool
    abandon: bool
    is_own: bool
    future: DurableFuture
    tags: Mapping[str, str]
    begun: bool = False

    @property
    def input(self) -> Mapping[str, str]:
        return {"execution": self.execution_id, "payload": self.payload}

    def differences(self, recorded: Mapping[str, str]) -> list[str]:
        id, payload = recorded.get("execution", ""), recorded.get("payload", "null")
        read = self.workflow.payload.canonical_of
        return [*unequal(id, self.execution_id, "execution"), *differences(read, payload, self.payload, "payload")]


@dataclass(frozen=True, eq=False)
class ChannelStep(Step):
    """A call for the next value of a channel."""

    channel: Channel[Any]
    future: DurableFuture


@dataclass(frozen=True)
class LogLine:
    """A line that the workflow logged in the turn of the event with that number."""

    turn: int
    level: int
    message: str
    error: Any
    """The exception that the line shows, as `logging` takes it for `exc_info`."""
    extra: dict[str, Any] | None


def codec_of(step: Step) -> Codec | None:
    """How the value that a step brings is stored. None if it brings none."""
    match step:
        case ActivityStep(activity=activity):
            return activity.signature.result
        case DeferredStep(deferred=deferred):
            return deferred.codec
        case ChannelStep(channel=channel):
            return channel.codec
        case ChildStep(workflow=workflow, waits=True):
            return workflow.result
        case _:
            return None
