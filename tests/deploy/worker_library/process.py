"""A worker process over the SQLite file that is named: it drives one execution with a long activity, until it ends."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import workflows
from engine import activity, workflow
from engine.store.sqlite.store import SqliteStore
from tests.deploy.worker_library.host import WorkerHost


@activity(name="process_lingers_for")
async def linger() -> None:
    """Never ends by itself."""
    sys.stdout.write("lingering\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


@workflow(name="process_lingers")
async def lingers() -> None:
    """One long step."""
    await linger()


async def main(path: Path) -> None:
    """Serves until a signal comes."""
    workflows.WORKFLOWS.append(lingers)
    host = WorkerHost(SqliteStore(path))
    await host.start()
    await host.http("POST", "/workflows/process_lingers")
    await host.feed()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
