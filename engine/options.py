"""What a workflow's author may set for all of its executions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

DEFAULT_PARALLEL = 64
"""Activities of one execution that run at a time, unless its workflow says otherwise."""


@dataclass(frozen=True)
class Options:
    """What a workflow's author may set for all of its executions.

    max_parallel: activities of one execution that run at a time.
    suspend_on_failure: an activity that fails for good suspends the execution; `resume` runs it again.
    time_limit: after which the execution is cancelled, compensated and failed.
    retention: how long a finished execution is kept; for ever, unless given.
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
            if value is not None and value <= timedelta(0):
                raise ValueError(f"{name} is more than zero, not {value}")
        if not isinstance(self.max_parallel, int) or self.max_parallel < 1:
            raise ValueError(f"max_parallel is a number of at least 1, not {self.max_parallel!r}")
        if not isinstance(self.suspend_on_failure, bool):
            raise TypeError(f"suspend_on_failure is True or False, not {self.suspend_on_failure!r}")
        if not isinstance(self.tags, Mapping):
            raise TypeError(f"tags are texts by name, as in {{'team': 'post'}}, not {self.tags!r}")
        if not all(isinstance(text, str) for tag in self.tags.items() for text in tag):
            raise TypeError(f"tags are texts by name, not {dict(self.tags)!r}")
        object.__setattr__(self, "tags", dict(self.tags))  # the author's own may change
