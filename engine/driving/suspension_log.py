"""The log line and the count of an execution that is suspended with a cause."""

from __future__ import annotations

import logging

from engine.driving.log_fields import fields_of
from engine.driving.notices import Notice
from engine.ground import telemetry
from engine.store.documents import Execution

_log = logging.getLogger("engine")


def log_suspension(execution: Execution, cause: str, sentence: str) -> None:
    """Log and count a suspension. `cause` is the class of the error."""
    telemetry.add("durable.executions.suspended", workflow=execution.workflow, cause=cause)
    fields = fields_of(execution, notice=Notice.SUSPENDED, cause=cause)
    _log.error("execution %s: suspended: %s", execution.execution_id, sentence, extra=fields)
