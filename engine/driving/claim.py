"""The claim: what a driver knows about the moment when it took an execution."""

from __future__ import annotations

from dataclasses import dataclass

from engine.store.documents import Execution


@dataclass(frozen=True)
class Claim:
    """One claim of an execution. The worker makes it; the drive, its lease and its children work under it."""

    execution: Execution
    """The exec document that the claim wrote."""
    is_fresh: bool
    """Whether nothing had happened to the execution before. Then there is nothing to load, and no earlier driver."""
    is_takeover: bool
    """Whether the driver before this one did not let go. It may still be writing, so the log must be sealed."""
