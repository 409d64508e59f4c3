"""Two local hosts, each a process of its own, share the change feed of one container; one of them dies."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from engine.store.cosmos.schema import DATABASE, LEASES
from tests.cosmos_double import Call, CosmosDouble
from tests.cosmos_double.state import Container
from tests.stores.cosmos.support import set_up

ROOT = Path(__file__).parents[3]
PATIENCE = 60
"""Seconds after which what should happen counts as missing."""
RANGES = 4

StartHost = Callable[[], Awaitable[tuple[Process, str]]]


class Leases:
    """The leases of the feed's ranges, as they stand in the double."""

    def __init__(self, double: CosmosDouble) -> None:
        self._container = double.container(DATABASE, LEASES)
        self._written = asyncio.Event()
        note = Call(lambda _: self._written.set(), after_effect=True)
        double.faults.add(note, kind="item", when=lambda request: request.container == LEASES, times=None)

    def all(self) -> list[dict[str, Any]]:
        return [dict(one) for one in self._container.documents() if "expiresAt" in one]

    def owners(self) -> Counter[str]:
        """How many ranges each host has."""
        return Counter(one["owner"] for one in self.all() if "owner" in one)

    def places(self, owner: str) -> dict[str, str | None]:
        """How far the ranges of a host have come."""
        return {one["id"]: one.get("continuation") for one in self.all() if one.get("owner") == owner}

    async def until(self, holds: Callable[[], bool]) -> None:
        """Look at each change of a lease, until the condition holds."""
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._written.clear()
                await self._written.wait()


@pytest.fixture
async def double() -> AsyncIterator[CosmosDouble]:
    async with CosmosDouble(ranges=RANGES, log_limit=1_000) as double:
        yield double


@pytest.fixture
async def start_host(double: CosmosDouble, tmp_path: Path) -> AsyncIterator[StartHost]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COSMOS", "ENGINE_"))}
    options = ["--port", "0", "--no-auth", "--data", str(tmp_path / "x"), "--cosmos", double.endpoint]
    command = [sys.executable, "-m", "devhost", *options, "--cosmos-key", double.key]
    hosts: list[Process] = []

    async def start() -> tuple[Process, str]:
        with (tmp_path / f"log-{len(hosts)}.txt").open("wb") as log:
            environment = kept | {"LEDGER_FILE": str(tmp_path / "ledger")}
            host = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment, stdout=PIPE, stderr=log)
        hosts.append(host)
        assert host.stdout is not None
        async with asyncio.timeout(PATIENCE):
            async for line in host.stdout:
                if (found := re.search(rb"is served on (\S+) ", line)) is not None:
                    return host, found[1].decode()
        raise AssertionError("the host ended")

    yield start
    for host in hosts:
        if host.returncode is None:
            host.kill()
        await host.communicate()


async def run_through(url: str, nights: list[str]) -> None:
    """Start one execution for each, and see each end. Nobody but the feed drives them at once."""
    async with aiohttp.ClientSession() as http:
        ids = []
        for night in nights:
            body = {"night": night, "documents": ["a-b", "c"]}
            async with http.post(f"{url}/api/workflows/digest_documents", json=body) as answer:
                ids.append((await answer.json())["executionId"])
        for id in ids:
            async with http.get(f"{url}/api/executions/{id}?wait={PATIENCE}") as answer:
                assert (await answer.json())["result"] == {"done": 2, "words": 3, "unreadable": {}}


async def test_two_hosts_share_the_ranges_and_one_takes_over(double: CosmosDouble, start_host: StartHost) -> None:
    container: Container = set_up(double)
    leases = Leases(double)
    first, url = await start_host()
    await leases.until(lambda: sorted(leases.owners().values()) == [RANGES])
    (dead,) = leases.owners()
    _, other_url = await start_host()
    await leases.until(lambda: sorted(leases.owners().values()) == [RANGES // 2, RANGES // 2])
    (heir,) = leases.owners().keys() - {dead}
    await run_through(url, [f"shared {n}" for n in range(8)])

    # Both halves of what is split stay with whoever reads the range.
    container.split("0")
    await run_through(other_url, [f"split {n}" for n in range(8)])
    assert len(leases.all()) == RANGES

    left = leases.places(dead)
    first.send_signal(signal.SIGKILL)
    await first.wait()
    await leases.until(lambda: leases.owners() == {heir: RANGES})
    await run_through(other_url, [f"taken over {n}" for n in range(16)])
    await leases.until(lambda: all(leases.places(heir)[id] != place for id, place in left.items()))


async def test_a_host_that_is_stopped_leaves_its_ranges_at_once(double: CosmosDouble, start_host: StartHost) -> None:
    set_up(double)
    leases = Leases(double)
    host, _ = await start_host()
    await leases.until(lambda: sorted(leases.owners().values()) == [RANGES])
    host.send_signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE):
        assert await host.wait() == 0
    assert leases.owners() == {}
