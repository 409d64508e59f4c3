"""The log lines for an execution that has ended. The driver that recorded the end writes them, once."""

from __future__ import annotations

import logging

from engine.core.leftovers import have_failures
from engine.driving.log_fields import fields_of
from engine.store.documents import Execution

_log = logging.getLogger("engine")


def log_end(ended: Execution) -> None:
    """Log unread channel values, leftovers and the failure, a line for each."""
    names, fields = (ended.execution_id, ended.workflow), fields_of(ended)
    if ended.unread_values:
        unread = ended.unread_values
        _log.warning(
            "execution %s of workflow %s ended with %d values of channels unread", *names, unread, extra=fields
        )
    if ended.leftovers:
        level = logging.WARNING if have_failures(ended.leftovers) else logging.INFO
        leftovers = "; ".join(ended.leftovers)
        _log.log(level, "execution %s of workflow %s left behind: %s", *names, leftovers, extra=fields)
    if ended.outcome == "failed" and ended.error is not None:
        error = ended.error
        _log.warning(
            "execution %s of workflow %s failed: %s: %s\n%s",
            *names,
            error.type,
            error.message,
            error.traceback,
            extra=fields,
        )
