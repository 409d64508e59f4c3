"""`python -m bench`: each case in a process of its own, on each store; a table, and JSON and SVG in bench/results/.

Requests and request units are exact: the store counts them. Times depend on the machine and on what else it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bench.cases import CASES, Bench
from bench.chart import draw
from bench.programs import WORKFLOWS
from engine import Client
from engine.core.registry import Registry
from engine.driving.worker import Worker
from engine.ground.clock import SystemClock
from engine.ground.settings import Settings
from engine.store.base import Store
from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.store import CosmosStore
from engine.store.sqlite.store import SqliteStore
from engine.store.wrapper import WatchedStore
from tests.cosmos_double import CosmosDouble
from tests.stores.cosmos.support import set_up

RESULTS = Path(__file__).parent / "results"
STORES = ("memory", "file", "double")
"""SQLite in memory, SQLite in a file (WAL, synchronous=NORMAL), CosmosStore over the tests' double in this process."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What one case cost on one store."""

    case: str
    store: str
    executions: int
    requests: float
    """For each execution. For SQLite: calls of the store."""
    request_units: float | None
    """For each execution, by the double's model."""
    executions_per_second: float
    steps_per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    cpu_ms: float
    """For each execution, of the whole process. For the double that includes the double."""
    peak_mb: float


@contextlib.asynccontextmanager
async def _opened(name: str) -> AsyncIterator[Store]:
    if name == "double":
        async with CosmosDouble() as double:
            set_up(double)
            store = CosmosStore(CosmosAccount(double.endpoint, double.key))
            yield store
            await store.close()
        return
    with tempfile.TemporaryDirectory() as folder:
        local = SqliteStore(":memory:" if name == "memory" else f"{folder}/bench.sqlite")
        yield local
        await local.close()


async def measure(number: int, store_name: str) -> Result:
    """Run one case on one store, in this process."""
    case, settings, clock, registry = CASES[number], Settings(), SystemClock(), Registry(WORKFLOWS)
    async with _opened(store_name) as inner:
        store = WatchedStore(inner)
        worker = Worker(store, registry, settings, clock)
        bench = Bench(store, worker, Client(store, registry, settings, clock, worker))
        await worker.sweep()  # the first request of a process asks for more
        usage = getattr(inner, "usage", None)
        before, units = (len(store.calls), 0.0) if usage is None else (usage.requests, usage.request_units)
        cpu, begun = time.process_time(), time.perf_counter()
        taken = sorted(await case.run(bench))
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        after = len(store.calls) if usage is None else usage.requests
        charged = None if usage is None else round((usage.request_units - units) / len(taken), 1)
        await worker.close()
    cuts = statistics.quantiles(taken, n=100, method="inclusive") if len(taken) > 1 else taken * 99
    return Result(
        case=case.name,
        store=store_name,
        executions=len(taken),
        requests=round((after - before) / len(taken), 2),
        request_units=charged,
        executions_per_second=round(len(taken) / seconds, 1),
        steps_per_second=round(len(taken) * case.steps / seconds, 1),
        p50_ms=round(cuts[49] * 1000, 2),
        p95_ms=round(cuts[94] * 1000, 2),
        p99_ms=round(cuts[98] * 1000, 2),
        cpu_ms=round(cpu / len(taken) * 1000, 2),
        peak_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    )


def table(results: list[dict[str, Any]]) -> str:
    """The results as text."""
    heads = ("case", "store", "n", "requests", "RU", "exec/s", "steps/s", "p50 ms", "p95 ms", "p99 ms", "CPU ms", "MB")
    rows = [heads, *(tuple("" if value is None else str(value) for value in one.values()) for one in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def main(arguments: list[str]) -> None:
    """Without arguments: all cases on all stores. With a case's number and a store: this one, as JSON."""
    if arguments:
        sys.stdout.write(json.dumps(dataclasses.asdict(asyncio.run(measure(int(arguments[0]), arguments[1])))))
        return
    results = []
    for store in STORES:
        for number, case in enumerate(CASES):
            sys.stderr.write(f"{store}: {case.name}\n")
            command = [sys.executable, "-m", "bench", str(number), store]
            results.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n", "utf-8")
    (RESULTS / "latest.svg").write_text(draw(results), "utf-8")
    sys.stdout.write(f"{machine}\n\n{table(results)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
