"""Claims: how a driver takes an execution.

1. A claim is one transition, whether the execution is stored already or not. A stored one is replaced under its etag. A
   new one is created with the claim in it, so that a start which is driven where it is made needs no second request.
2. A creator drives only an execution that carries its own token. If another start was first, its execution is like any
   other one: who holds it keeps it.
3. A creator that dies leaves an ordinary lease, which expires. Its claim counts as any other.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from engine.driving.resources import Resources
from engine.ground.errors import Conflict, Missing
from engine.store import transitions
from engine.store.documents import Execution
from engine.store.transitions import Replacement

CLAIM_TRIES = 3
"""How often a driver tries to claim one execution, if each claim meets a newer version of it."""

Create = Callable[[Execution], Awaitable[Execution]]
"""Stores a new execution, or finds the one that was stored before under its id. Returns what is stored."""


@dataclass(frozen=True)
class Claim:
    """One claim of an execution. The worker makes it; the drive, its lease and its children work under it."""

    execution: Execution
    """The exec document that the claim wrote."""
    is_fresh: bool
    """Whether nothing had happened to the execution before. Then there is nothing to load, and no earlier driver."""
    is_takeover: bool
    """Whether the driver before this one did not let go. It may still be writing, so the log must be sealed."""


async def claim_stored(
    resources: Resources, execution: Execution, may_claim: Callable[[Execution], bool]
) -> Claim | None:
    """Claim an execution that is stored. `may_claim` is asked about each version of it. None if it can't be claimed.
    Raises StoreError."""
    for _ in range(CLAIM_TRIES):
        claiming = _claiming(resources)
        if not may_claim(execution) or not claiming.is_allowed(execution):
            return None
        try:
            claimed = await resources.store.replace(claiming.apply(execution))
        except Conflict:
            with contextlib.suppress(Missing):
                execution = await resources.store.read(execution.execution_id)
                continue
            return None
        except Missing:
            return None
        return Claim(claimed, execution.is_fresh, execution.worker is not None)
    return None


async def claim_new(resources: Resources, execution: Execution, create: Create) -> tuple[Execution, Claim | None]:
    """Store a new execution as claimed. Returns what is stored, and the claim, or None if another start was first.
    Raises what `create` raises."""
    claimed = _claiming(resources).apply(execution)
    stored = await create(claimed)
    if stored.worker != claimed.worker:
        return stored, None
    is_fresh = execution.is_fresh and not (stored.wake or stored.inbox_count)
    return stored, Claim(stored, is_fresh, is_takeover=False)


def _claiming(resources: Resources) -> Replacement:
    settings = resources.settings
    return transitions.claim(uuid.uuid4().hex, resources.clock.now(), settings.lease, settings.skew)
