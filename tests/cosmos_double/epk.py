"""Effective partition keys: the hash that decides which physical partition holds an item.

The SDK computes this hash itself, for feed ranges and session tokens, so the double takes it from there. Ranges of it
are compared as strings, from "" to "FF".
"""

import itertools
from typing import Any

from azure.cosmos.partition_key import PartitionKey, _Undefined

MIN, MAX = "", "FF"
_TOP = 1 << 126  # two top bits are always clear


class Undefined:
    """The key of an item that lacks the property. One value only: `UNDEFINED`."""

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED = Undefined()


def effective_key(value: Any) -> str:
    """The effective partition key of one key value (kind Hash, version 2)."""
    given = _Undefined() if value is UNDEFINED else value
    return str(PartitionKey(path="/any")._get_effective_partition_key_string([given]))


def boundaries(count: int) -> list[tuple[str, str]]:
    """`count` equal hash ranges, as (inclusive minimum, exclusive maximum)."""
    cuts = [MIN, *(f"{_TOP * index // count:032X}" for index in range(1, count)), MAX]
    return list(itertools.pairwise(cuts))


def middle(minimum: str, maximum: str) -> str:
    """The key that halves a range."""
    low = int(minimum.ljust(32, "0"), 16) if minimum else 0
    high = _TOP if maximum == MAX else int(maximum.ljust(32, "0"), 16)
    return f"{(low + high) // 2:032X}"
