"""What a list may ask of an execution's exec document, in the words that every store understands.

Rules:
1. A condition is a value. `holds` is its meaning; each store translates it into its own query, and must agree.
2. A field that the document doesn't have meets no condition, and so it meets every negated one.
3. A store's index serves the paths of INDEXED. A query that narrows by none of them reads every execution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.store.documents import Document

Path = tuple[str, ...]
"""The stored names that lead to a field."""
Operator = Literal["is", "contains", "there", "<", "<=", ">", ">="]
"""`is`: one of the values. `contains`: the one value, in upper or lower case. `there`: the field exists."""

INDEXED: frozenset[Path] = frozenset(
    {("executionId",), ("dueAt",), ("createdAt",), ("status",), ("workflow",), ("outcome",)}
)
"""What the containers index: see `engine.store.cosmos.schema`. `executionId` is the partition."""


@dataclass(frozen=True)
class Condition:
    """Any of `paths` meets `operator` with `values`; with `negated`, none does."""

    paths: tuple[Path, ...]
    operator: Operator
    values: tuple[str | bool, ...] = ()
    negated: bool = False

    @property
    def narrows(self) -> bool:
        """Whether an index leads to the few executions that meet it."""
        return not self.negated and all(path in INDEXED for path in self.paths)

    def holds(self, document: Document) -> bool:
        """Whether a stored exec document meets the condition."""
        return any(self._is_met_by(_field(document, path)) for path in self.paths) != self.negated

    def _is_met_by(self, value: Any) -> bool:
        if value is None:
            return False
        match self.operator:
            case "there":
                return True
            case "is":
                return value in self.values
            case "contains":
                return isinstance(value, str) and contains(value, str(self.values[0]))
            case "<":
                return bool(value < self.values[0])
            case "<=":
                return bool(value <= self.values[0])
            case ">":
                return bool(value > self.values[0])
            case ">=":
                return bool(value >= self.values[0])


def contains(text: str, part: str) -> bool:
    """Whether `part` stands in `text`, in upper or lower case."""
    return part.casefold() in text.casefold()


def _field(document: Document, path: Path) -> Any:
    found: Any = document
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found
