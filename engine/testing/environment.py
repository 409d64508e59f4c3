"""Runs workflows in memory, with a clock that jumps: a year passes in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

from engine.boundary.client import Client, TakesNothing, TakesPayload, id_of
from engine.boundary.handle import Handle
from engine.boundary.inspection import Inspection, inspect
from engine.boundary.schedules import start_schedules
from engine.boundary.status import Status
from engine.core.activity import MISSING, Activity
from engine.core.declarations import Deferred, Workflow
from engine.core.registry import Declaration, Registry
from engine.driving.lifespan import Opens
from engine.ground.clock import FAR_FUTURE
from engine.ground.errors import Fault
from engine.ground.settings import Settings
from engine.store.base import Filter, Store
from engine.store.documents import Execution
from engine.store.sqlite.store import SqliteStore
from engine.store.wrapper import WatchedStore
from engine.testing.clock import ManualClock
from engine.testing.process import Fate, Process
from engine.testing.replayer import export, replay
from engine.testing.stage import Script, Stage, check_step, every_call
from engine.testing.stand_ins import StagedRegistry
from engine.testing.timeline import shown, timeline, why

R = TypeVar("R")
T = TypeVar("T")

SHOWN_EVENTS = 6
"""If an execution doesn't end, the error shows this many of its last events."""
TEST_SETTINGS = Settings(
    hold=timedelta(0), timers_ahead=timedelta(0), retention=timedelta(0), batch_budget=timedelta(days=1)
)
"""With these settings each timer suspends its execution, so that the clock can jump to the timer's due time. The budget
of a batch is so long that no batch exceeds it."""


