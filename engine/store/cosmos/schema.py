"""The database and the containers in Cosmos DB: the one definition, which the emulator's set-up uses and the
infrastructure is compared with.

What is indexed is what is asked for: `dueAt` by the sweep, the others by lists. `id` is always indexed. Payloads,
results, events and everything else are not: an index of what nobody queries is paid for with each write.
"""

from __future__ import annotations

from typing import Any

DATABASE = "workflows"
"""The database's name, unless a setting says otherwise."""
CONTAINER = "executions"
"""The container's name, unless a setting says otherwise."""
LEASES = "leases"
"""The container beside it in which readers of the change feed keep how far they are."""

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
"""Nothing expires by itself, but an item may say when it should (`ttl`)."""

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
