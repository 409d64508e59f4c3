"""Filters and conditions on exec documents as SQL."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from engine.store.base import Filter
from engine.store.conditions import Condition, Path, contains

_COLUMNS: dict[Path, str] = {
    ("executionId",): "execution_id",
    ("workflow",): "workflow",
    ("status",): "status",
    ("dueAt",): "due_at",
    ("createdAt",): "created_at",
}
"""Fields with a column of their own, which an index may serve."""

_BODY = "CASE WHEN json_valid(body) THEN body END"
"""A body that was cut off has no fields: SQLite would refuse the whole query for it."""

ETAG_IN_BODY = f"json_extract({_BODY}, '$._etag')"
"""The etag that a body has; null if it is cut off."""


def add_functions(db: sqlite3.Connection) -> None:
    """Give a connection the functions that conditions use."""
    db.create_function("contains", 2, _contains, deterministic=True)


def selected(filter: Filter) -> tuple[list[str], list[Any]]:
    """The conditions of a filter, all of which must hold, and the values for their question marks."""
    where, parameters = ["created_at IS NOT NULL"], list[Any]()
    for column, value in (("workflow", filter.workflow), ("status", filter.status)):
        if value is not None:
            where.append(f"{column} = ?")
            parameters.append(value)
    if filter.outcome is not None:
        where.append(f"json_extract({_BODY}, '$.outcome') = ?")
        parameters.append(filter.outcome)
    if filter.suspended_with_cause:
        where.append(f"json_extract({_BODY}, '$.cause') IS NOT NULL")
    for condition in filter.conditions:
        text, bound = _translated(condition)
        where.append(text)
        parameters += bound
    return where, parameters


def _translated(condition: Condition) -> tuple[str, list[Any]]:
    """The SQL of a condition, and the values for its question marks."""
    tests, bound = [], list[Any]()
    for path in condition.paths:
        field = _COLUMNS.get(path, f"json_extract({_BODY}, ?)")
        if path not in _COLUMNS:
            bound.append("$" + "".join(f".{json.dumps(name)}" for name in path))
        match condition.operator:
            case "there":
                tests.append(f"{field} IS NOT NULL")
            case "is":
                tests.append(f"{field} IN ({', '.join('?' * len(condition.values))})")
            case "contains":
                tests.append(f"contains({field}, ?)")
            case operator:
                tests.append(f"{field} {operator} ?")
        bound += condition.values
    text = f"({' OR '.join(tests)})"
    return (f"NOT coalesce({text}, 0)" if condition.negated else text), bound


def _contains(text: object, part: str) -> bool:
    return isinstance(text, str) and contains(text, part)
