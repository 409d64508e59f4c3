"""The composition root: builds the store, the registry, the worker and the client from the settings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from engine.boundary.callers import Permits
from engine.boundary.client import Client
from engine.boundary.inspection import Inspection, Inspections
from engine.boundary.schedules import start_schedules
from engine.boundary.stopping import stop_on_sigterm
from engine.core.declarations import Workflow
from engine.core.registry import Declaration, Registry
from engine.driving.lifespan import Opens
from engine.driving.worker import Worker
from engine.ground.clock import Clock, SystemClock
from engine.ground.settings import Settings
from engine.guard import check
from engine.store.base import Store
from engine.store.cosmos.account import CosmosAccount
from engine.store.documents import Execution
from engine.store.feed import ChangeFeed
from engine.store.sqlite.store import SqliteStore

_log = logging.getLogger("engine")

DEFAULT_FILE = ".data/workflows.sqlite"


class Runtime:
    """The engine in one process. Build it at import. It opens its store at first use, on the running loop.

    workflows: the workflows that this app runs. A bad declaration raises here, so that the app doesn't start.
    store: makes the store, at first use.
    declares: declarations that workflows use and their code doesn't name. See `engine.core.registry.Registry`.
    lifespan: makes an async context manager, which is opened once for each process, before its first activity, and
        closed when the process stops. `activity.lifespan(…)` gives its value to activities.
    permits: may refuse a workflow to a signed-in caller. See `engine.boundary.callers`.
    """

    def __init__(
        self,
        workflows: Sequence[Workflow[Any, Any]],
        store: Callable[[], Store],
        settings: Settings | None = None,
        clock: Clock | None = None,
        *,
        declares: Sequence[Declaration] = (),
        permits: Permits | None = None,
        lifespan: Opens | None = None,
    ) -> None:
        if lifespan is not None and not callable(lifespan):
            raise TypeError(
                "lifespan= takes a function that makes an async context manager, such as one under "
                f"contextlib.asynccontextmanager, not {lifespan!r}"
            )
        self.permits = permits
        self._lifespan = lifespan
        self.registry = Registry(workflows, declares)
        self.settings = settings or Settings()
        self._make_store = store
        self.clock = clock or SystemClock()
        self._parts: tuple[Store, Worker, Client] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inspections = Inspections()
        self._schedules_started = False
        self.stops_on_sigterm = False
        """Whether the runtime closes by itself when the process gets SIGTERM. Set this before the first use."""

    @classmethod
    def from_environment(
        cls,
        workflows: Sequence[Workflow[Any, Any]],
        environment: Mapping[str, str],
        *,
        declares: Sequence[Declaration] = (),
        permits: Permits | None = None,
        lifespan: Opens | None = None,
    ) -> Runtime:
        """The runtime that the app's settings describe. Its store is the Cosmos DB account that they name (see
        `engine.store.cosmos.account`), or otherwise the SQLite file `ENGINE_SQLITE_FILE`. Raises ValueError that names
        a setting with a bad value."""
        if environment.get("AZURE_FUNCTIONS_ENVIRONMENT") == "Development":
            for finding in check(workflows):
                _log.warning("%s", finding)
        settings = Settings.from_environment(environment)
        return cls(workflows, _store(environment), settings, declares=declares, permits=permits, lifespan=lifespan)

    @property
    def store(self) -> Store:
        """The store, opened."""
        return self._open()[0]

    @property
    def worker(self) -> Worker:
        """The worker, which drives executions in this process."""
        return self._open()[1]

    @property
    def client(self) -> Client:
        """The client, which starts and controls executions."""
        return self._open()[2]

    async def inspect(self, execution: Execution) -> Inspection:
        """Find out what an execution has done and waits for now. Raises StoreError."""
        return await self._inspections.of(self.store, self.registry, execution)

    async def change_feed(self) -> ChangeFeed:
        """The store's change feed, for a host that has to read it itself."""
        return self.store.change_feed()

    async def start_schedules(self) -> None:
        """Start the schedules that the app declares, once in each process. Raises StoreError."""
        if not self._schedules_started:
            await start_schedules(self.client, self.registry)
            self._schedules_started = True

    def drain(self) -> None:
        """Stop claiming, and let go of executions between two steps, because this process is about to close."""
        if self._parts is not None:
            self._parts[1].drain()

    async def close(self, grace: timedelta = timedelta(seconds=5)) -> None:
        """Let go of every execution, and close the store. Running activities get `grace` to end."""
        if self._parts is not None:
            store, worker, _ = self._parts
            await worker.close(grace)
            await store.close()
            self._parts = None

    def _open(self) -> tuple[Store, Worker, Client]:
        loop = asyncio.get_running_loop()
        if self._parts is None or self._loop is not loop:
            store = self._make_store()
            worker = Worker(store, self.registry, self.settings, self.clock, lifespan=self._lifespan)
            self._parts = store, worker, Client(store, self.registry, self.settings, self.clock, worker)
            self._loop, self._inspections = loop, Inspections()
            if self.stops_on_sigterm:
                stop_on_sigterm(self, loop)
        return self._parts


def _store(environment: Mapping[str, str]) -> Callable[[], Store]:
    account = CosmosAccount.from_environment(environment)
    if account is None:
        path = environment.get("ENGINE_SQLITE_FILE") or DEFAULT_FILE
        return lambda: SqliteStore(path)
    # The SDK takes longer to import than everything else, so an app without an account doesn't import it.
    from engine.store.cosmos.store import CosmosStore

    return lambda: CosmosStore(account)
