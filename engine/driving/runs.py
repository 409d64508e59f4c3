"""Makes the run of a stored execution: for its driver, for a replay of a recording, and for a look at its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.core.declarations import Workflow
from engine.core.patches import begins_at
from engine.core.run import Run
from engine.store.documents import Execution
from engine.store.transitions import Fields
from engine.values.error_records import ErrorClasses
from engine.values.events import Event, Forked


def run_of(
    workflow: Workflow[Any, Any],
    execution: Execution,
    payload: str | None,
    history: Sequence[Event],
    raises: ErrorClasses,
) -> Run:
    """The run of an execution, before its code begins.

    payload: JSON text. None: the workflow takes no payload.
    history: the events that are recorded so far.
    raises: the exception classes that the app's activities declare, as `Registry.raises` has them.
    """
    forks = [event for event in history if isinstance(event, Forked)]
    return Run(
        workflow,
        execution.execution_id,
        payload or "null",
        forks[0].started_at if forks else execution.run_started_at,
        execution.ancestors,
        execution.run_id,
        execution.logic_flags,
        history,
        execution.logged > begins_at(history),
        raises,
        execution.tags,
    )


def displayed_by(run: Run) -> Fields:
    """The fields of the exec document that hold what a run's code shows of itself."""
    status = run.displayed.status
    return {"tags": run.displayed.tags} | ({} if status is None else {"custom_status": status})
