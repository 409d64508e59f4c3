"""The change feed as devhost reads it: ranges, leases on them, and pages of changed documents.

On Azure the Functions host reads the container's change feed itself, and this module isn't used. Several devhosts share
the ranges through leases. Each range is read in order, at least once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class FeedLease:
    """Which host reads a range of the feed, until when, and how far it has come.

    `owner` is None if no host reads the range. `expires_at` is in seconds since the epoch. `continuation` is None
    before the first checkpoint: the feed then starts from its beginning. `version` guards every change of the lease.
    """

    range: str
    owner: str | None
    expires_at: float
    continuation: str | None
    version: str


class FeedLeaseLost(Exception):
    """Another host changed the lease since it was read: stop reading that range."""


class ChangeFeed(Protocol):
    """What devhost needs to hand changed documents to the feed trigger."""

    async def leases(self) -> list[FeedLease]:
        """Every range of the feed with its lease, also the ranges that no host has leased yet."""
        ...

    async def renew(
        self, lease: FeedLease, owner: str | None, expires_at: float, continuation: str | None
    ) -> FeedLease:
        """Take, extend, checkpoint or (owner None) release a lease. Raises FeedLeaseLost if `lease.version` is old."""
        ...

    async def read(self, range: str, continuation: str | None, limit: int) -> tuple[list[dict[str, Any]], str]:
        """The next changed documents of a range, in order, and the continuation after them. Each is the document's
        latest version. An empty list means that nothing is new."""
        ...