class Environment:
    """An engine in memory, for tests: a store, a movable clock, and a worker that runs only when the test says so.

        async with Environment([fulfil]) as env:
            status = await env.run(fulfil, order)
            assert status.value() == ...

    activities: functions that run in place of activities, by their names.
    children: functions that run in place of workflows, by their names. Each takes the payload, may be async, and is the
        code of a workflow. The replaced workflow need not be among `workflows`.
    evict: whether workers let go of an execution after every activity. The next driver then replays each step.
    patience: how long an attempt with a `timeout=` may run in real time. A longer attempt counts as hanging: the clock
        moves to the end of its timeout.
    workers: how many workers drive at once. They compete for every execution.
    lifespan: what each worker opens for its activities, as for `Runtime`. Give a stand-in here.
    declares: declarations that workflows use, but that their code doesn't name. See `Runtime`.
    replays: whether `finish` replays the history of an ended execution, and raises the Fault of that replay.

    `store` is a WatchedStore: its `calls` list the store calls, and its hooks inject faults. `fail` and `crash_at` plan
    a failure or a crash in a step. `crash` ends the worker now. `ran` returns the steps that really ran.
    """

    def __init__(
        self,
        workflows: Sequence[Workflow[Any, Any]],
        store: Store | None = None,
        settings: Settings = TEST_SETTINGS,
        *,
        activities: Mapping[str, Callable[..., Any]] | None = None,
        children: Mapping[str, Callable[..., Any]] | None = None,
        declares: Sequence[Declaration] = (),
        lifespan: Opens | None = None,
        evict: bool = False,
        patience: timedelta = timedelta(seconds=1),
        workers: int = 1,
        replays: bool = True,
        fate: Fate | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.settings = settings
        self.store = WatchedStore(store or SqliteStore(":memory:"))
        self._stand_ins = children or {}
        self.registry: Registry = StagedRegistry(workflows, declares, self._stand_ins)
        self._script = Script(activities or {}, self.registry.step_names(), evict)
        self._replays = replays
        self._patience = patience
        self._fate = fate or Fate()
        self._lifespan = lifespan
        self.worker = self.new_worker()
        self._others = [self.new_worker() for _ in range(workers - 1)]

    async def __aenter__(self) -> Environment:
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in (self.worker, *self._others):
            await worker.close(timedelta(0))
        await self.store.close()

    @property
    def client(self) -> Client:
        """A client of this environment, with its worker."""
        return Client(self.store, self.registry, self.settings, self.clock, self.worker)

    def new_worker(self, store: Store | None = None) -> Process:
        """Make one more worker, on the environment's store or on the given one."""
        worker = Process(store or self.store, self.registry, self.settings, self.clock, self._fate, self._lifespan)
        worker.stage = Stage(self._script, worker)
        return worker

    def deploy(self, workflows: Sequence[Workflow[Any, Any]], declares: Sequence[Declaration] = ()) -> None:
        """Replace the code and the workers, as a deployment does. Functions that stand in for workflows or activities
        stay."""
        self.registry = StagedRegistry(workflows, declares, self._stand_ins)
        self.worker = self.new_worker()
        self._others = [self.new_worker() for _ in self._others]

    def ran(self, execution: str | Handle[Any] | None = None) -> list[str]:
        """The steps that ran, of one execution or of all, in the order in which they began. Every attempt counts,
        including attempts that were cut off. Replayed steps don't count."""
        wanted = None if execution is None else id_of(execution)
        return [info.step for info in self._script.ran if wanted in (None, info.execution_id)]

    def fail(self, step: str, error: BaseException, times: int | None = 1) -> None:
        """Make the next attempts of one step raise `error` instead of running. `times` is how many attempts; None means
        all. `step` is `name` for the first call of an activity in an execution, and `name#2` for the second. For every
        call of an activity, use `fail_activity`. Raises ValueError for an unknown name."""
        check_step(step, self.registry.step_names())
        self._script.failures[step] = error, times

    def fail_activity(self, activity: str | Activity[Any, Any], error: BaseException, times: int | None = None) -> None:
        """Make every call of an activity raise `error` instead of running. `times` is how many attempts fail, in all
        steps together; None means all. Raises ValueError for an unknown name."""
        name = activity if isinstance(activity, str) else activity.name
        check_step(name, self.registry.step_names())
        self._script.failures[every_call(name)] = error, times

    def crash_at(self, step: str, *, after: bool = False) -> None:
        """Let the worker die just before it runs a step. With `after`, the worker dies when the step has run, and its
        result isn't recorded yet. Another worker takes over. `step` is as for `fail`. Raises ValueError for an unknown
        name."""
        check_step(step, self.registry.step_names())
        self._script.deaths[step] = after

    async def crash(self) -> None:
        """Let the worker die as a process dies, and lose everything in its memory. Another worker takes its place. The
        clock moves on until the dead worker's leases have expired."""
        self.worker.die()
        await self._replace_the_dead()

    @overload
    async def start(self, workflow: TakesNothing[R], *, key: str | None = None) -> Handle[R]: ...
    @overload
    async def start(self, workflow: TakesPayload[T, R], payload: T, *, key: str | None = None) -> Handle[R]: ...
    @overload
    async def start(self, workflow: str, payload: Any = ..., *, key: str | None = None) -> Handle[Any]: ...
    async def start(self, workflow: Any, payload: Any = MISSING, *, key: str | None = None) -> Handle[Any]:
        """Start an execution, without driving it. Returns its handle. Raises as `Client.start` does."""
        return await self.client.start(workflow, payload, key=key)

    @overload
    async def run(self, workflow: TakesNothing[R], *, key: str | None = None) -> Status: ...
    @overload
    async def run(self, workflow: TakesPayload[T, R], payload: T, *, key: str | None = None) -> Status: ...
    @overload
    async def run(self, workflow: str, payload: Any = ..., *, key: str | None = None) -> Status: ...
    async def run(self, workflow: Any, payload: Any = MISSING, *, key: str | None = None) -> Status:
        """Start an execution and `finish` it."""
        return await self.finish(await self.start(workflow, payload, key=key))

    @overload
    async def resolve(self, execution: str | Handle[Any], deferred: Deferred[None]) -> None: ...
    @overload
    async def resolve(self, execution: str | Handle[Any], deferred: Deferred[T], value: T) -> None: ...
    @overload
    async def resolve(self, execution: str | Handle[Any], deferred: str, value: Any = None) -> None: ...
    async def resolve(self, execution: str | Handle[Any], deferred: Any, value: Any = None) -> None:
        """Resolve a deferred. Raises as `Client.resolve` does."""
        await self.client.resolve(execution, deferred, value)

    async def drive(self, execution: str | Handle[Any]) -> Status:
        """Let the worker drive the execution at the present time, until it lets go. Returns the execution's status."""
        await self._drive([await self.store.inner.read(id_of(execution))], [self.worker])
        return await self.status(execution)

    async def status(self, execution: str | Handle[Any]) -> Status:
        """The status of the execution."""
        client = Client(self.store.inner, self.registry, self.settings, self.clock, None)
        return await client.status(id_of(execution))

    async def timeline(self, execution: str | Handle[Any]) -> str:
        """The timeline of an execution, as text: each step that its code asked for, with the line of source, and each
        event, with their times. Raises StoreError if there is no such execution."""
        return timeline(await self._inspect(execution))

    async def why(self, execution: str | Handle[Any]) -> str:
        """What an execution waits for now, as text: each step with the line of source that asked for it. If it doesn't
        wait, the text says why. Raises StoreError if there is no such execution."""
        return why(await self._inspect(execution))

    async def _inspect(self, execution: str | Handle[Any]) -> Inspection:
        store = self.store.inner
        return await inspect(store, self.registry, await store.read(id_of(execution)))

    async def start_schedules(self) -> list[Handle[None]]:
        """Start the schedules of the workflows, as the app does. Returns their handles."""
        return await start_schedules(self.client, self.registry)

    async def settle(self, limit: int = 10_000) -> None:
        """Drive all executions until none has work to do at the present time. The clock stands still. Raises
        AssertionError if that takes more than `limit` rounds."""
        for _ in range(limit):
            ready = await self._ready()
            if not ready:
                return
            await self._drive(ready, [self.worker, *self._others])
        raise AssertionError(f"executions still had work to do after {limit:,} rounds")

    async def finish(self, execution: str | Handle[Any], limit: int = 200) -> Status:
        """Drive all executions, and move the clock to the next due time again and again. Stops when this execution has
        ended, or when every execution waits only for values from outside. Returns the execution's status.

        Moving the clock lets timeouts run out. To stop at the present time, use `settle`. Raises AssertionError if this
        takes more than `limit` moves of the clock, or if executions belong to workflows that aren't in the environment.
        The error shows what the execution did last. Raises a Fault if the ended execution can't be replayed."""
        id = id_of(execution)
        for _ in range(limit):
            await self.settle()
            stored = await self.store.inner.read(id)
            if stored.is_complete:
                await self._replay(stored)
                return await self.status(id)
            due = (await self.store.inner.due(FAR_FUTURE, 1_000)).executions
            known = [each for each in due if each.is_complete or self._is_known(each)]
            if due and not known:
                raise AssertionError(
                    f"this environment lacks {_listed(due)}: add it to the environment's workflows. "
                    + await self._last_events(id)
                )
            if not known:
                return await self.status(id)
            self.clock.jump(min(map(self._next_look, known)) + timedelta(milliseconds=1))
        raise AssertionError(
            f"execution {id} of {stored.workflow} hasn't ended after {limit:,} moves of the clock, to "
            f"{self.clock.now():%Y-%m-%d %H:%M}. " + await self._last_events(id)
        )

    async def _last_events(self, execution_id: str) -> str:
        """The end of the history, for people."""
        loaded = await self.store.inner.load(execution_id)
        events = [event for chunk in loaded.chunks for event in chunk.decoded()]
        return "Its last events: " + ("; ".join(map(shown, events[-SHOWN_EVENTS:])) or "none, it hasn't begun")

    async def _drive(self, executions: list[Execution], workers: list[Process]) -> None:
        calls = [worker.drive(execution) for execution in executions for worker in workers]
        driving = asyncio.gather(*calls, return_exceptions=True)
        try:
            while not driving.done():
                before = set(self._script.running)
                await asyncio.wait({driving}, timeout=self._patience.total_seconds())
                now, running = self.clock.now(), list(self._script.running.items())
                hanging = [ends for attempt, ends in running if attempt in before and ends >= now]
                if hanging and not driving.done():
                    self.clock.jump(min(hanging) + timedelta(milliseconds=1))
        finally:
            driving.cancel()
        endings = driving.result()
        cut_off = any(worker.is_dead for worker in workers)
        for ending in endings:
            if ending is not None and not (cut_off and isinstance(ending, asyncio.CancelledError)):
                raise ending
        if cut_off:
            await self._replace_the_dead()

    async def _replay(self, execution: Execution) -> None:
        workflow = self.registry.find(execution.workflow, execution.version)
        if not self._replays or workflow is None:
            return
        recording = await export(self.store.inner, execution.execution_id)
        try:
            await asyncio.to_thread(replay, recording, [workflow])
        except Fault as fault:
            fault.add_note(
                "The execution ended, but a replay of its history failed with this error. The code depends on "
                "something that isn't recorded. `python -m engine.guard` finds the usual causes."
            )
            raise

    async def _replace_the_dead(self) -> None:
        for worker in (self.worker, *self._others):
            if worker.is_dead:
                await worker.close(timedelta(0))
        self.worker = self.new_worker() if self.worker.is_dead else self.worker
        self._others = [self.new_worker() if other.is_dead else other for other in self._others]
        self.clock.advance(self.settings.lease + self.settings.skew + timedelta(milliseconds=1))

    async def _ready(self) -> list[Execution]:
        """Executions that have work to do at the present time, the oldest first."""
        now, found = self.clock.now(), list[Execution]()
        page = await self.store.inner.list(Filter(status="running"), 1_000)
        found += [e for e in page.executions if e.is_runnable(now, self.settings.skew) and self._is_known(e)]
        page = await self.store.inner.due(now, 1_000)
        found += [e for e in page.executions if e.owes or e.is_expired(now)]
        return sorted(found, key=lambda e: (e.created_at, e.execution_id))

    def _next_look(self, execution: Execution) -> datetime:
        """The next time at which an execution with a due time may have work to do."""
        assert execution.due_at is not None
        if not execution.is_leased(self.clock.now(), self.settings.skew) or execution.lease_expires_at is None:
            return execution.due_at
        return max(execution.due_at, execution.lease_expires_at + self.settings.skew)

    def _is_known(self, execution: Execution) -> bool:
        return self.registry.find(execution.workflow, execution.version) is not None


def _listed(executions: list[Execution]) -> str:
    return ", ".join(sorted({f"workflow {each.workflow!r} version {each.version!r}" for each in executions}))
