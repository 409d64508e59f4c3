"""The golden documents: what a version of the engine stored, each file one container with its story."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.store.documents import Chunk, Document, Execution, InboxItem, Large, Record
from engine.store.sqlite.store import SqliteStore, _insert

HERE = Path(__file__).parent
SCHEMAS = sorted(path for path in HERE.glob("schema*") if path.is_dir())


@dataclass(frozen=True)
class Golden:
    """A container: what happened to its main execution, how that ends once it is driven on, and all documents."""

    name: str
    story: str
    execution_id: str
    ends_as: str
    result: Any
    documents: list[Document]

    @property
    def exec(self) -> Document:
        """The exec document of the main execution."""
        return next(d for d in self.documents if d["id"] == "exec" and d["executionId"] == self.execution_id)


def load(path: Path) -> Golden:
    """What stands in a file."""
    data = json.loads(path.read_text("utf-8"))
    name = f"{path.parent.name}/{path.stem}"
    return Golden(name, data["story"], data["executionId"], data["endsAs"], data["result"], data["documents"])


def goldens() -> list[Golden]:
    """All of them, of all schemas."""
    return [load(path) for schema in SCHEMAS for path in sorted(schema.glob("*.json"))]


def parse(document: Document) -> Record:
    """The record that a document is, by its id."""
    kind = document["id"].partition("::")[0]
    types: dict[str, type[Record]] = {"exec": Execution, "history": Chunk, "input": Large, "output": Large}
    return types.get(kind, InboxItem).from_document(document)


async def put(store: SqliteStore, documents: list[Document]) -> None:
    """Place documents in a store, exactly as they are."""
    for document in documents:
        record = parse(document)
        await store._write(lambda db, record=record: _insert(db, record))  # type: ignore[misc]


async def take(store: SqliteStore) -> list[Document]:
    """All documents of a store, without system fields."""
    query = "SELECT body FROM documents ORDER BY execution_id, id"
    rows = await store._read(lambda db: db.execute(query).fetchall())
    bodies = [json.loads(body) for (body,) in rows]
    return [{name: value for name, value in body.items() if not name.startswith("_")} for body in bodies]
