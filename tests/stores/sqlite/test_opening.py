"""Opening a file that another process is opening."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from engine.ground.errors import Missing, Unavailable
from engine.store.sqlite import store as sqlite
from engine.store.sqlite.store import SqliteStore
from tests.stores.cosmos.support import execution

ID = "0" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new.sqlite"


async def test_a_store_waits_for_another_that_makes_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write transaction on a file that isn't WAL yet: SQLite refuses the change to WAL at once, without waiting."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE theirs (x)")
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            other.execute("COMMIT")

        monkeypatch.setattr(sqlite.time, "sleep", wait)  # type: ignore[attr-defined]
        store = SqliteStore(path)
        with pytest.raises(Missing):
            await store.read(ID)
        assert len(waits) == 1
        await store.close()


async def test_a_store_that_waits_in_vain_is_unavailable_and_tries_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection that failed is closed, and the next call makes another."""
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0)
    store = SqliteStore(path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked"):
            await store.read(ID)
        other.execute("ROLLBACK")
    with pytest.raises(Missing):
        await store.read(ID)
    await store.close()


async def test_its_change_feed_gives_what_was_written(path: Path) -> None:
    store = SqliteStore(path)
    created = await store.create(execution())
    feed = store.change_feed()
    found = [one for lease in await feed.leases() for one in (await feed.read(lease.range, None, 10))[0]]
    assert [(one["executionId"], one["id"]) for one in found] == [(created.execution_id, "exec")]
    await store.close()
