"""The cases of the benchmark. Each brings executions to their end, and gives how long each one took.

Executions are driven as soon as they are started, by one worker of this process: there is no feed and no HTTP. Each is
read once before it is driven, in place of the document that a feed delivers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bench.programs import answer, fan_out, sleeps, steps, waits
from engine import Client, Workflow
from engine.driving.worker import Worker
from engine.store.base import Store

CLIENTS = 16
"""Executions that are under way at a time, where nothing else is said."""
TIMER_SECONDS = 3.0


@dataclass(frozen=True)
class Bench:
    """The engine that is measured."""

    store: Store
    worker: Worker
    client: Client

    async def run(self, workflow: Workflow[Any, Any], payload: Any) -> float:
        """Start an execution and drive it until it is let go. Returns the seconds that it took."""
        begun = time.perf_counter()
        id = (await self.client.start(workflow, payload)).execution_id
        await self.worker.drive(await self.store.read(id))
        return time.perf_counter() - begun


Run = Callable[[Bench], Awaitable[list[float]]]


@dataclass(frozen=True)
class Case:
    """What is measured: its name, the steps of one execution, and what runs it."""

    name: str
    steps: int
    run: Run


async def _many(bench: Bench, workflow: Workflow[Any, Any], payload: Any, count: int, clients: int) -> list[float]:
    taken: list[float] = []
    left = iter(range(count))

    async def client() -> None:
        for _ in left:
            seconds = await bench.run(workflow, payload)
            taken.append(seconds)

    await asyncio.gather(*(client() for _ in range(clients)))
    return taken


def in_a_row(length: int, count: int, clients: int = CLIENTS) -> Case:
    """Executions with so many steps, one after the other."""
    name = f"{length} steps in a row, {clients} at a time"
    return Case(name, length, lambda bench: _many(bench, steps, length, count, clients))


def at_once(width: int, count: int) -> Case:
    """Executions with so many steps at once."""
    return Case(f"{width} steps at once", width, lambda bench: _many(bench, fan_out, width, count, 1))


def storm(count: int) -> Case:
    """So many starts at once, of one step each."""
    return Case(f"a storm of {count} starts", 1, lambda bench: _many(bench, steps, 1, count, count))


def timers(count: int) -> Case:
    """Executions that wait for a timer. The times are how late each timer was."""

    async def run(bench: Bench) -> list[float]:
        late: list[float] = []

        async def one() -> None:
            handle = await bench.client.start(sleeps, TIMER_SECONDS)
            execution = await bench.store.read(handle.execution_id)
            await bench.worker.drive(execution)
            while not (execution := await bench.store.read(handle.execution_id)).is_complete:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert execution.completed_at is not None
            late.append((execution.completed_at - execution.created_at).total_seconds() - TIMER_SECONDS)

        await asyncio.gather(*(one() for _ in range(count)))
        return late

    return Case(f"{count} timers (lateness)", 0, run)


def signals(count: int) -> Case:
    """Executions that wait for a value. The times go from the call that sends it to the end."""

    async def run(bench: Bench) -> list[float]:
        taken = []
        for _ in range(count):
            handle = await bench.client.start(waits, 0)
            await bench.worker.drive(await bench.store.read(handle.execution_id))
            begun = time.perf_counter()
            await bench.client.resolve(handle.execution_id, answer, "yes")
            await bench.worker.drive(await bench.store.read(handle.execution_id))
            taken.append(time.perf_counter() - begun)
        return taken

    return Case(f"{count} signals", 0, run)


def replay(events: int) -> Case:
    """An execution with so many events that waits for a value. The time is that of its last drive: load and replay."""

    async def run(bench: Bench) -> list[float]:
        handle = await bench.client.start(waits, events)
        await bench.worker.drive(await bench.store.read(handle.execution_id))
        await bench.client.resolve(handle.execution_id, answer, "yes")
        begun = time.perf_counter()
        await bench.worker.drive(await bench.store.read(handle.execution_id))
        return [time.perf_counter() - begun]

    return Case(f"wake-up with {events} events", events, run)


CASES = [
    in_a_row(5, 30, clients=1),
    in_a_row(1, 200),
    in_a_row(5, 200),
    in_a_row(10, 100),
    in_a_row(100, 8),
    at_once(10, 20),
    at_once(100, 5),
    at_once(1_000, 1),
    timers(100),
    signals(100),
    storm(300),
    replay(2_000),
]
