"""Writes the log lines of a workflow's code, once, however often the code is replayed."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from engine.core.steps import LogLine
from engine.store.documents import Execution

_log = logging.getLogger("engine")
_workflow_log = logging.getLogger("engine.workflow")


def write_lines(lines: Iterable[LogLine], execution: Execution, key: str | None) -> None:
    """Write lines with the execution's id, workflow and key. A line that logging refuses doesn't stop the others."""
    names = {"execution_id": execution.execution_id, "workflow": execution.workflow}
    known = {} if key is None else {"key": key}
    for line in lines:
        try:
            extra = {**known, **(line.extra or {}), **names}
            _workflow_log.log(line.level, line.message, exc_info=line.error, extra=extra)
        except Exception:  # noqa: BLE001 - logging refuses some levels and names
            _log.warning("a line of workflow %(workflow)s can't be logged", names, exc_info=True)
