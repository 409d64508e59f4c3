"""The change feed of a SqliteStore: every document's latest version, in the order of its `seq`.

A continuation is the `seq` of the last document that was handed over. Writers of the store take turns, so no document
can appear later with a smaller `seq`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from engine.store.feed import FeedLease, FeedLeaseLost
from engine.store.sqlite.bodies import document_or_stub

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS feed_leases (
    range        INTEGER PRIMARY KEY,
    owner        TEXT,
    expires_at   REAL NOT NULL DEFAULT 0,
    continuation TEXT,
    version      INTEGER NOT NULL DEFAULT 0
)
"""


class Run(Protocol):
    """Runs `work` on the store's connection, in one transaction. No other writer runs at the same time."""

    def __call__(self, work: Callable[[sqlite3.Connection], T], /) -> Awaitable[T]: ...


class SqliteFeed:
    """The change feed over the store's tables, in `ranges` ranges. `run` runs a transaction of the store, and raises
    the store's errors."""

    def __init__(self, run: Run, ranges: int) -> None:
        self._run, self._ranges = run, ranges
        self._is_ready = False

    async def leases(self) -> list[FeedLease]:
        def work(db: sqlite3.Connection) -> list[FeedLease]:
            rows = db.execute(
                "SELECT range, owner, expires_at, continuation, version FROM feed_leases "
                "WHERE range < ? ORDER BY range",
                (self._ranges,),
            )
            return [_lease(*row) for row in rows]

        await self._prepare()
        return await self._run(work)

    async def renew(
        self, lease: FeedLease, owner: str | None, expires_at: float, continuation: str | None
    ) -> FeedLease:
        version = int(lease.version)
        range = int(lease.range)

        def work(db: sqlite3.Connection) -> FeedLease:
            updated = db.execute(
                "UPDATE feed_leases SET owner = ?, expires_at = ?, continuation = ?, version = ? "
                "WHERE range = ? AND version = ?",
                (owner, expires_at, continuation, version + 1, range, version),
            )
            if updated.rowcount != 1:
                raise FeedLeaseLost(f"range {range} of the change feed was leased again since version {version}")
            return _lease(range, owner, expires_at, continuation, version + 1)

        await self._prepare()
        return await self._run(work)

    async def read(self, range: str, continuation: str | None, limit: int) -> tuple[list[dict[str, Any]], str]:
        start = int(continuation or 0)

        def work(db: sqlite3.Connection) -> list[tuple[str, str, str, int]]:
            query = (
                "SELECT execution_id, id, body, seq FROM documents "
                "WHERE feed_range = ? AND seq > ? ORDER BY seq LIMIT ?"
            )
            return db.execute(query, (int(range), start, limit)).fetchall()

        rows = await self._run(work)
        # Decoded on the caller's thread, because other calls wait for the store's thread.
        documents = [{**document_or_stub(*row), "_lsn": seq} for *row, seq in rows]
        return documents, str(rows[-1][-1] if rows else start)

    async def _prepare(self) -> None:
        """Create the table of leases, with a row for each range, once."""
        if self._is_ready:
            return

        def work(db: sqlite3.Connection) -> None:
            db.execute(_SCHEMA)
            db.executemany("INSERT OR IGNORE INTO feed_leases (range) VALUES (?)", ((n,) for n in range(self._ranges)))

        await self._run(work)
        self._is_ready = True


def _lease(range: int, owner: str | None, expires_at: float, continuation: str | None, version: int) -> FeedLease:
    return FeedLease(str(range), owner, expires_at, continuation, str(version))
