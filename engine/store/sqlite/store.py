"""SqliteStore: the embedded store, one file (or `:memory:`), for the local host and for tests.

It keeps the promises of `engine.store.base` with one table of JSON documents. Every read is one transaction on the
store's own thread, and the writes that wait at a time share one (`group.py`). Several processes may share a file (WAL,
with `BEGIN IMMEDIATE` before writes). A commit survives the death of the process at any moment. If the machine loses
power, the last commits may be lost.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from engine.ground.clock import isoformat
from engine.ground.errors import (
    Conflict,
    DecodingError,
    InvalidInput,
    Missing,
    Taken,
    TooLarge,
    Unavailable,
)
from engine.store import transitions
from engine.store.base import Filter, Loaded, Page, page_of, sort_documents
from engine.store.documents import EXEC, Chunk, Document, Execution, InboxItem, Large, Record
from engine.store.feed import ChangeFeed
from engine.store.limit_state import LIMIT, LimitState
from engine.store.sqlite.bodies import document_of, document_or_stub
from engine.store.sqlite.conditions import ETAG_IN_BODY, add_functions, selected
from engine.store.sqlite.feed import SqliteFeed
from engine.store.sqlite.group import WaitingWrites

T = TypeVar("T")

MAX_DOCUMENT_BYTES = 2_000_000
"""The limit of Cosmos DB, so that no program works on SQLite only."""
FEED_RANGES = 4
"""Ranges of the change feed, which devhosts share."""
BUSY_SECONDS = 30
"""Seconds that a transaction waits for another process to finish its own."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
    execution_id TEXT NOT NULL,
    id           TEXT NOT NULL,
    body         TEXT NOT NULL,
    etag         TEXT NOT NULL,
    seq          INTEGER NOT NULL UNIQUE,
    feed_range   INTEGER NOT NULL,
    workflow     TEXT,
    status       TEXT,
    due_at       TEXT,
    created_at   TEXT,
    PRIMARY KEY (execution_id, id)
);
CREATE INDEX IF NOT EXISTS feed ON documents (feed_range, seq);
CREATE INDEX IF NOT EXISTS due ON documents (due_at, execution_id) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS newest ON documents (created_at, execution_id) WHERE created_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS sequence (value INTEGER NOT NULL);
INSERT INTO sequence SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM sequence);
"""


class SqliteStore:
    """A store in one SQLite file. `path` names the file, or is `:memory:`."""

    def __init__(self, path: str | Path = ":memory:") -> None:
        self._path = str(path)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="sqlite-store")
        self._connection: sqlite3.Connection | None = None
        self._writes = WaitingWrites()

    # -- the engine's words --

    @property
    def resend_window(self) -> timedelta:
        return timedelta(0)

    async def create(
        self, execution: Execution, input: Large | None = None, beside: Sequence[Chunk | InboxItem] = ()
    ) -> Execution:
        def work(db: sqlite3.Connection) -> Execution:
            etag = _insert(db, execution)
            for record in (*beside, *([input] if input is not None else [])):
                _insert(db, record)
            return execution.model_copy(update={"etag": etag})

        return await self._write(work)

    async def read(self, execution_id: str) -> Execution:
        return await self._read(lambda db: _read(db, execution_id))

    async def load(self, execution_id: str, from_chunk: int = 0) -> Loaded:
        def work(db: sqlite3.Connection) -> Loaded:
            first = f"history::{from_chunk:08d}"
            rows = db.execute(
                "SELECT id, body FROM documents WHERE execution_id = ? "
                "AND (id NOT LIKE 'history::%' OR id >= ?) ORDER BY id",
                (execution_id, first),
            )
            documents, problems = list[Document](), dict[str, str]()
            for id, body in rows:
                if id == EXEC and '"lastEvents"' not in body:
                    continue
                try:
                    documents.append(document_of(execution_id, id, body))
                except DecodingError as error:
                    problems[id] = str(error)
            return sort_documents(documents, from_chunk, problems)

        return await self._read(work)

    async def replace(self, execution: Execution) -> Execution:
        return await self.commit(execution)

    async def append(self, chunk: Chunk) -> None:
        def work(db: sqlite3.Connection) -> None:
            _insert(db, chunk)

        await self._write(work)

    async def commit(
        self,
        execution: Execution,
        chunk: Chunk | None = None,
        output: Large | None = None,
        discard: Sequence[str] = (),
    ) -> Execution:
        def work(db: sqlite3.Connection) -> Execution:
            for record in (chunk, output):
                if record is not None:
                    _insert(db, record)
            for id in discard:
                _delete(db, execution.execution_id, id)
            return _replace(db, execution)

        return await self._write(work)

    async def signal(self, item: InboxItem, now: datetime) -> Execution:
        def work(db: sqlite3.Connection) -> Execution:
            woken = transitions.add_inbox_item(now).apply(_read(db, item.execution_id))
            _insert(db, item)
            return _replace(db, woken)

        return await self._write(work)

    async def read_inbox(self, execution_id: str, id: str) -> InboxItem:
        return await self._read(lambda db: InboxItem.from_document(_fetch(db, execution_id, id)))

    async def interrupt(
        self, execution_id: str, now: datetime, reason: str | None = None, by: str | None = None
    ) -> Execution:
        def work(db: sqlite3.Connection) -> Execution:
            execution = _read(db, execution_id)
            transition = transitions.interrupt(now, reason, by)
            if not transition.is_allowed(execution):
                return execution
            return _replace(db, transition.apply(execution))

        return await self._write(work)

    async def due(self, now: datetime, limit: int, continuation: str | None = None) -> Page:
        return await self._page("due_at", "ASC", ["due_at <= ?"], [isoformat(now)], limit, continuation)

    async def list(self, filter: Filter, limit: int, continuation: str | None = None) -> Page:
        where, parameters = selected(filter)
        return await self._page("created_at", "DESC", where, parameters, limit, continuation)

    async def total(self, filter: Filter) -> int:
        where, parameters = selected(filter)
        query = f"SELECT COUNT(*) FROM documents WHERE {' AND '.join(where)}"
        return await self._read(lambda db: int(db.execute(query, parameters).fetchone()[0]))

    async def read_limit(self, id: str) -> LimitState:
        return await self._read(lambda db: LimitState.from_document(_fetch(db, id, LIMIT)))

    async def write_limit(self, state: LimitState) -> LimitState:
        def work(db: sqlite3.Connection) -> LimitState:
            return state.model_copy(update={"etag": _write_limit(db, state)})

        return await self._write(work)

    async def purge(self, execution: Execution) -> None:
        def work(db: sqlite3.Connection) -> None:
            current = _read(db, execution.execution_id)
            if current.etag != execution.etag:
                raise Conflict(f"execution {execution.execution_id} changed since it was read")
            transitions.mark_for_purge(current).apply(current)  # only its guard matters: this is one transaction
            db.execute("DELETE FROM documents WHERE execution_id = ?", (execution.execution_id,))

        await self._write(work)

    def change_feed(self) -> ChangeFeed:
        return SqliteFeed(self._write, FEED_RANGES)

    async def close(self) -> None:
        def work() -> None:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        await asyncio.get_running_loop().run_in_executor(self._thread, work)
        self._thread.shutdown(wait=False)

    # -- inside --

    async def _page(
        self,
        column: str,
        order: str,
        where: Sequence[str],
        parameters: Sequence[Any],
        limit: int,
        continuation: str | None,
    ) -> Page:
        if continuation is not None:
            where = [*where, f"({column}, execution_id) {'>' if order == 'ASC' else '<'} (?, ?)"]
            parameters = [*parameters, *_position(continuation)]
        query = (
            f"SELECT body, {column}, execution_id FROM documents WHERE {' AND '.join(where)} "
            f"ORDER BY {column} {order}, execution_id {order} LIMIT ?"
        )

        def work(db: sqlite3.Connection) -> Page:
            rows = db.execute(query, (*parameters, limit)).fetchall()
            more = json.dumps(rows[-1][1:]) if len(rows) == limit else None
            return page_of((document_or_stub(execution_id, EXEC, body) for body, _, execution_id in rows), more)

        return await self._read(work)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def transaction() -> T:
            db = self._connect()
            db.execute("BEGIN")
            try:
                return work(db)
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

        with self._our_errors():
            return await asyncio.get_running_loop().run_in_executor(self._thread, transaction)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        answer = self._writes.add(work)
        self._thread.submit(self._writes.commit_some, self._connect)
        with self._our_errors():
            return await asyncio.wrap_future(answer)

    @contextlib.contextmanager
    def _our_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise Taken(f"a document with that id already exists ({error})") from error
        except sqlite3.Error as error:
            raise Unavailable(f"SQLite file {self._path}: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._path != ":memory:":
                Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                _use_wal(db)
                add_functions(db)
                db.execute("PRAGMA synchronous = NORMAL")
                db.executescript("BEGIN IMMEDIATE;" + _SCHEMA + "COMMIT;")
            except sqlite3.Error:
                db.close()
                raise
            self._connection = db
        return self._connection


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch a new file to WAL. If another process does so at the same time, SQLite refuses at once; this tries
    again."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _position(continuation: str) -> list[str]:
    try:
        moment, execution_id = map(str, json.loads(continuation))
        (moment + execution_id).encode()  # no lone surrogates: SQLite can't take them
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(
            "the continuation isn't one that a previous page returned", [("continuation", "malformed")]
        ) from None
    return [moment, execution_id]


def _insert(db: sqlite3.Connection, record: Record) -> str:
    """Add a document. Returns its etag."""
    body, etag, seq = _body(db, record)
    db.execute(
        "INSERT INTO documents (body, etag, seq, workflow, status, due_at, created_at, execution_id, id, feed_range) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (body, etag, seq, *_columns(record), record.execution_id, record.id, _range(record.execution_id)),
    )
    return etag


def _replace(db: sqlite3.Connection, execution: Execution) -> Execution:
    key = (execution.execution_id, EXEC)
    row = db.execute(f"SELECT {ETAG_IN_BODY} FROM documents WHERE execution_id = ? AND id = ?", key).fetchone()
    if row != (execution.etag,) and _read(db, execution.execution_id).etag != execution.etag:
        raise Conflict(f"execution {execution.execution_id} changed since it was read")
    body, etag, seq = _body(db, execution)
    db.execute(
        "UPDATE documents SET body = ?, etag = ?, seq = ?, workflow = ?, status = ?, due_at = ?, created_at = ? "
        "WHERE execution_id = ? AND id = ?",
        (body, etag, seq, *_columns(execution), *key),
    )
    return execution.model_copy(update={"etag": etag})


def _write_limit(db: sqlite3.Connection, state: LimitState) -> str:
    """Create or replace a limit's document. Returns its etag."""
    row = db.execute("SELECT etag FROM documents WHERE execution_id = ? AND id = ?", (state.execution_id, LIMIT))
    if (found := row.fetchone()) != ((state.etag,) if state.etag else None):
        raise Conflict(f"limit {state.execution_id} changed since it was read")
    if found is None:
        return _insert(db, state)
    body, etag, seq = _body(db, state)
    db.execute(
        "UPDATE documents SET body = ?, etag = ?, seq = ? WHERE execution_id = ? AND id = ?",
        (body, etag, seq, state.execution_id, LIMIT),
    )
    return etag


