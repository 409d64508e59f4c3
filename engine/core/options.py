"""The options that an author sets for all executions of a workflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from engine.ground.settings import MIN_RETENTION

DEFAULT_PARALLEL = 64
"""Activities of one execution that run at a time, unless its workflow says otherwise."""


Tags = Mapping[str, str] | Callable[[Any], Mapping[str, str]] | Callable[[], Mapping[str, str]]
"""Texts by name, or what makes them of the payload, or of nothing for a workflow without a payload."""
MAX_TAGS = 20
"""Tags of one execution."""
MAX_TAG = 256
"""Characters of a tag's name, and of its text."""


def checked_tags(tags: object) -> dict[str, str]:
    """A copy of these tags. Raises TypeError for what isn't texts by name, ValueError for too many or too long ones."""
    if not isinstance(tags, Mapping):
        raise TypeError(f"tags must be texts by name, as in {{'team': 'post'}}, not {tags!r}")
    for name, text in tags.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"tags must be texts by name, not {name!r}: {text!r}")
        if not 0 < len(name) <= MAX_TAG or len(text) > MAX_TAG:
            raise ValueError(f"a tag's name has 1 to {MAX_TAG} characters, and its text up to {MAX_TAG}: {name[:50]!r}")
        if any(one != one.encode("utf-8", "replace").decode() for one in (name, text)):
            raise ValueError(f"tag {name[:50]!r} holds half a character")
    if len(tags) > MAX_TAGS:
        raise ValueError(f"an execution may have at most {MAX_TAGS} tags, not {len(tags)}")
    return dict(tags)


@dataclass(frozen=True)
class Options:
    """The options that an author sets for all executions of a workflow.

    max_parallel: how many activities of one execution run at a time.
    suspend_on_failure: whether an activity that fails for good, or a mistake of the workflow's own code (TypeError,
        KeyError), suspends the execution. `resume` then runs it again.
    time_limit: after this time the execution is cancelled, compensated and failed.
    retention: how long a finished execution is kept, at least a minute. Zero: for ever. None: as the settings say.
        During this time, another start finds the execution instead of running it again.
    tags: texts by name, or a function that makes them of the payload: at most MAX_TAGS, of MAX_TAG characters each.
    """

    max_parallel: int = DEFAULT_PARALLEL
    tags: Tags = field(default_factory=dict)
    suspend_on_failure: bool = False
    time_limit: timedelta | None = None
    retention: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("time_limit", "retention"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, timedelta):
                raise TypeError(f"{name} must be a timedelta, not {value!r}")
        if self.time_limit is not None and self.time_limit <= timedelta(0):
            raise ValueError(f"time_limit must be more than zero, not {self.time_limit}")
        if self.retention and self.retention < MIN_RETENTION:
            raise ValueError(
                f"retention must be at least a minute, or zero for ever, not {self.retention}: for that long, a start "
                "whose answer was lost may be sent again, and must find the execution"
            )
        if not isinstance(self.max_parallel, int) or self.max_parallel < 1:
            raise ValueError(f"max_parallel must be a number of at least 1, not {self.max_parallel!r}")
        if not isinstance(self.suspend_on_failure, bool):
            raise TypeError(f"suspend_on_failure must be True or False, not {self.suspend_on_failure!r}")
        if not callable(self.tags):
            object.__setattr__(self, "tags", checked_tags(self.tags))

    def retention_seconds(self, default: timedelta) -> float | None:
        """How long a finished execution is kept, in seconds. None: for ever. `default` applies if the author set
        nothing."""
        retention = default if self.retention is None else self.retention
        return retention.total_seconds() or None
