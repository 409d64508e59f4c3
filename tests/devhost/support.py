"""What the tests of the local host share: a clock that they move, feeds that they fill, and apps from source text."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import sqlite3
import textwrap
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from devhost.functions import App, FeedTrigger, Function, QueueTrigger, TimerTrigger
from devhost.loader import load
from devhost.retry import RetryPolicy
from engine.store.feed import ChangeFeed, FeedLease, FeedLeaseLost
from engine.store.sqlite.feed import SqliteFeed

T = TypeVar("T")

START = 1_800_000_000.0
"""2027-01-15 08:00:00 UTC."""

_numbers = itertools.count()


async def settle() -> None:
    """Lets everything run that can run without time passing."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    for _ in range(100_000):
        await asyncio.sleep(0)
        if not ready:
            return
    raise AssertionError("the loop never comes to rest")


class FakeClock:
    """A clock that only `advance` moves."""

    def __init__(self) -> None:
        self.now = START
        self._timers: dict[asyncio.Future[None], float] = {}

    def time(self) -> float:
        return self.now

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        if event.is_set():
            return True
        timer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if seconds is not None:
            self._timers[timer] = self.now + seconds
        waiter = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({timer, waiter}, return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        finally:
            self._timers.pop(timer, None)
            waiter.cancel()
        return event.is_set()

    async def advance(self, seconds: float) -> None:
        """Moves time on, stopping at each moment that somebody waits for."""
        end = self.now + seconds
        await settle()
        while self._timers and (due := min(self._timers.values())) <= end:
            self.now = max(self.now, due)
            for timer in [timer for timer, at in self._timers.items() if at <= due]:
                del self._timers[timer]
                timer.set_result(None)
            await settle()
        self.now = end

    def jump(self, seconds: float) -> None:
        """Sets the clock forward: what waits goes on waiting as long as it would have."""
        self.now += seconds
        self._timers = {timer: at + seconds for timer, at in self._timers.items()}


class MemoryBench:
    """A feed in memory, whose hosts all share it. `down` makes every call fail."""

    def __init__(self, ranges: int) -> None:
        self.down = False
        self._log: list[list[dict[str, Any]]] = [[] for _ in range(ranges)]
        self._leases = [FeedLease(str(n), None, 0, None, "0") for n in range(ranges)]

    def put(self, range: int, id: str) -> None:
        self._log[range].append({"id": id, "_lsn": sum(map(len, self._log)) + 1})

    def open(self) -> ChangeFeed:
        return self

    async def leases(self) -> list[FeedLease]:
        self._check()
        return list(self._leases)

    async def renew(
        self, lease: FeedLease, owner: str | None, expires_at: float, continuation: str | None
    ) -> FeedLease:
        self._check()
        current = self._leases[int(lease.range)]
        if current.version != lease.version:
            raise FeedLeaseLost(lease.range)
        renewed = replace(
            current,
            owner=owner,
            expires_at=expires_at,
            continuation=continuation,
            version=str(int(lease.version) + 1),
        )
        self._leases[int(lease.range)] = renewed
        return renewed

    async def read(self, range: str, continuation: str | None, limit: int) -> tuple[list[dict[str, Any]], str]:
        self._check()
        start = int(continuation or 0)
        documents = self._log[int(range)][start : start + limit]
        return documents, str(start + len(documents))

    def _check(self) -> None:
        if self.down:
            raise OSError("the store is away")


class SqliteBench:
    """The same over SqliteFeed, on a file with the table of documents that SqliteStore has."""

    def __init__(self, path: Path, ranges: int) -> None:
        self.down = False
        self._ranges = ranges
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.executescript(
            """
            CREATE TABLE documents (
                execution_id TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, etag TEXT NOT NULL,
                seq INTEGER NOT NULL UNIQUE, feed_range INTEGER NOT NULL, PRIMARY KEY (execution_id, id)
            );
            CREATE INDEX feed ON documents (feed_range, seq);
            """
        )

    def put(self, range: int, id: str) -> None:
        (seq,) = self.db.execute("SELECT coalesce(max(seq), 0) + 1 FROM documents").fetchone()
        body = f'{{"id": "{id}", "executionId": "x", "_etag": "e{seq}"}}'
        self.db.execute(
            "INSERT OR REPLACE INTO documents VALUES ('x', ?, ?, ?, ?, ?)", (id, body, f"e{seq}", seq, range)
        )

    def open(self) -> SqliteFeed:
        return SqliteFeed(self.run, self._ranges)

    def run(self, work: Callable[[sqlite3.Connection], T], /) -> Awaitable[T]:
        async def transaction() -> T:
            if self.down:
                raise OSError("the store is away")
            self.db.execute("BEGIN IMMEDIATE")
            try:
                result = work(self.db)
            except BaseException:
                self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")
            return result

        return transaction()


Bench = MemoryBench | SqliteBench


def write_app(directory: Path, source: str) -> str:
    """Writes a module that starts with the usual imports and an `app`, and returns its name, which is new."""
    name = f"app_{next(_numbers)}"
    head = "import azure.functions as func\napp = func.FunctionApp()\n"
    (directory / f"{name}.py").write_text(head + textwrap.dedent(source))
    return name


def load_app(directory: Path, source: str, environment: dict[str, str] | None = None) -> App:
    """The app of that source. `directory` has to be on sys.path."""
    return load(write_app(directory, source), environment or {})


def feed_function(
    call: Callable[..., Any], retry: RetryPolicy | None = None, poll: float = 5, most: int = 100
) -> Function:
    """A feed function around `call`, which takes a `documents` parameter."""
    return _function(call, "cosmosDBTrigger", FeedTrigger(poll, most), "documents", retry)


def timer_function(
    call: Callable[..., Any], schedule: str, retry: RetryPolicy | None = None, on_startup: bool = False
) -> Function:
    """A timer function around `call`, which takes a `timer` parameter."""
    return _function(call, "timerTrigger", TimerTrigger(schedule, on_startup), "timer", retry)


def queue_function(call: Callable[..., Any], queue: str = "q") -> Function:
    """A function with a queue trigger around `call`, which takes a `message` parameter."""
    return _function(call, "queueTrigger", QueueTrigger(queue), "message", None)


def _function(
    call: Callable[..., Any],
    binding: str,
    trigger: FeedTrigger | TimerTrigger | QueueTrigger,
    parameter: str,
    retry: RetryPolicy | None,
) -> Function:
    return Function(
        name=call.__name__,
        call=call,
        is_async=inspect.iscoroutinefunction(call),
        binding=binding,
        trigger=trigger,
        parameter=parameter,
        as_text=False,
        wants_context=False,
        has_return=False,
        retry=retry,
    )
