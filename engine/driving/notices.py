"""Notices: the log lines that alerts look for.

1. A notice is known by its field `notice`, and further fields hold what it says. Its sentence is for people, and may
   change from version to version. The fields may not.
2. Each alert of the infrastructure on log lines asks for one of these.
"""

from __future__ import annotations

from enum import StrEnum


class Notice(StrEnum):
    """The value of a log line's field `notice`."""

    SUSPENDED = "suspended"
    """An execution was suspended with a cause. `cause`: the class of the error, such as Quarantined."""
    OVERDUE = "overdue"
    """A sweep found executions that are due. `overdue_seconds`: how long the first of them has waited."""
    LEFT_ALONE = "left_alone"
    """This deployment doesn't drive an execution. `left_alone`: why."""
    BLOCKED = "blocked"
    """Code blocks the event loop. `blocked_seconds`: for how long so far."""
    POISONED = "poisoned"
    """A hint's last delivery failed."""
