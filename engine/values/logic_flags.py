"""The logic flags of this engine: changes of how it runs a workflow's code.

A history has to replay as it was recorded, also on a later engine. So an execution carries the flags of the engine that
created it, and a replay follows those.

Rules:
1. A flag is added with the change that it stands for. The code before the change stays, for executions without it.
2. A flag is never renamed, and never taken away while an execution may carry it.
3. An execution that carries a flag of a later engine is left alone, as one of a later schema is.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable


class LogicFlag(enum.StrEnum):
    """One change of how a workflow's code runs. Its value is what an execution carries."""

    RUN_SEED = "run-seed"
    """The run seeds `workflow.random()` and `workflow.uuid4()`. Without the flag the execution's id does: two runs
    of one id draw the same."""
    ENDINGS = "endings"
    """The code is cancelled once: an interrupt after the time limit, or the other way round, leaves its cleanup alone.
    Finalizers are told again if an interrupt changes the outcome that they were told. Each compensation and finalizer
    is a task, so one that cancels itself cancels no other."""


CURRENT: tuple[str, ...] = tuple(flag.value for flag in LogicFlag)
"""What a new execution carries."""


def unknown(flags: Iterable[str]) -> list[str]:
    """Those of `flags` that this engine doesn't know."""
    return [flag for flag in flags if flag not in CURRENT]
