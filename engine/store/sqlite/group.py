"""Group commit: the writes that wait at a time go into one transaction, and each has an answer of its own.

Rules:
1. Each write is a savepoint of the transaction. One that fails is taken back alone, and the others are kept.
2. No write is answered before the commit. If the commit fails, or SQLite has taken back the whole transaction, all of
   its writes fail.
"""

from __future__ import annotations

import collections
import concurrent.futures
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

MOST_WRITES = 64
"""Writes of one transaction: the first one waits for the last one."""

Work = Callable[[sqlite3.Connection], T]


@dataclass(frozen=True, eq=False)
class _Write:
    work: Work[Any]
    answer: concurrent.futures.Future[Any]


class WaitingWrites:
    """The writes that wait for the store's thread. `add` may be called by any thread, `commit_some` by that one."""

    def __init__(self) -> None:
        self._waiting: collections.deque[_Write] = collections.deque()

    def add(self, work: Work[T]) -> concurrent.futures.Future[T]:
        """Have `work` done in one of the next transactions. Whoever adds must see that `commit_some` is called."""
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._waiting.append(_Write(work, answer))
        return answer

    def commit_some(self, connect: Callable[[], sqlite3.Connection]) -> None:
        """Do what waits, in one transaction, and answer it. Does nothing if another call has done it all."""
        writes = self._take()
        if not writes:
            return
        try:
            answers = _commit(connect(), [write.work for write in writes])
        except BaseException as error:  # noqa: BLE001 - raised where each write is awaited
            answers = [(None, error)] * len(writes)
        for write, (result, problem) in zip(writes, answers, strict=True):
            if problem is not None:
                write.answer.set_exception(problem)
            else:
                write.answer.set_result(result)

    def _take(self) -> list[_Write]:
        writes = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_WRITES))]
        return [write for write in writes if write.answer.set_running_or_notify_cancel()]


_Answer = tuple[Any, BaseException | None]


def _commit(db: sqlite3.Connection, works: list[Work[Any]]) -> list[_Answer]:
    """Do all in one transaction. Returns the result of each, or what it raised. Raises what took all of them back."""
    db.execute("BEGIN IMMEDIATE")
    try:
        answers = [_attempt(db, work) for work in works]
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return answers


def _attempt(db: sqlite3.Connection, work: Work[Any]) -> _Answer:
    db.execute("SAVEPOINT one")
    try:
        answer: _Answer = (work(db), None)
    except Exception as error:
        if not db.in_transaction:  # SQLite has taken back everything: the disk is full, or a read of it failed
            raise
        db.execute("ROLLBACK TO one")
        answer = (None, error)
    db.execute("RELEASE one")
    return answer
