"""How an execution ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.values.error_records import ErrorRecord

OutcomeKind = Literal["completed", "failed", "interrupted", "terminated"]


@dataclass(frozen=True)
class Outcome:
    """How an execution ended: with a `value` (JSON text) if it completed, otherwise with an `error`, if there is
    one."""

    kind: OutcomeKind
    value: str | None = None
    error: ErrorRecord | None = None
    compensation_errors: tuple[ErrorRecord, ...] = ()
    """The errors of compensations and finalizers."""
