"""The two stores that hosts run on: how a host is pointed at one, how it is taken away, and what is in it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.init import create_containers
from tests.verification.chaos.double import tally

ROOT = Path(__file__).parents[3]
Document = dict[str, Any]


class Place(Protocol):
    """A store that hosts share."""

    name: str

    def arguments(self) -> list[str]:
        """What points a host at it."""
        ...

    async def documents(self) -> list[Document]:
        """Everything in it, as it is now."""
        ...

    async def tally(self) -> tuple[int, int]:
        """How many executions have nothing left to do, and how many have."""
        ...

    async def away(self, seconds: float) -> None:
        """Nobody can use it for so long."""
        ...


class SqlitePlace:
    """One SQLite file."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._file = folder / "workflows.sqlite"

    def arguments(self) -> list[str]:
        return ["--data", str(self._file)]

    async def documents(self) -> list[Document]:
        return [json.loads(body) for (body,) in await asyncio.to_thread(self._query, "SELECT body FROM documents")]

    async def tally(self) -> tuple[int, int]:
        rows = await asyncio.to_thread(self._query, "SELECT body FROM documents WHERE id = 'exec'")
        return tally(json.loads(body) for (body,) in rows)

    async def away(self, seconds: float) -> None:
        """Another process, this one, holds the lock that every writer needs. Hosts read on the thread on which they
        write, so they can't read either."""
        with contextlib.closing(self._connect()) as db:
            await asyncio.to_thread(db.execute, "BEGIN IMMEDIATE")
            await asyncio.sleep(seconds)
            db.execute("ROLLBACK")

    def _query(self, text: str) -> list[tuple[str]]:
        if not self._file.exists():
            return []
        with contextlib.closing(self._connect()) as db:
            try:
                return db.execute(text).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" not in str(error):
                    raise
                return []  # the first host is only just making it

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=60, isolation_level=None, check_same_thread=False)


class CosmosPlace:
    """The Cosmos double, in a process of its own."""

    name = "cosmos"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._endpoint = self._key = ""
        self._asking = asyncio.Lock()
        self._dumps = itertools.count()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[CosmosPlace]:
        """Runs the double, with the containers in it."""
        with (self._folder / "double.log").open("wb") as log:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.verification.chaos.double",
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, limit=2**20,
            )  # fmt: skip
        try:
            banner = await self._line()
            self._endpoint, self._key = banner["endpoint"], banner["key"]
            await create_containers(CosmosAccount(self._endpoint, self._key))
            yield self
        finally:
            process.kill()
            await process.wait()

    def arguments(self) -> list[str]:
        unused = str(self._folder / "unused.sqlite")
        return ["--data", unused, "--cosmos", self._endpoint, "--cosmos-key", self._key]

    async def documents(self) -> list[Document]:
        path = self._folder / f"dump-{next(self._dumps)}.json"  # two hosts that start ask at once
        await self.ask("dump", path=str(path))
        documents: list[Document] = await asyncio.to_thread(lambda: json.loads(path.read_bytes()))
        path.unlink()
        return documents

    async def tally(self) -> tuple[int, int]:
        settled, left = (await self.ask("tally"))["tally"]
        return settled, left

    async def away(self, seconds: float) -> None:
        """It is frozen: connections are taken, and nothing answers."""
        assert self._process is not None
        async with self._asking:
            os.kill(self._process.pid, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            os.kill(self._process.pid, signal.SIGCONT)

    async def ask(self, command: str, **more: Any) -> dict[str, Any]:
        """A command of `tests.verification.chaos.double`, answered."""
        assert self._process is not None
        assert self._process.stdin is not None
        async with self._asking:
            self._process.stdin.write(json.dumps({"command": command, **more}).encode() + b"\n")
            return await self._line()

    async def _line(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError((self._folder / "double.log").read_text())
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.asynccontextmanager
async def open_place(name: str, folder: Path) -> AsyncIterator[SqlitePlace | CosmosPlace]:
    """The store of that name, in that folder."""
    if name == "sqlite":
        yield SqlitePlace(folder)
        return
    async with CosmosPlace(folder).serving() as place:
        yield place
