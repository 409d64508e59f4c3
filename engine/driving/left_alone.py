"""Executions that an app can't drive and so leaves alone."""

from __future__ import annotations

import logging

from engine.core.registry import Registry
from engine.driving.log_fields import fields_of
from engine.driving.notices import Notice
from engine.store.documents import Execution

_log = logging.getLogger("engine")


class LeftAlone:
    """What the worker of one process leaves alone. Each reason is logged once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._unknown: set[tuple[str, str]] = set()
        self._unreadable: dict[str, str] = {}
        """The last logged problem of each execution that can't be read."""

    def note(self, execution: Execution) -> None:
        """Log why this app doesn't drive an execution, once for each version of a workflow."""
        kind = (execution.workflow, execution.version)
        why = why_left_alone(execution, self._registry)
        if why is not None and kind not in self._unknown:
            self._unknown.add(kind)
            fields = fields_of(execution, version=execution.version, notice=Notice.LEFT_ALONE, left_alone=why)
            _log.warning("execution %s is left alone: %s", execution.execution_id, why, extra=fields)

    def note_unreadable(self, execution_id: str, problem: str) -> None:
        """Log that the documents of an execution can't be read, once for each problem."""
        if self._unreadable.get(execution_id) != problem:
            self._unreadable[execution_id] = problem
            fields = {"execution_id": execution_id, "notice": Notice.LEFT_ALONE, "left_alone": problem}
            _log.error("execution %s is left alone: %s", execution_id, problem, extra=fields)


def why_left_alone(execution: Execution, registry: Registry) -> str | None:
    """Why an app with this registry doesn't drive an execution that hasn't ended. None if the app drives it, or if the
    registry says that another app on the same store does."""
    if execution.is_complete:
        return None
    if execution.is_of_later_engine:
        flags = ", ".join(execution.logic_flags) or "none"
        return f"a later version of the engine wrote it (schema {execution.schema_version}, logic flags: {flags})"
    if not registry.knows(execution.workflow, execution.version):
        return f"this deployment lacks workflow {execution.workflow!r} version {execution.version!r}"
    return None
