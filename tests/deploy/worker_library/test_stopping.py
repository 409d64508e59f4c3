"""SIGTERM, as the platform sends it to the worker process: what is driven is let go, and another host goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from engine.store.base import Filter
from engine.store.sqlite.store import SqliteStore
from tests.deploy.worker_library.host import ROOT

PATIENCE = 60
"""Seconds after which a test that hangs fails; nothing else depends on it."""


async def test_a_worker_that_gets_sigterm_lets_go_and_ends(tmp_path: Path) -> None:
    """Its activity has not ended within the grace. The claim isn't counted, and nobody has to wait for the lease."""
    data = tmp_path / "data.sqlite"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COSMOS", "ENGINE_"))}
    environment |= {"ENGINE_SQLITE_FILE": str(data), "LEDGER_FILE": str(tmp_path / "ledger.sqlite")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.deploy.worker_library.process", str(data)),
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while b"lingering" not in await process.stdout.readline():
                assert process.returncode is None
        store = SqliteStore(data)
        (execution,) = (await store.list(Filter(status="running"), 10)).executions
        assert execution.worker is not None
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == -signal.SIGTERM, "it ends as the platform expects"
        execution = await store.read(execution.execution_id)
        assert (execution.worker, execution.suspended, execution.claims, execution.cause) == (None, False, 0, None)
        await store.close()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
