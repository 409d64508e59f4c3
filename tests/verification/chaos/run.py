"""One run over one store: first hosts are told to stop in the middle of their activities, then come the faults and the
load at once, and in the end everything is checked."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.verification.chaos.drain import settle, stop_in_mid_activity
from tests.verification.chaos.faults import Faults, Times
from tests.verification.chaos.hosts import Fleet
from tests.verification.chaos.load import Load
from tests.verification.chaos.stores import open_place
from tests.verification.chaos.verify import Findings, check_documents, check_ledger, read_stories

UNHEARD_OF = re.compile(
    "never retrieved|the driver failed|can't be driven|a trigger failed|runtime failed|didn't close"
    "|is suspended|suspended:",
    re.I,
)
"""What no fault makes a host say."""


@dataclass(frozen=True)
class Options:
    """How much of everything."""

    store: str
    seconds: float
    """How long the load and the faults go on, about: as many rounds as fit in, and one at least, under load."""
    executions: int
    """How many to start, beside their children."""
    times: Times
    grace: float
    faults: tuple[str, ...]
    """A round, by their names in `Faults`."""
    drained: int = 2
    """Hosts that are told to stop in mid-activity: none, one whose activities end in time, or also one whose don't."""
    seed: int = 1


@dataclass(frozen=True)
class Report:
    """What happened, and what is wrong."""

    options: Options
    faults: Counter[str]
    load: Counter[str]
    findings: Findings
    seconds: float


async def run(options: Options, folder: Path) -> Report:
    """Everything, in that folder, which keeps the logs and the ledgers."""
    began = time.monotonic()
    chance = random.Random(options.seed)
    findings = Findings()
    async with (
        open_place(options.store, folder) as place,
        Fleet(place, folder, options.grace).closing() as fleet,
        aiohttp.ClientSession() as session,
    ):
        load = Load(fleet, session, chance)
        faults = Faults(fleet, place, chance, options.times)
        if options.drained:
            await stop_in_mid_activity(load, findings, options.drained)
        await _storm(options, load, faults)
        await settle(fleet, findings)
        await asyncio.gather(*(host.stop() for host in fleet.live))
        stories = read_stories(await place.documents())
    for name, count in faults.done.items():
        findings.expect(count > 0, f"a fault had no effect: {name}")
    _check_hosts(fleet, findings)
    check_documents(stories, load.started, findings)
    runs = [run for host in fleet.all for run in host.runs()]
    check_ledger(runs, {host.number: host.recorded for host in fleet.all}, stories, findings)
    return Report(options, faults.done, load.counts, findings, time.monotonic() - began)


async def _storm(options: Options, load: Load, faults: Faults) -> None:
    fleet = load.fleet
    fleet.settings = {"ENGINE_LEASE_SECONDS": str(options.times.lease), "ENGINE_SKEW_SECONDS": "0.3"}
    await asyncio.gather(fleet.start(), fleet.start())
    wanted = [getattr(faults, name) for name in options.faults]
    async with asyncio.TaskGroup() as group:
        seconds = max(options.seconds, options.times.of(options.faults) / 0.75)  # a fault needs something to disturb
        group.create_task(load.trades(options.executions, seconds))
        began, rounds = time.monotonic(), 0
        while not rounds or (time.monotonic() - began) * (rounds + 1) / rounds < options.seconds:
            rounds += 1
            for fault in wanted:
                await asyncio.sleep(options.times.between)
                await fault()
        faults.done["rounds of all of that"] = rounds


def _check_hosts(fleet: Fleet, findings: Findings) -> None:
    findings.counts["hosts"] = len(fleet.all)
    for host in fleet.all:
        findings.expect(
            host.ended_well, f"host {host.number} didn't end as it was told: code {host.process.returncode}"
        )
        for line in host.log.splitlines():
            findings.expect(UNHEARD_OF.search(line) is None, f"host {host.number} says: {line[:300]}")
