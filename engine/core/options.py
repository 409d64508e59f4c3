"""The options that an author sets for all executions of a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from engine.ground.settings import MIN_RETENTION

DEFAULT_PARALLEL = 64
"""Activities of one execution that run at a time, unless its workflow says otherwise."""


@dataclass(frozen=True)
class Options:
    """The options that an author sets for all executions of a workflow.

    max_parallel: how many activities of one execution run at a time.
    suspend_on_failure: whether an activity that fails for good, or a mistake of the workflow's own code (TypeError,
        KeyError), suspends the execution. `resume` then runs it again.
    time_limit: after this time the execution is cancelled, compensated and failed.
    retention: how long a finished execution is kept, at least a minute. Zero: for ever. None: as the settings say.
        During this time, another start finds the execution instead of running it again.
    """

    max_parallel: int = DEFAULT_PARALLEL
    tags: Mapping[str, str] = field(default_factory=dict)
    suspend_on_failure: bool = False
    time_limit: timedelta | None = None
    retention: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("time_limit", "retention"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, timedelta):
                raise TypeError(f"{name} is a timedelta, not {value!r}")
        if self.time_limit is not None and self.time_limit <= timedelta(0):
            raise ValueError(f"time_limit is more than zero, not {self.time_limit}")
        if self.retention and self.retention < MIN_RETENTION:
            raise ValueError(
                f"retention is at least a minute, or zero for ever, not {self.retention}: a start whose answer was "
                "lost may be sent again for that long, and must find the execution"
            )
        if not isinstance(self.max_parallel, int) or self.max_parallel < 1:
            raise ValueError(f"max_parallel is a number of at least 1, not {self.max_parallel!r}")
        if not isinstance(self.suspend_on_failure, bool):
            raise TypeError(f"suspend_on_failure is True or False, not {self.suspend_on_failure!r}")
        if not isinstance(self.tags, Mapping):
            raise TypeError(f"tags are texts by name, as in {{'team': 'post'}}, not {self.tags!r}")
        if not all(isinstance(text, str) for tag in self.tags.items() for text in tag):
            raise TypeError(f"tags are texts by name, not {dict(self.tags)!r}")
        object.__setattr__(self, "tags", dict(self.tags))  # a copy, because the author's mapping may change

    def retention_seconds(self, default: timedelta) -> float | None:
        """How long a finished execution is kept, in seconds. None: for ever. `default` applies if the author set
        nothing."""
        retention = default if self.retention is None else self.retention
        return retention.total_seconds() or None
