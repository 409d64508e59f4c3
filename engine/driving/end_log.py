"""What the log says of an execution that has ended. Called once, by the driver that recorded the end."""

from __future__ import annotations

import logging

from engine.core.leftovers import have_failures
from engine.store.documents import Execution

_log = logging.getLogger("engine")


def log_end(ended: Execution) -> None:
    """A line for each thing that somebody may want to know: values unread, what was left behind, the failure."""
    names = ended.execution_id, ended.workflow
    if ended.unread_values:
        _log.warning("execution %s of workflow %s ended with %d values of channels unread", *names, ended.unread_values)
    if ended.leftovers:
        level = logging.WARNING if have_failures(ended.leftovers) else logging.INFO
        _log.log(level, "execution %s of workflow %s left behind: %s", *names, "; ".join(ended.leftovers))
    if ended.outcome == "failed" and ended.error is not None:
        error = ended.error
        _log.warning(
            "execution %s of workflow %s failed: %s: %s\n%s", *names, error.type, error.message, error.traceback
        )
