"""An execution as callers see it: a flat view, without the stored document, its lease or its etag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from engine.ground.errors import ExecutionStopped
from engine.store.documents import Execution, ForkedFrom
from engine.values.error_records import ErrorClasses, ErrorRecord, rebuild
from engine.values.outcome import OutcomeKind
from engine.values.unseen import plain_json


@dataclass(frozen=True)
class Status:
    """The state of an execution.

    outcome: how the execution ended. None while it runs.
    suspended: whether nobody drives the execution until `resume`, a value from outside, or `due_at`.
    interrupted: whether the execution was asked to stop. `interrupt_reason` is the reason, if one was given, and
        `interrupted_by` names the caller, if callers sign in.
    cause: why the execution is suspended, if it doesn't simply wait.
    result: the result as JSON text, if the execution completed. `value()` reads it.
    error: the error with which the execution ended.
    compensation_errors: the errors of compensations and finalizers.
    leftovers: what the code left behind at its end: tasks whose failure nobody saw, steps and tasks that never ended.
    custom_status: what the workflow's code showed last with `workflow.set_status`, as plain JSON data.
    unread_values: how many channel values had arrived by the end and were never received.
    due_at: while suspended, when the engine looks at the execution again by itself.
    heartbeats: the details that its activities noted last with `activity.heartbeat`, as plain JSON data by step.
    forked_from: the original, the step, and who asked, if the execution is a fork.
    left_alone: why this app can't drive the execution: it lacks the workflow or the version. None if it can.
    """

    execution_id: str
    workflow: str
    version: str
    status: Literal["running", "complete"]
    outcome: OutcomeKind | None
    suspended: bool
    interrupted: bool
    interrupt_reason: str | None
    interrupted_by: str | None
    cause: ErrorRecord | None
    result: str | None
    error: ErrorRecord | None
    compensation_errors: tuple[ErrorRecord, ...]
    leftovers: tuple[str, ...]
    unread_values: int
    tags: Mapping[str, str]
    custom_status: Any
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    due_at: datetime | None
    left_alone: str | None
    heartbeats: Mapping[str, Any] = field(default_factory=dict)
    forked_from: ForkedFrom | None = None
    _raises: ErrorClasses = field(default=(), repr=False, compare=False)

    @classmethod
    def of(
        cls,
        execution: Execution,
        result: str | None,
        left_alone: str | None,
        raises: ErrorClasses,
    ) -> Status:
        """The status of a stored execution. `result`: its whole result. `raises`: the exception classes that `value`
        raises as themselves."""
        return cls(
            execution_id=execution.execution_id,
            workflow=execution.workflow,
            version=execution.version,
            status=execution.status,
            outcome=execution.outcome,
            suspended=execution.suspended,
            interrupted=execution.interrupted,
            interrupt_reason=execution.interrupt_reason,
            interrupted_by=execution.interrupted_by,
            cause=execution.cause,
            result=result if execution.outcome == "completed" else None,
            error=execution.error,
            compensation_errors=execution.compensation_errors,
            leftovers=execution.leftovers,
            unread_values=execution.unread_values,
            tags=dict(execution.tags),
            custom_status=None if execution.custom_status is None else plain_json(execution.custom_status),
            created_at=execution.created_at,
            updated_at=execution.updated_at,
            completed_at=execution.completed_at,
            due_at=execution.due_at if execution.suspended else None,
            left_alone=left_alone,
            heartbeats={step: plain_json(last.details) for step, last in execution.heartbeats.items()},
            _raises=raises,
            forked_from=execution.forked_from,
        )

    @property
    def is_complete(self) -> bool:
        """Whether the execution has ended."""
        return self.status == "complete"

    def value(self) -> Any:
        """The result as plain JSON data. Raises the error with which the execution failed, ExecutionStopped if it was
        interrupted or terminated, and RuntimeError while it runs."""
        self.check()
        return plain_json(self.result)

    def check(self) -> None:
        """Raises as `value` does, unless the execution completed."""
        if not self.is_complete:
            raise RuntimeError(f"execution {self.execution_id} hasn't ended yet")
        if self.outcome == "completed":
            return
        if self.error is not None:
            raise rebuild(self.error, self._raises, exact=False)
        raise ExecutionStopped(f"execution {self.execution_id} was {self.outcome}: it has no result")


@dataclass(frozen=True)
class Page:
    """A page of a list of executions, and the continuation for the next page (None: this is the last page)."""

    executions: list[Status]
    continuation: str | None = None
