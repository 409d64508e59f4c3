"""Which leases a host takes."""

from __future__ import annotations

import random

import pytest

from devhost.balance import leases_to_take
from engine.store.feed import FeedLease

NOW = 1000.0


def lease(range: int, owner: str | None, expires_at: float = NOW + 10) -> FeedLease:
    return FeedLease(str(range), owner, expires_at, None, "0")


def taken(owners: list[str | None], busy: str = "", me: str = "me") -> str:
    """The ranges that `me` takes where each range has that owner; one in capitals has let its lease expire."""
    leases = [
        lease(n, owner, NOW + 10) if owner is None or owner.islower() else lease(n, owner.lower(), NOW)
        for n, owner in enumerate(owners)
    ]
    return "".join(lease.range for lease in leases_to_take(leases, me, NOW, set(busy)))


@pytest.mark.parametrize(
    ("owners", "busy", "expected"),
    [
        ([None] * 4, "", "0123"),
        (["A", "A", "A", "A"], "", "0123"),
        (["me"] * 4, "0123", ""),
        # Two hosts share: half of what is free, else one at a time from the other.
        ([None, None, "a", "a"], "", "01"),
        ([None, None, None, "a"], "", "01"),
        (["a", "a", "a", "a"], "", "0"),
        (["me", "a", "a", "a"], "0", "1"),
        (["me", "me", "a", "a"], "01", ""),
        # An uneven share: who needs one only leaves alone a host that has no more than its share.
        (["a", "a", "me"], "2", ""),
        (["a", "a", "b", "b"], "", "0"),
        (["a", "b", "b", "me"], "3", ""),
        (["a", "b", "c", "d"], "", ""),
        (["a"], "", ""),
        # What is free comes before what is another's.
        (["a", "a", "a", "B"], "", "3"),
        # A lease of this very host that nothing reads any more is free.
        (["me", "a", "a", "me"], "0", "3"),
        # Ranges that this host still reads are left, whoever holds the lease.
        ([None, "A", "a", "me"], "013", ""),
        ([], "", ""),
    ],
)
def test_what_is_taken(owners: list[str | None], busy: str, expected: str) -> None:
    assert taken(owners, busy) == expected


@pytest.mark.parametrize("ranges", [1, 3, 4, 10])
@pytest.mark.parametrize("hosts", [1, 2, 3, 5])
def test_any_start_ends_in_a_fair_share_and_stays(ranges: int, hosts: int) -> None:
    chance = random.Random(f"{ranges}/{hosts}")
    names = [f"host{n}" for n in range(hosts)]
    owners = [chance.choice([*names, None]) for _ in range(ranges)]
    for turn in range(200):
        name = names[turn % hosts]
        leases = [lease(n, owner) for n, owner in enumerate(owners)]
        busy = {str(n) for n, owner in enumerate(owners) if owner == name}
        takes = leases_to_take(leases, name, NOW, busy)
        assert turn < 100 or takes == []
        for take in takes:
            owners[int(take.range)] = name
    counts = sorted(owners.count(name) for name in names)
    assert sum(counts) == ranges
    assert counts[-1] <= -(-ranges // hosts)
