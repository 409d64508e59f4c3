"""The change feed as the local host reads it: ranges, leases on them, and pages of changed documents.

In Azure the Functions host reads the container's change feed itself and this module is not used. Without Azure a
host of ours does the same job over this protocol: several hosts share the ranges through leases, and each range is
read in order, at least once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class FeedLease:
    """Who reads a range of the feed, until when, and how far it has come.

    `owner` is None when nobody does; `expires_at` is in seconds since the epoch; `continuation` is None before the
    first checkpoint (the feed starts from the beginning); `version` guards every change of the lease.
    """

    range: str
    owner: str | None
    expires_at: float
    continuation: str | None
    version: str


class FeedLeaseLost(Exception):
    """Another host changed the lease since it was read: stop reading that range."""


class ChangeFeed(Protocol):
    """What a host needs in order to hand changed documents to the feed trigger."""

    async def leases(self) -> list[FeedLease]:
        """Every range of the feed with its lease; ranges that nobody has leased yet are included."""
        ...

    async def renew(
        self, lease: FeedLease, owner: str | None, expires_at: float, continuation: str | None
    ) -> FeedLease:
        """Take, extend, checkpoint or (owner None) release a lease. Raises FeedLeaseLost if `lease.version` is old."""
        ...

    async def read(self, range: str, continuation: str | None, limit: int) -> tuple[list[dict[str, Any]], str]:
        """The next changed documents (latest version of each) of a range, in order, and the continuation behind
        them. An empty list means that there is nothing new."""
        ...
