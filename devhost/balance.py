"""Decides which ranges of the change feed a host reads: its fair share, by the rules of the change feed processor.

1. The share is the number of ranges divided by the number of hosts, rounded up. A host counts if it holds a live lease.
   This host always counts.
2. A host below its share takes free ranges. If no range is free, it takes one from the host that holds the most.
3. A host never gives a range away. A host that loses a range finds out later that its lease was taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from engine.store.feed import FeedLease


def leases_to_take(leases: Sequence[FeedLease], owner: str, now: float, busy: Collection[str]) -> list[FeedLease]:
    """The leases that `owner` should take at `now`, in seconds since the epoch.

    `busy` names the ranges that this host reads already or is about to leave. It never takes those, so one process
    never reads a range twice.
    """
    owned: Counter[str] = Counter({owner: 0})
    free, takeable = [], []
    for lease in leases:
        is_live = lease.owner is not None and lease.expires_at > now
        is_orphan = lease.owner == owner and lease.range not in busy
        if lease.range in busy and lease.owner == owner:
            owned[owner] += 1
        elif not is_live or is_orphan:
            free.append(lease)
        elif lease.owner is not None:
            owned[lease.owner] += 1
            takeable.append(lease)
    free = [lease for lease in free if lease.range not in busy]
    share = math.ceil(len(leases) / len(owned))
    needed = share - owned[owner]
    if needed <= 0:
        return []
    if free:
        return free[:needed]
    richest, most = max(owned.items(), key=lambda item: item[1])
    # A host that needs only one more range takes none from a host that holds just its share.
    if richest == owner or most <= share - (1 if needed > 1 else 0):
        return []
    return [lease for lease in takeable if lease.owner == richest and lease.range not in busy][:1]
