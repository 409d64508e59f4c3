"""A process whose event loop stands still for too long is ended; its claim counts, and its lease passes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from engine.ground.clock import SystemClock
from engine.store.sqlite.store import SqliteStore

ROOT = Path(__file__).parents[3]
BLOCKS = {
    "a loop without end": "while True: pass",
    "a regular expression without end": "re.match('(a+)+$', 'a' * 64 + 'b')",
}
PROGRAM = """
import asyncio, re, sys
from datetime import timedelta
from engine import Runtime, Settings, workflow
from engine.store.sqlite.store import SqliteStore

@workflow
async def stands_still() -> None:
    BLOCK

async def main() -> None:
    settings = Settings(blocked_after=timedelta(seconds=0.1), blocked_exit=timedelta(seconds=0.5))
    runtime = Runtime([stands_still], lambda: SqliteStore(sys.argv[1]), settings)
    handle = await runtime.client.start(stands_still)
    print(handle.execution_id, flush=True)
    await runtime.worker.drive(await runtime.store.read(handle.execution_id))

asyncio.run(main())
"""


@pytest.mark.parametrize("how", BLOCKS)
async def test_a_process_that_is_blocked_for_ever_is_ended(how: str, tmp_path: Path) -> None:
    """Neither kind lets another coroutine run; the second lets no thread run either."""
    program, file = tmp_path / "program.py", tmp_path / "store.sqlite"
    program.write_text(PROGRAM.replace("BLOCK", BLOCKS[how]))
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(program), str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert ran.returncode == 1, ran.stderr
    assert f'{program}", line' in ran.stderr
    assert "in stands_still" in ran.stderr
    store = SqliteStore(file)
    execution = await store.read(ran.stdout.strip())
    assert (execution.claims, execution.status) == (1, "running")
    assert execution.is_runnable(SystemClock().now() + timedelta(minutes=1), timedelta(seconds=5))
    await store.close()
