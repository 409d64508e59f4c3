"""The logic flags of this engine. Each stands for a change of how the engine runs a workflow's code.

A later engine must replay a history as it was recorded. So an execution carries the flags of the engine that created
it, and a replay follows these flags.

Rules:
1. A flag is added together with its change. The old code stays for executions without the flag.
2. A flag is never renamed, and never removed while an execution may carry it.
3. An execution with an unknown flag, from a later engine, is left alone. So is an execution of a later schema.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable


class LogicFlag(enum.StrEnum):
    """One change of how a workflow's code runs. Executions store the flag's value."""

    RUN_SEED = "run-seed"
    """The run seeds `workflow.random()` and `workflow.uuid4()`. Without the flag the execution id seeds them, so two
    runs of one id get the same random numbers."""
    ENDINGS = "endings"
    """The code is cancelled only once: an interrupt after the time limit doesn't disturb its cleanup, and neither does
    a time limit after an interrupt. Finalizers run again if an interrupt changes the outcome that they were given. Each
    compensation and finalizer is its own task, so one that cancels itself cancels no other."""


CURRENT: tuple[str, ...] = tuple(flag.value for flag in LogicFlag)
"""The flags of a new execution."""


def unknown(flags: Iterable[str]) -> list[str]:
    """The flags that this engine doesn't know."""
    return [flag for flag in flags if flag not in CURRENT]
