"""The load: executions are started, answered and interrupted over HTTP, at whichever host answers.

Every request is repeated until it is taken: each of them means the same, however often it is sent.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from engine.ground.names import execution_id
from tests.verification.chaos.hosts import Fleet

PAUSE = 0.2
"""Seconds before a request is repeated."""
LONGEST_ANSWER = 40.0
"""Seconds to wait for one answer: longer than the embedded store waits for its lock."""
KINDS = ("paid",) * 7 + ("stopped",) * 2 + ("refused",)


@dataclass
class Load:
    """What is asked of the hosts of a fleet, and what was accepted."""

    fleet: Fleet
    session: aiohttp.ClientSession
    chance: random.Random
    at_once: int = 80
    """How many executions to take care of at a time."""
    started: dict[str, str] = field(default_factory=dict)
    """The kind of each execution that was accepted, by id."""
    counts: Counter[str] = field(default_factory=Counter)

    async def trades(self, count: int, seconds: float) -> None:
        """Start that many trades, evenly in three quarters of that time or as soon as they are taken, and see each of
        them through. None is started when the time is over."""
        loop = asyncio.get_running_loop()
        began, numbers = loop.time(), iter(range(count))

        async def one_after_another() -> None:
            for number in numbers:
                await asyncio.sleep(began + 0.75 * seconds * number / count - loop.time())
                if loop.time() >= began + seconds:
                    return
                await self._trade(number)

        async with asyncio.TaskGroup() as group:
            for _ in range(self.at_once):
                group.create_task(one_after_another())

    async def tarries(self, count: int) -> None:
        """Start executions whose activities last."""
        for number in range(count):
            await self._start("tarry", {"number": number, "kind": "paid"})

    async def _trade(self, number: int) -> None:
        kind = self.chance.choice(KINDS)
        pause = self.chance.choice((0.1, 1.0, 3.0))
        job = {"number": number, "kind": kind, "legs": self.chance.randint(1, 3), "pause": pause}
        id = await self._start("trade", job)
        await asyncio.sleep(self.chance.uniform(0, pause))
        if kind == "stopped":
            await self._ask(f"executions/{id}/interrupt", None, 202)
        elif kind == "paid":
            await self._ask(f"executions/{id}/deferreds/chaos.answer", f"answer {number}", 200)

    async def _start(self, workflow: str, job: dict[str, Any]) -> str:
        id = execution_id(workflow, str(job["number"]))
        await self._ask(f"workflows/{workflow}", job, 202, 200)
        self.started[id] = job["kind"]
        return id

    async def _ask(self, path: str, body: Any, *wanted: int) -> None:
        while True:
            url = self.chance.choice(self.fleet.urls or ["http://127.0.0.1:9"])
            timeout = aiohttp.ClientTimeout(LONGEST_ANSWER)
            try:
                async with self.session.post(f"{url}/api/{path}", json=body, timeout=timeout) as answer:
                    text = await answer.text()
                    if answer.status in wanted:
                        self.counts["requests taken"] += 1
                        return
                    if answer.status != 503:
                        raise AssertionError(f"{path}: {answer.status} {text}")
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass
            self.counts["requests repeated"] += 1
            await asyncio.sleep(PAUSE)
