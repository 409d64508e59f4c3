"""What is stored of an execution: read, changed and deleted behind the engine's back."""

from __future__ import annotations

import json
from typing import Any

from engine.store.cosmos.store import CosmosStore
from engine.testing import Environment


async def purge(env: Environment, id: str) -> None:
    """Purge it as soon as that is possible: what started it is not under way any more."""
    env.clock.advance(env.store.resend_window + env.settings.skew)
    await env.client.purge(id)


def store_of(env: Environment) -> Any:
    """The store under an environment's hooks."""
    return env.store.inner


async def image(env: Environment, id: str) -> list[Any]:
    """Everything in an execution's partition, with its etags."""
    store = store_of(env)
    if isinstance(store, CosmosStore):
        documents = await store._items.query("image", id, "SELECT * FROM c")
        return sorted(json.dumps(document, sort_keys=True) for document in documents)
    query = "SELECT id, body, etag, seq FROM documents WHERE execution_id = ? ORDER BY id"
    return list(await store._read(lambda db: db.execute(query, (id,)).fetchall()))


async def delete(env: Environment, id: str, document: str) -> None:
    """Remove a document behind the engine's back."""
    query = "DELETE FROM documents WHERE execution_id = ? AND id = ?"
    deleted = await store_of(env)._write(lambda db: db.execute(query, (id, document)).rowcount)
    assert deleted == 1, f"there is no {document}"


async def overwrite(env: Environment, id: str, document: str, body: str) -> None:
    """Put another text in a document's place behind the engine's back."""
    query = "UPDATE documents SET body = ? WHERE execution_id = ? AND id = ?"
    changed = await store_of(env)._write(lambda db: db.execute(query, (body, id, document)).rowcount)
    assert changed == 1, f"there is no {document}"
