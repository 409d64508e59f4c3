"""Effective partition keys: the hash that decides which physical partition holds an item.

The SDK computes the same hash itself (for feed ranges, `read_items`, session tokens), so this is the real
one: MurmurHash3 x64 128 over a typed encoding of the key, two top bits cleared, as upper-case hex. Ranges of it
are compared as strings, from "" to "FF". Written from the public algorithm; a test compares it with the SDK's.
"""

import itertools
import struct
from typing import Any

MIN, MAX = "", "FF"
_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_TOP = 1 << 126  # two top bits are always clear


class Undefined:
    """The key of an item that lacks the property. One value only: `UNDEFINED`."""

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED = Undefined()


def effective_key(value: Any) -> str:
    """The effective partition key of one key value (kind Hash, version 2)."""
    low, high = murmur3_128(_encode(value))
    data = bytearray(((high << 64) | low).to_bytes(16, "big"))
    data[0] &= 0x3F
    return data.hex().upper()


def boundaries(count: int) -> list[tuple[str, str]]:
    """`count` equal hash ranges, as (inclusive minimum, exclusive maximum)."""
    cuts = [MIN, *(f"{_TOP * index // count:032X}" for index in range(1, count)), MAX]
    return list(itertools.pairwise(cuts))


def middle(minimum: str, maximum: str) -> str:
    """The key that halves a range."""
    low = int(minimum.ljust(32, "0"), 16) if minimum else 0
    high = _TOP if maximum == MAX else int(maximum.ljust(32, "0"), 16)
    return f"{(low + high) // 2:032X}"


def _encode(value: Any) -> bytes:
    if value is UNDEFINED:
        return b"\x00"
    if value is None:
        return b"\x01"
    if value is False:
        return b"\x02"
    if value is True:
        return b"\x03"
    if isinstance(value, int | float):
        return b"\x05" + struct.pack("<d", float(value))
    return b"\x08" + str(value).encode("utf-8") + b"\xff"


def murmur3_128(data: bytes) -> tuple[int, int]:
    """(low, high) 64 bits of MurmurHash3 x64 128 with seed 0."""
    h1 = h2 = 0
    whole = len(data) // 16 * 16
    for start in range(0, whole, 16):
        k1, k2 = struct.unpack_from("<QQ", data, start)
        h1 = (_rotate(h1 ^ _mix_k1(k1), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_rotate(h2 ^ _mix_k2(k2), 31) + h1) * 5 + 0x38495AB5 & _MASK
    k1, k2 = struct.unpack("<QQ", data[whole:].ljust(16, b"\x00"))
    h2 ^= _mix_k2(k2)
    h1 ^= _mix_k1(k1)
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _finish(h1), _finish(h2)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return h1, h2


def _mix_k1(value: int) -> int:
    return _rotate(value * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_k2(value: int) -> int:
    return _rotate(value * _C2 & _MASK, 33) * _C1 & _MASK


def _rotate(value: int, count: int) -> int:
    return (value << count | value >> 64 - count) & _MASK


def _finish(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
