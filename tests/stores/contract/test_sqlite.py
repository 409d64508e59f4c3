"""SqliteStore keeps the promises of `engine.store.base`: in memory, in a file, and through two objects on one file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.store.documents import Document
from engine.store.sqlite.store import SqliteStore
from tests.stores.contract.executions import StoreContract
from tests.stores.contract.limits import LimitsContract
from tests.stores.contract.pages import PagesContract
from tests.stores.contract.signals import SignalsContract


class RawSqlite:
    """The table of documents, through the store's own connection: a store in memory has no other."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def get(self, execution_id: str, id: str) -> Document | None:
        query = "SELECT body FROM documents WHERE execution_id = ? AND id = ?"
        row = await self._store._read(lambda db: db.execute(query, (execution_id, id)).fetchone())
        return json.loads(row[0]) if row else None

    async def put(self, document: Document) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute("UPDATE sequence SET value = value + 1")
            seq = db.execute("SELECT value FROM sequence").fetchone()[0]
            etag = f'"{seq:012d}"'
            is_exec = document["id"] == "exec"
            columns = [document.get(n) if is_exec else None for n in ("workflow", "status", "dueAt", "createdAt")]
            db.execute(
                "INSERT OR REPLACE INTO documents (execution_id, id, body, etag, seq, feed_range, workflow, status, "
                "due_at, created_at) VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?, ?)",
                (document["executionId"], document["id"], json.dumps(document | {"_etag": etag}), etag, seq, *columns),
            )

        await self._store._write(work)

    async def ids(self, execution_id: str) -> list[str]:
        query = "SELECT id FROM documents WHERE execution_id = ? ORDER BY id"
        return await self._store._read(lambda db: [id for (id,) in db.execute(query, (execution_id,))])


class _Suites(StoreContract, SignalsContract, PagesContract, LimitsContract):
    @pytest.fixture
    def raw(self, store: SqliteStore) -> RawSqlite:
        return RawSqlite(store)


class TestInMemory(_Suites):
    """`:memory:`; there is no second process."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[SqliteStore]:
        store = SqliteStore(":memory:")
        yield store
        await store.close()

    @pytest.fixture
    def other(self, store: SqliteStore) -> SqliteStore:
        return store


class TestInAFile(_Suites):
    """A file, which another process has open as well."""

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        store = SqliteStore(tmp_path / "a directory" / "workflows.sqlite")
        yield store
        await store.close()

    @pytest.fixture
    async def other(self, store: SqliteStore, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        other = SqliteStore(tmp_path / "a directory" / "workflows.sqlite")
        yield other
        await other.close()

    @pytest.fixture
    def raw(self, other: SqliteStore) -> RawSqlite:
        return RawSqlite(other)
