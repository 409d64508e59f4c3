"""Writes that wait at a time share one transaction, and each has its own answer."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest

from engine.ground.errors import Conflict, Missing, Taken, Unavailable
from engine.store.sqlite.store import SqliteStore
from tests.stores.contract.executions import execution

IDS = [f"{number:032x}" for number in range(4)]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "group.sqlite")
    with pytest.raises(Missing):
        await store.read(IDS[0])
    yield store
    await store.close()


async def _together(store: SqliteStore, *writes: Awaitable[Any]) -> tuple[list[Any], list[str]]:
    """Have all of these writes wait for the store's thread. Returns their answers, and the statements that followed."""
    go, statements = threading.Event(), list[str]()
    store._thread.submit(go.wait)
    store._connect().set_trace_callback(statements.append)
    waiting = asyncio.gather(*writes, return_exceptions=True)
    await asyncio.sleep(0)
    go.set()
    return await waiting, statements


def _count(statements: list[str], word: str) -> int:
    return sum(statement.startswith(word) for statement in statements)


async def test_what_waits_is_committed_at_once(store: SqliteStore) -> None:
    answers, statements = await _together(store, *(store.create(execution(id)) for id in IDS))
    assert [answer.execution_id for answer in answers] == IDS
    assert (_count(statements, "BEGIN"), _count(statements, "COMMIT")) == (1, 1)
    assert [await store.read(id) for id in IDS] == answers


async def test_a_write_that_fails_is_taken_back_alone(store: SqliteStore) -> None:
    old = await store.create(execution(IDS[0]))
    await store.replace(old)
    changed = await store.read(IDS[0])
    answers, statements = await _together(
        store,
        store.create(execution(IDS[1])),
        store.create(execution(IDS[1], workflow="a second one")),
        store.replace(old),
        store.create(execution(IDS[2])),
        store.replace(changed),
    )
    assert _count(statements, "COMMIT") == 1
    assert [type(answer) for answer in answers[1:3]] == [Taken, Conflict]
    for answer in (answers[0], answers[3], answers[4]):
        assert await store.read(answer.execution_id) == answer


async def test_half_of_a_write_is_never_kept(store: SqliteStore) -> None:
    """The exec document of the second one was written when its `input` was refused."""

    def half(db: sqlite3.Connection) -> None:
        db.execute("UPDATE documents SET body = 'half'")
        raise Taken("as the second document of a batch")

    created = await store.create(execution(IDS[0]))
    answers, _ = await _together(store, store._write(half), store.create(execution(IDS[1])))
    assert isinstance(answers[0], Taken)
    assert await store.read(IDS[0]) == created
    assert await store.read(IDS[1]) == answers[1]


async def test_if_sqlite_takes_back_the_transaction_none_of_its_writes_is_answered_as_done(store: SqliteStore) -> None:
    """As it does by itself when the disk is full."""

    def full(db: sqlite3.Connection) -> None:
        db.execute("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    answers, _ = await _together(
        store, store.create(execution(IDS[0])), store._write(full), store.create(execution(IDS[1]))
    )
    assert [type(answer) for answer in answers] == [Unavailable] * 3
    assert all("disk is full" in str(answer) for answer in answers)
    for id in IDS[:2]:
        with pytest.raises(Missing):
            await store.read(id)
    assert (await store.create(execution(IDS[0]))).execution_id == IDS[0]


async def test_if_the_commit_fails_so_does_each_write(store: SqliteStore) -> None:
    def refuse(action: int, what: str | None, *_: object) -> int:
        return sqlite3.SQLITE_DENY if (action, what) == (sqlite3.SQLITE_TRANSACTION, "COMMIT") else sqlite3.SQLITE_OK

    store._connect().set_authorizer(refuse)
    answers, _ = await _together(store, *(store.create(execution(id)) for id in IDS[:2]))
    store._connect().set_authorizer(None)
    assert [type(answer) for answer in answers] == [Unavailable] * 2
    with pytest.raises(Missing):
        await store.read(IDS[0])


async def test_a_write_that_is_given_up_while_it_waits_is_not_done(store: SqliteStore) -> None:
    async def given_up() -> None:
        waiting = asyncio.create_task(store.create(execution(IDS[0])))
        await asyncio.sleep(0)
        waiting.cancel()
        await waiting

    go = threading.Event()
    store._thread.submit(go.wait)
    other = asyncio.create_task(store.create(execution(IDS[1])))
    with pytest.raises(asyncio.CancelledError):
        await given_up()
    go.set()
    assert await store.read(IDS[1]) == await other
    with pytest.raises(Missing):
        await store.read(IDS[0])
