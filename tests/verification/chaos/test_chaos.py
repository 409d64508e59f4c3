"""The short form of `make chaos`: real hosts, real faults, and everything checked."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.verification.chaos.faults import Times
from tests.verification.chaos.run import Options, run

TIMES = Times(between=0.5, lease=2, away=2, full=2, storm=2)


async def test_nothing_is_lost_doubled_or_stuck(tmp_path: Path) -> None:
    """Hosts are told to stop, die and freeze, the disk is full, the store is away or throttles, on both stores at once:
    every execution ends as it should, and no step that was recorded runs again."""
    runs = [
        Options("sqlite", 4, 40, TIMES, grace=1, faults=("kill", "fill_disk", "take_away"), drained=1),
        Options("cosmos", 4, 20, TIMES, grace=1, faults=("freeze", "throttle"), drained=0),
    ]
    for options in runs:
        (tmp_path / options.store).mkdir()
    reports = await asyncio.gather(*(run(options, tmp_path / options.store) for options in runs))
    for report in reports:
        assert report.findings.problems == []
        assert report.findings.counts["executions"] > report.options.executions
