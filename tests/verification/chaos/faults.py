"""The faults: what is done to the hosts and to the store while the load goes on, and how often it took effect."""

from __future__ import annotations

import asyncio
import random
import re
import resource
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.verification.chaos.hosts import Fleet, Host
from tests.verification.chaos.stores import CosmosPlace, Place

FULL_MARGIN = 192 * 1024
"""Bytes that the files of a host may still grow by when its disk is full: its log and its ledger are on it too."""

ROUNDS = {
    "sqlite": ("kill", "take_away", "join", "freeze", "fill_disk", "stop", "kill_all"),
    "cosmos": ("kill", "take_away", "join", "freeze", "throttle", "stop", "kill_all"),
}
"""All faults that a store knows, in the order of a round."""


@dataclass(frozen=True)
class Times:
    """How long faults last, in seconds."""

    between: float
    lease: float
    """Of the executions. A host is frozen for two and a half of them."""
    away: float
    full: float
    storm: float

    def of(self, faults: Sequence[str]) -> float:
        """How long these take at least, one after the other."""
        long = {"take_away": self.away, "fill_disk": self.full, "throttle": self.storm, "freeze": 2.5 * self.lease}
        return sum(self.between + long.get(fault, 0) for fault in faults)


@dataclass
class Faults:
    """What may be done, and to whom."""

    fleet: Fleet
    place: Place
    chance: random.Random
    times: Times
    done: Counter[str] = field(default_factory=Counter)

    async def kill(self) -> None:
        """SIGKILL, and another host in its place."""
        await self._kill(self._one())
        await self.fleet.start()

    async def kill_all(self) -> None:
        """Every host at once: nobody is left who would know anything."""
        hosts = list(self.fleet.live)
        await asyncio.gather(*map(self._kill, hosts))
        await asyncio.gather(*(self.fleet.start() for _ in hosts))

    async def freeze(self) -> None:
        """SIGSTOP until its leases are long gone, then SIGCONT: the old driver goes on where it was."""
        host = self._one()
        host.send(signal.SIGSTOP)
        await asyncio.sleep(2.5 * self.times.lease)
        host.send(signal.SIGCONT)
        self.done["hosts frozen past their leases (SIGSTOP, SIGCONT)"] += 1

    async def stop(self) -> None:
        """SIGTERM in the middle of its work, and another host in its place."""
        host = self._one()
        self.fleet.leave(host)
        await asyncio.gather(host.stop(), self.fleet.start())
        self.done["hosts told to stop under load (SIGTERM)"] += 1

    async def join(self) -> None:
        """A third host. In later rounds there are three already."""
        if len(self.fleet.live) < 3:
            await self.fleet.start()
            self.done["hosts that joined the first two"] += 1

    async def take_away(self) -> None:
        """The store is away."""
        await self.place.away(self.times.away)
        self.done[f"times that the store was away, {self.times.away:g} s"] += 1

    async def fill_disk(self) -> None:
        """No file of the hosts can grow any more: now and then a write still fits, most fail."""
        before = self._refused()
        hosts = list(self.fleet.live)
        most = max(host.written for host in hosts) + FULL_MARGIN
        for host in hosts:
            resource.prlimit(host.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        await asyncio.sleep(self.times.full)
        for host in hosts:
            resource.prlimit(host.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        self.done[f"times that the disk was full, {self.times.full:g} s"] += 1
        self.done["complaints of a full disk"] += self._refused() - before

    async def throttle(self) -> None:
        """A storm of 429: more than half of all requests."""
        assert isinstance(self.place, CosmosPlace)
        await self.place.ask("storm", share=0.6)
        await asyncio.sleep(self.times.storm)
        self.done["requests refused with 429"] += (await self.place.ask("calm"))["throttled"]
        self.done[f"storms of 429, {self.times.storm:g} s"] += 1

    def _one(self) -> Host:
        return self.chance.choice(self.fleet.live)

    async def _kill(self, host: Host) -> None:
        self.fleet.leave(host)
        await host.kill()
        self.done["hosts killed (SIGKILL)"] += 1

    def _refused(self) -> int:
        said = re.compile("disk I/O error|database or disk is full")
        return sum(len(said.findall(host.log)) for host in self.fleet.all)
