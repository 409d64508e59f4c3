"""A transition of the exec document in the words of Cosmos DB: patch operations and a predicate."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from engine.ground.clock import isoformat
from engine.store.documents import Document
from engine.store.transitions import Guard, Patch, stored_name


def predicate(guard: Guard) -> str:
    """The SQL condition under which Cosmos DB applies a patch."""
    conditions = (f"c.{stored_name(name)} = {_literal(value)}" for name, value in guard.items())
    return f"FROM c WHERE {' AND '.join(conditions)}"


def operations(transition: Patch, write_id: str) -> list[Document]:
    """The patch that makes the transition, as the write of that id."""
    return [
        *(_increment(name) for name in transition.increment),
        *(_set(name, value) for name, value in transition.set.items()),
        _set("write_id", write_id),
    ]


def mark_write(write_id: str) -> list[Document]:
    """The patch that changes nothing but the id of the last write."""
    return [_set("write_id", write_id)]


def _increment(name: str) -> Document:
    return {"op": "incr", "path": f"/{stored_name(name)}", "value": 1}


def _set(name: str, value: Any) -> Document:
    stored = isoformat(value) if isinstance(value, datetime) else value
    return {"op": "set", "path": f"/{stored_name(name)}", "value": stored}


def _literal(value: str | bool) -> str:
    return json.dumps(value) if isinstance(value, bool) else f"'{value}'"
