"""Storage queues on this machine: one SQLite file, which several hosts may share.

As in Azure, a received message is invisible for a while. Its receiver deletes the message, or makes it visible again.
Each time a message is received, it gets a new receipt, and both calls need the newest receipt. So once a message has
become visible and has been received again, it belongs to the next receiver.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

BUSY_SECONDS = 2.0
"""How long to wait for another host's transaction. A transaction takes less than a millisecond."""
KEPT_SECONDS = 7 * 86_400.0
"""How long a message is kept before it is dropped."""
MAX_BYTES = 48 * 1024
"""The most bytes of a message. In Azure a message holds 64 KB of text, and the platform encodes it in base64."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (
    id            TEXT PRIMARY KEY,
    queue         TEXT NOT NULL,
    body          BLOB NOT NULL,
    inserted_at   REAL NOT NULL,
    expires_at    REAL NOT NULL,
    visible_at    REAL NOT NULL,
    dequeue_count INTEGER NOT NULL DEFAULT 0,
    receipt       TEXT
);
CREATE INDEX IF NOT EXISTS messages_of_queue ON messages (queue, visible_at);
"""
_COLUMNS = "id, queue, body, inserted_at, expires_at, visible_at, dequeue_count, receipt"


@dataclass(frozen=True)
class Message:
    """A message as it was received. Times are in seconds since the epoch."""

    id: str
    queue: str
    body: bytes
    inserted_at: float
    expires_at: float
    visible_at: float
    dequeue_count: int
    receipt: str


class Queues:
    """The queues in a file, or in memory for None. A queue exists once it holds a message."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    async def send(self, queue: str, bodies: Iterable[bytes], now: float) -> None:
        """Adds messages. Raises ValueError if a message is too large, and sqlite3.Error."""
        rows = [(uuid.uuid4().hex, queue, body, now, now + KEPT_SECONDS, now) for body in bodies]
        if any(len(row[2]) > MAX_BYTES for row in rows):
            raise ValueError(f"a message of queue {queue} has more than {MAX_BYTES:,} bytes")
        insert = "INSERT INTO messages (id, queue, body, inserted_at, expires_at, visible_at) VALUES (?, ?, ?, ?, ?, ?)"
        await self._run(lambda db: db.executemany(insert, rows))

    async def receive(self, queue: str, most: int, now: float, invisible_for: float) -> list[Message]:
        """Takes up to `most` visible messages, the oldest first. From `now` on, they are invisible for `invisible_for`
        seconds."""

        def take(db: sqlite3.Connection) -> list[Message]:
            db.execute("DELETE FROM messages WHERE queue = ? AND expires_at <= ?", (queue, now))
            rows = db.execute(
                "UPDATE messages SET visible_at = ?, dequeue_count = dequeue_count + 1, receipt = hex(randomblob(16)) "
                "WHERE id IN (SELECT id FROM messages WHERE queue = ? AND visible_at <= ? ORDER BY visible_at LIMIT ?) "
                f"RETURNING {_COLUMNS}",
                (now + invisible_for, queue, now, most),
            ).fetchall()
            return sorted((Message(*row) for row in rows), key=lambda message: message.inserted_at)

        return await self._run(take)

    async def hide(self, message: Message, until: float) -> bool:
        """Makes a message visible again at the time `until`. Returns False if another receiver has it by now."""
        update = "UPDATE messages SET visible_at = ? WHERE id = ? AND receipt = ?"
        return await self._run(lambda db: db.execute(update, (until, message.id, message.receipt)).rowcount == 1)

    async def delete(self, message: Message, moved_to: str | None = None) -> bool:
        """Removes a message, or puts it into the queue `moved_to`. Returns False if another receiver has it by now."""
        delete = "DELETE FROM messages WHERE id = ? AND receipt = ?"
        move = "UPDATE messages SET visible_at = 0, dequeue_count = 0, queue = ? WHERE id = ? AND receipt = ?"
        of = (message.id, message.receipt)
        statement, values = (delete, of) if moved_to is None else (move, (moved_to, *of))
        return await self._run(lambda db: db.execute(statement, values).rowcount == 1)

    async def count(self, queue: str) -> int:
        """How many messages a queue holds, visible or not."""
        query = "SELECT count(*) FROM messages WHERE queue = ?"
        return await self._run(lambda db: int(db.execute(query, (queue,)).fetchone()[0]))

    def close(self) -> None:
        """Closes the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        db = self._connection or self._open()
        db.execute("BEGIN IMMEDIATE")
        try:
            result = work(db)
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")
        return result

    def _open(self) -> sqlite3.Connection:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        name = ":memory:" if self._path is None else str(self._path)
        db = sqlite3.connect(name, timeout=BUSY_SECONDS, isolation_level=None)
        db.executescript("BEGIN IMMEDIATE;" + _SCHEMA + "COMMIT;")
        self._connection = db
        return db
