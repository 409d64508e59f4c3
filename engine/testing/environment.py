"""Workflows in memory, under a clock that jumps: a year passes in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from engine.client import Client, Status
from engine.clock import FAR_FUTURE
from engine.definition import Deferred, Registry, Workflow
from engine.documents import Execution
from engine.settings import Settings
from engine.store.base import Filter, Store
from engine.store.sqlite import SqliteStore
from engine.store.wrapper import WatchedStore
from engine.testing.clock import ManualClock
from engine.worker import Worker

TEST_SETTINGS = Settings(hold=timedelta(0))
"""No timer is waited for in memory: each one suspends, and the clock jumps to it."""


class Environment:
    """An engine in memory, for tests: a store, a movable clock, and a worker that runs only when told to.

        async with Environment([fulfil]) as env:
            status = await env.run(fulfil, order)
            assert status.value() == ...

    `store` is a WatchedStore: its `calls` count, its hooks inject faults. `crash` drops the worker and whatever it
    holds, as the end of a process does, and starts another.
    """

    def __init__(
        self, workflows: Sequence[Workflow[Any, Any]], store: Store | None = None, settings: Settings = TEST_SETTINGS
    ) -> None:
        self.clock = ManualClock()
        self.settings = settings
        self.store = WatchedStore(store or SqliteStore(":memory:"))
        self.registry = Registry(workflows)
        self.worker = self.new_worker()

    async def __aenter__(self) -> Environment:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.worker.close(timedelta(0))
        await self.store.close()

    @property
    def client(self) -> Client:
        """A client that knows this environment's worker."""
        return Client(self.store, self.registry, self.settings, self.clock, self.worker)

    def new_worker(self, store: Store | None = None) -> Worker:
        """One more worker on the same store, or on one of its own around it."""
        return Worker(store or self.store, self.registry, self.settings, self.clock)

    def deploy(self, workflows: Sequence[Workflow[Any, Any]]) -> None:
        """Replace the code, as a deployment does, with a worker of its own."""
        self.registry = Registry(workflows)
        self.worker = self.new_worker()

    async def start(self, workflow: Workflow[Any, Any], payload: Any = None, *, key: str | None = None) -> str:
        """Start an execution, without driving it. Returns its id."""
        return (await self.client.start(workflow, payload, key=key)).execution.execution_id

    async def complete(self, execution_id: str, deferred: Deferred[Any] | str, value: Any = None) -> None:
        """Resolve a deferred."""
        await self.client.complete(execution_id, deferred, value)

    async def drive(self, execution_id: str) -> Status:
        """Let the worker drive the execution until it lets go, at the present time. Returns its status."""
        await self.worker.drive(await self.store.inner.read(execution_id))
        return await self.status(execution_id)

    async def status(self, execution_id: str) -> Status:
        """How the execution stands."""
        return await Client(self.store.inner, self.registry, self.settings, self.clock, None).poll(execution_id)

    async def settle(self, limit: int = 10_000) -> None:
        """Drive whatever has something to do at the present time, until nothing has. The clock stands still. Raises
        AssertionError if that doesn't come about within `limit` rounds."""
        for _ in range(limit):
            ready = await self._ready()
            if not ready:
                return
            await asyncio.gather(*(self.worker.drive(execution) for execution in ready))
        raise AssertionError(f"there was still something to do after {limit} rounds")

    async def finish(self, execution_id: str, limit: int = 10_000) -> Status:
        """Drive the execution and all others, moving the clock to whatever is due next, until this one has ended and
        owes nobody its end, or everything waits for the outside alone. Timeouts run out: use `settle` to stop at the
        present time. Raises AssertionError if it doesn't come about within `limit` moves of the clock."""
        for _ in range(limit):
            await self.settle(limit)
            execution = await self.store.inner.read(execution_id)
            if execution.is_complete:
                return await self.status(execution_id)
            due = await self.store.inner.due(FAR_FUTURE, 1_000)
            if not due.executions:
                return await self.status(execution_id)
            self.clock.jump(min(map(self._next_look, due.executions)) + timedelta(milliseconds=1))
        raise AssertionError(f"execution {execution_id} neither ended nor came to rest in {limit} moves of the clock")

    async def _ready(self) -> list[Execution]:
        """Executions in which there is something to do at the present time, the oldest first."""
        now, found = self.clock.now(), list[Execution]()
        page = await self.store.inner.list(Filter(status="running"), 1_000)
        found += [e for e in page.executions if e.is_runnable(now, self.settings.skew) and self._is_known(e)]
        page = await self.store.inner.due(now, 1_000)
        found += [e for e in page.executions if e.owes or e.is_expired(now)]
        return sorted(found, key=lambda e: (e.created_at, e.execution_id))

    def _next_look(self, execution: Execution) -> datetime:
        """When there may be something to do in an execution that is due for something."""
        assert execution.due_at is not None
        if not execution.is_leased(self.clock.now(), self.settings.skew) or execution.lease_expires_at is None:
            return execution.due_at
        return max(execution.due_at, execution.lease_expires_at + self.settings.skew)

    def _is_known(self, execution: Execution) -> bool:
        return self.registry.find(execution.workflow, execution.version) is not None

    async def run(self, workflow: Workflow[Any, Any], payload: Any = None, *, key: str | None = None) -> Status:
        """Start an execution and `finish` it."""
        return await self.finish(await self.start(workflow, payload, key=key))