def _delete(db: sqlite3.Connection, execution_id: str, id: str) -> None:
    deleted = db.execute("DELETE FROM documents WHERE execution_id = ? AND id = ?", (execution_id, id))
    if not deleted.rowcount:
        raise Missing(f"execution {execution_id} has no document {id}")


def _body(db: sqlite3.Connection, record: Record) -> tuple[str, str, int]:
    db.execute("UPDATE sequence SET value = value + 1")
    seq: int = db.execute("SELECT value FROM sequence").fetchone()[0]
    etag = f'"{seq:012d}"'
    body = _json.encode({**record.to_document(), "_etag": etag})
    size = len(body.encode())
    if size > MAX_DOCUMENT_BYTES:
        raise TooLarge(f"document {record.id} takes {size:,} bytes; the limit is {MAX_DOCUMENT_BYTES:,}")
    return body, etag, seq


_json = json.JSONEncoder(ensure_ascii=False)


def _columns(record: Record) -> Sequence[str | None]:
    if not isinstance(record, Execution):
        return (None, None, None, None)
    due_at = isoformat(record.due_at) if record.due_at else None
    return (record.workflow, record.status, due_at, isoformat(record.created_at))


def _fetch(db: sqlite3.Connection, execution_id: str, id: str) -> Document:
    row = db.execute("SELECT body FROM documents WHERE execution_id = ? AND id = ?", (execution_id, id)).fetchone()
    if row is None:
        raise Missing(f"execution {execution_id} has no document {id}")
    return document_of(execution_id, id, row[0])


def _read(db: sqlite3.Connection, execution_id: str) -> Execution:
    return Execution.from_document(_fetch(db, execution_id, EXEC))


def _range(execution_id: str) -> int:
    return zlib.crc32(execution_id.encode()) % FEED_RANGES
