"""The Cosmos double in a process of its own, with commands on its standard input: one JSON object a line, each
answered by one line.

    {"command": "storm", "share": 0.5}   that share of the requests gets a 429
    {"command": "calm"}                  no more
    {"command": "tally"}                 how many executions have nothing left to do, and how many have
    {"command": "dump", "path": "..."}   write all documents there
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from engine.store.cosmos.schema import CONTAINER, DATABASE
from tests.cosmos_double import Answer, CosmosDouble
from tests.cosmos_double.faults import Rule

RETRY_AFTER_MS = 100


class Commands:
    """What may be asked of a double that runs."""

    def __init__(self, double: CosmosDouble) -> None:
        self._double = double
        self._chance = random.Random(1)
        self._storm: Rule | None = None

    def run(self, command: str, share: float = 0.0, path: str = "") -> dict[str, Any]:
        """Do it. Returns the answer."""
        match command:
            case "storm":
                self._storm = self._double.faults.add(
                    Answer(429, retry_after_ms=RETRY_AFTER_MS),
                    kind=None,
                    when=lambda request: self._chance.random() < share,
                    times=None,
                )
            case "calm":
                self._double.faults.clear()
                fired = self._storm.fired if self._storm else 0
                self._storm = None
                return {"throttled": fired}
            case "tally":
                return {"tally": tally(document for document in self._documents() if document["id"] == "exec")}
            case "dump":
                Path(path).write_text(json.dumps(list(self._documents())))
            case _:
                raise ValueError(command)
        return {}

    def _documents(self) -> Iterator[dict[str, Any]]:
        # Copies of everything, as `documents()` makes them, would hold up the double for too long.
        container = self._double.container(DATABASE, CONTAINER)
        for part in container.live_ranges():
            for document in part.view(part.lsn).values():
                yield dict(document.body)


def tally(executions: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """How many of these exec documents have nothing left to do, and how many have not ended or owe something."""
    settled = [document["status"] == "complete" and document.get("dueAt") is None for document in executions]
    return sum(settled), len(settled) - sum(settled)


async def main() -> None:
    lines: asyncio.StreamReader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with CosmosDouble(ranges=2, log_limit=1_000) as double:
        commands = Commands(double)
        print(json.dumps({"endpoint": double.endpoint, "key": double.key}), flush=True)
        while line := await lines.readline():
            print(json.dumps(commands.run(**json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
