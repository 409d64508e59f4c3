"""What log lines say of the execution that they come from.

Rules:
1. A line about an execution has the fields `execution_id` and `workflow`. A line of a workflow's code also has `key`,
   if it is known.
2. A line that any logger writes inside an activity has these, and `step` and `attempt`.
3. The author's own `extra=` may use the same names in an activity: it wins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from engine.core.activity_info import ActivityInfo, current
from engine.core.declarations import Workflow
from engine.ground.names import execution_id as id_of
from engine.store.documents import Execution

FIELDS = frozenset({"execution_id", "workflow", "key", "step", "attempt"})

_Factory = Callable[..., logging.LogRecord]


class _Fields(dict[str, Any]):
    """The fields of a record. `logging` refuses an `extra=` that names one which is there: those of the engine don't
    count."""

    def __contains__(self, name: object) -> bool:
        return name not in FIELDS and super().__contains__(name)


class _Marking:
    """Makes records as the factory before it did, and adds the fields of the activity that runs here."""

    def __init__(self, before: _Factory) -> None:
        self._before = before

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._before(*args, **kwargs)
        info = current.get(None)
        if info is not None:
            record.__dict__ = _Fields(record.__dict__ | fields_of_attempt(info))
        return record


def mark_lines_of_activities() -> None:
    """Have every line that is logged inside an activity carry its fields, in this process. A second call changes
    nothing."""
    factory = logging.getLogRecordFactory()
    if not isinstance(factory, _Marking):
        logging.setLogRecordFactory(_Marking(factory))


def fields_of(execution: Execution, **more: str | float) -> dict[str, Any]:
    """The fields of a line about an execution, as `extra=`."""
    return {"execution_id": execution.execution_id, "workflow": execution.workflow, **more}


def fields_of_attempt(info: ActivityInfo, **more: str | float) -> dict[str, Any]:
    """The fields of a line about an attempt of an activity, as `extra=`."""
    fields = {
        "execution_id": info.execution_id,
        "workflow": info.workflow,
        "step": info.step,
        "attempt": info.attempt,
    }
    return fields | ({} if info.key is None else {"key": info.key}) | more


def known_key(workflow: Workflow[Any, Any], execution_id: str, payload: str) -> str | None:
    """The idempotency key that a workflow derives from its payload, if the execution has that key. A key that its
    caller gave isn't stored."""
    try:
        key = workflow.key_of(workflow.payload.decode(payload) if workflow.takes_payload else None)
    except Exception:  # noqa: BLE001 - the author's function may raise anything on a payload of another time
        return None
    return key if key is not None and id_of(workflow.name, key) == execution_id else None
