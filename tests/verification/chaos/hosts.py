"""Hosts: processes of `python -m devhost` that share a store, each with a ledger and a log of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.verification.chaos.stores import ROOT, Place
from tests.verification.chaos.verify import Attempt, Run, attempts_recorded

PATIENCE = 120.0
"""Seconds after which a host that should have started, or ended, counts as stuck."""


@dataclass
class Host:
    """A host, while it runs and after it."""

    number: int
    folder: Path
    process: subprocess.Popen[bytes]
    recorded: frozenset[Attempt]
    """What stood in the histories before it was started: it must not do any of that again."""
    url: str = ""
    ended_well: bool = True
    """Whether it ended with code 0, if it was asked to end."""

    @property
    def log(self) -> str:
        return (self.folder / f"{self.number}.log").read_text(errors="replace")

    @property
    def ledger(self) -> Path:
        return self.folder / f"{self.number}.ledger"

    @property
    def gate(self) -> Path:
        """The file for which the activities that last are waiting."""
        return self.folder / f"{self.number}.gate"

    @property
    def written(self) -> int:
        """The size of the largest of its files."""
        return max(path.stat().st_size for path in self.folder.glob(f"{self.number}.*"))

    def runs(self) -> list[Run]:
        """What its activities did."""
        if not self.ledger.exists():
            return []
        return [Run(self.number, *json.loads(line)) for line in self.ledger.read_text().splitlines()]

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    async def wait(self) -> int:
        """Its exit code."""
        return await asyncio.to_thread(self.process.wait, PATIENCE)

    async def kill(self) -> None:
        self.send(signal.SIGKILL)
        await self.wait()

    async def stop(self) -> None:
        """Ask it to end, and note how it does."""
        self.send(signal.SIGTERM)
        try:
            self.ended_well = await self.wait() == 0
        except subprocess.TimeoutExpired:
            self.ended_well = False
            await self.kill()


@dataclass
class Fleet:
    """The hosts of one store. `settings` go to each that starts from now on."""

    place: Place
    folder: Path
    grace: float
    """Seconds that a host which is told to stop gives its invocations."""
    settings: dict[str, str] = field(default_factory=dict)
    all: list[Host] = field(default_factory=list)
    live: list[Host] = field(default_factory=list)

    @property
    def urls(self) -> list[str]:
        """Where the live hosts are to be found, as far as they are ready."""
        return [host.url for host in self.live if host.url]

    async def start(self, *, gate_is_open: bool = True) -> Host:
        """One more host. Returns when it serves."""
        recorded = attempts_recorded(await self.place.documents())
        host = self._launch(recorded, gate_is_open)
        self.live.append(host)
        await until(lambda: "is served on" in host.log or host.process.poll() is not None)
        found = re.search(r"is served on (\S+) ", host.log)
        if found is None:
            raise RuntimeError(host.log)
        host.url = found[1]
        return host

    def _launch(self, recorded: frozenset[Attempt], gate_is_open: bool) -> Host:
        number = len(self.all)
        gate, ledger, log = (self.folder / f"{number}.{kind}" for kind in ("gate", "ledger", "log"))
        if gate_is_open:
            gate.touch()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COSMOS", "ENGINE_"))}
        ours = {"CHAOS_LEDGER": str(ledger), "CHAOS_GATE": str(gate), "ENGINE_RETENTION_DAYS": "0"}
        environment = kept | self.settings | ours
        command = [
            "-m",
            "devhost",
            "--app",
            "tests.verification.chaos.app",
            "--no-auth",
            "--port",
            "0",
            "--grace",
            str(self.grace),
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *command, *self.place.arguments()],
                cwd=ROOT, env=environment, stdout=output, stderr=output,
            )  # fmt: skip
        self.all.append(Host(number, self.folder, process, recorded))
        return self.all[-1]

    def leave(self, host: Host) -> None:
        """It is about to be ended: nothing is sent to it any more."""
        self.live.remove(host)

    @contextlib.asynccontextmanager
    async def closing(self) -> AsyncIterator[Fleet]:
        """Whatever happens, no host outlives this."""
        try:
            yield self
        finally:
            for host in self.all:
                if host.process.poll() is None:
                    await host.kill()


async def until(condition: Callable[[], bool]) -> None:
    """Ask again and again, for as long as PATIENCE."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - another process sets no event here
            await asyncio.sleep(0.05)
