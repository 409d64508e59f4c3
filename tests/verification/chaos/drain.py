"""The first act: two hosts are told to stop in the middle of activities. Of one, the activities end within its grace
period; of the other, they don't.

Leases are as long as in production, and nobody is killed: whoever carries on can do so only because the leases were
given back. A takeover would show in the history.
"""

from __future__ import annotations

import asyncio

from tests.verification.chaos.hosts import Fleet, Host, until
from tests.verification.chaos.load import Load
from tests.verification.chaos.verify import Findings, read_stories

PLACES = 4
"""Executions that a host holds at a time: the others wait for a place, and get none once it was told to stop."""
STUCK_SECONDS = 60.0
"""With nobody doing anything to them, hosts need less for anything."""
STOPPING = "stopping; a second signal"
"""What a host says when the signal has reached it."""


async def stop_in_mid_activity(load: Load, findings: Findings, count: int) -> None:
    """Returns when all is settled, and no host is left. Of `count` hosts, the first one's activities end in time."""
    fleet = load.fleet
    fleet.settings = {"ENGINE_MAX_HELD": str(PLACES)}
    hosts = await asyncio.gather(*(fleet.start(gate_is_open=False) for _ in range(count)))
    ending, *lasting = hosts
    await load.tarries(6 * PLACES)
    await until(lambda: all(len(host.runs()) == 2 * PLACES for host in hosts))
    for host in hosts:
        fleet.leave(host)
    stops = [asyncio.create_task(host.stop()) for host in hosts]
    await until(lambda: STOPPING in ending.log)
    ending.gate.touch()
    await asyncio.gather(*stops)
    fleet.settings = {}
    last = await fleet.start()
    await settle(fleet, findings)
    fleet.leave(last)
    await last.stop()
    await _check(fleet, ending, lasting, findings)


async def settle(fleet: Fleet, findings: Findings) -> None:
    """Wait until nothing is left to do, or nothing has come to an end for STUCK_SECONDS."""
    loop = asyncio.get_running_loop()
    most, since = -1, loop.time()
    while True:
        settled, left = await fleet.place.tally()
        if not left:
            return
        if settled > most:
            most, since = settled, loop.time()
        elif loop.time() > since + STUCK_SECONDS:
            findings.problems.append(f"{left} executions are stuck: none has ended for {STUCK_SECONDS:g} s")
            return
        await asyncio.sleep(0.5)


async def _check(fleet: Fleet, ending: Host, lasting: list[Host], findings: Findings) -> None:
    stories = read_stories(await fleet.place.documents())
    left = [id for id, story in stories.items() if any(event["kind"] == "takeover" for event in story.events)]
    findings.expect(not left, f"hosts that were told to stop left leases behind: {left}")
    for host in (ending, *lasting):
        begun = {run.execution for run in host.runs()}
        findings.expect(len(begun) == PLACES, f"host {host.number} claimed more after it was told to stop: {begun}")
        more = [run for run in host.runs() if run.step not in ("linger", "hold")]
        findings.expect(not more, f"host {host.number} began more after it was told to stop: {more}")
    kept = {value for story in stories.values() for value in story.values("activity")}
    ends = [run for run in ending.runs() if run.what == "ends"]
    findings.expect(len(ends) == 2 * PLACES, f"what ran didn't end within the grace period: {ends}")
    for run in ends:
        findings.expect(run.mark in kept, f"it ended within the grace period, and was not recorded: {run}")
    cut = [run for host in lasting for run in host.runs()]
    findings.expect(all(run.what == "begins" for run in cut), f"these were to outlast the grace period: {cut}")
    findings.counts["activities that ended within the grace period"] += len(ends)
    findings.counts["activities that were cut off after it"] += len(cut)
