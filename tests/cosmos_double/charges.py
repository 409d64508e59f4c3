"""Request units, by a small model.

Where the numbers are from:

- a point read of 1 KB is 1 RU and of 100 KB 10 RU; creating 1 KB costs about 5.5 RU without indexing and a
  replace twice that (https://learn.microsoft.com/azure/cosmos-db/request-units and
  https://learn.microsoft.com/azure/cosmos-db/key-value-store-cost);
- a hosted account (public repository xo/dbimp, docs/COSMOS.md) charged, with every path indexed, 6.67 to
  create or delete a small item of four properties, 7.05 with five, 11.05 to replace it, 2.26 for a query of
  one item, 38.14 for a query of 2,500, 0.38 for a refusal with 429.

The model fits these within a few per cent. It is good for comparing designs, not for a bill.
"""

import math

REFUSED = 1.0
THROTTLED = 0.38
CONTROL = 2.0
EMPTY_FEED = 1.0

_WRITE = 5.5
_PER_INDEXED_PATH = 0.3
_QUERY = 2.25
_PER_ITEM = 0.0145


def _growth(size: int) -> float:
    """1 for up to 1 KB, 10 for 100 KB, straight between and beyond."""
    return 1 + (max(math.ceil(size / 1024), 1) - 1) / 11


def read(size: int) -> float:
    return round(_growth(size), 2)


def create(size: int, indexed_paths: int) -> float:
    return round(_WRITE * _growth(size) + _PER_INDEXED_PATH * indexed_paths, 2)


def delete(size: int, indexed_paths: int) -> float:
    return create(size, indexed_paths)


def replace(size: int, changed_indexed_paths: int) -> float:
    """Also an upsert of an item that exists, and a patch."""
    return round(2 * _WRITE * _growth(size) + _PER_INDEXED_PATH * changed_indexed_paths, 2)


def query(items: int, size: int) -> float:
    """A page that looked at so many items of so many bytes in all: matches only, if the filter is indexed."""
    average = size / items if items else 0
    return round(_QUERY + _PER_ITEM * items * _growth(int(average)), 2)


def feed(items: int, size: int) -> float:
    """A page of the change feed."""
    return EMPTY_FEED if not items else query(items, size)
