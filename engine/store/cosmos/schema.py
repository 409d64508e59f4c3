"""The one definition of the database and its containers. `init.py` creates them from it, and a test compares the
infrastructure with it.

Only the fields that queries use are indexed: `dueAt` for the sweep, the others for lists. Cosmos DB always indexes
`id`. Payloads, results and events aren't indexed, because every write pays for its indexes.
"""

from __future__ import annotations

from typing import Any

DATABASE = "workflows"
"""The database's name, unless a setting says otherwise."""
CONTAINER = "executions"
"""The container's name, unless a setting says otherwise."""
LEASES = "leases"
"""The container in which readers of the change feed store how far they have come."""

PARTITION_KEY = "/executionId"
LEASES_PARTITION_KEY = "/id"
INDEXED = ("/dueAt/?", "/createdAt/?", "/status/?", "/workflow/?", "/outcome/?")
INDEXING_POLICY: dict[str, Any] = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": path} for path in INDEXED],
    "excludedPaths": [{"path": "/*"}],
}
DEFAULT_TTL = -1
"""Documents don't expire, unless a document has a `ttl` of its own."""

MAX_DOCUMENT_BYTES = 2_000_000
"""Of one document as JSON. The service takes 2 MiB (https://learn.microsoft.com/azure/cosmos-db/concepts-limits); the
rest is for its own fields. SqliteStore has the same limit."""
MAX_BATCH_BYTES = 2_080_000
"""Of the documents of one transactional batch; the service takes 2 MiB, their envelope included."""
MAX_BATCH_OPERATIONS = 100
"""Operations in one transactional batch."""


def container_definition(name: str = CONTAINER) -> dict[str, Any]:
    """The container of executions, as the service's REST interface takes it."""
    return {
        "id": name,
        "partitionKey": {"paths": [PARTITION_KEY], "kind": "Hash", "version": 2},
        "indexingPolicy": INDEXING_POLICY,
        "defaultTtl": DEFAULT_TTL,
    }


def leases_definition(name: str = LEASES) -> dict[str, Any]:
    """The container of leases, as the service's REST interface takes it. The Functions host wants it so."""
    return {
        "id": name,
        "partitionKey": {"paths": [LEASES_PARTITION_KEY], "kind": "Hash", "version": 2},
        "defaultTtl": DEFAULT_TTL,
    }
