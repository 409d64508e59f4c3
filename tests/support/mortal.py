"""A worker whose process ends at a chosen call of the store, and what must hold whenever that happens.

    for k, moment in deaths(await count(scenario, workflows)):
        async with mortal(workflows, k, moment) as env: ...

Only the worker dies; whoever speaks to executions through the client lives on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypeVar, cast

from engine import Workflow, activity
from engine.core.run import Run
from engine.driving.worker import Worker
from engine.store.base import Filter, Store
from engine.store.documents import Chunk, Execution
from engine.store.wrapper import Call, WatchedStore
from engine.testing import Environment
from engine.values.events import StepResolved, effective

Moment = Literal["before", "after"]
Death = tuple[int, Moment]
"""The number of the store call that a process dies in, and on which side of its effect."""
T = TypeVar("T")
Scenario = Callable[[Environment], Awaitable[Any]]


@dataclass
class Journal:
    """What activities did, and what of it was recorded, in that order."""

    entries: list[tuple[str, str, str]] = field(default_factory=list)
    """("ran" or "recorded", execution id, step id)."""
    effects: list[str] = field(default_factory=list)
    """What activities say they did."""

    def note(self, what: str) -> None:
        """An activity did something."""
        with contextlib.suppress(RuntimeError):
            info = activity.info()
            self.entries.append(("ran", info.execution_id, info.step))
        self.effects.append(what)

    def clear(self) -> None:
        self.entries.clear()
        self.effects.clear()

    def counts(self) -> Counter[str]:
        return Counter(self.effects)

    def assert_recorded_is_final(self) -> None:
        """A step whose result was recorded never runs again."""
        recorded: set[tuple[str, str]] = set()
        for what, execution, step in self.entries:
            if what == "recorded":
                recorded.add((execution, step))
            else:
                assert (execution, step) not in recorded, f"{step} of {execution} ran after it was recorded"


journal = Journal()
"""Of the environment that is open."""


@activity
async def do(what: str) -> str:
    """An activity that gives back what it is given, and says that it did it."""
    journal.note(what)
    return what


def dying_store(
    inner: Store, death: Death | None, record: Callable[[Chunk], None]
) -> tuple[WatchedStore, asyncio.Event]:
    """A process's view of the store. In the call that `death` names, the process dies: that call never answers, nor
    does any that it makes after it, and the event is set. `record` is given each chunk that is written."""
    died = asyncio.Event()

    async def dies(call: Call, moment: Moment) -> None:
        if died.is_set() or (call.number, moment) == death:
            died.set()
            await asyncio.Event().wait()

    async def before(call: Call) -> None:
        await dies(call, "before")

    async def after(call: Call) -> None:
        for chunk in call.arguments:
            if isinstance(chunk, Chunk):
                record(chunk)
        await dies(call, "after")

    return WatchedStore(inner, before, after), died


class Mortal:
    """Stands where a worker does. At store call number `k` (from 0) the process ends, `before` or `after` the call's
    effect: nothing of it runs on, and the next drive is another process's."""

    def __init__(self, env: Environment, k: int | None, moment: Moment) -> None:
        self._env, self._k = env, k
        self._gone: list[Worker] = []
        self._live(None if k is None else (k, moment))
        self.store, self._first_death = self._store, self._death

    @property
    def died_at(self) -> Call | None:
        """The call that the process died in."""
        return self.store.calls[self._k or 0] if self._first_death.is_set() else None

    async def drive(self, execution: Execution) -> None:
        worker, death = self._worker, self._death
        task, dying = worker.start(execution), asyncio.ensure_future(death.wait())
        await asyncio.wait([task, dying], return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if death.is_set():
            if worker is self._worker:
                self._gone.append(worker)
                self._live(None)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)

    async def close(self, grace: timedelta) -> None:
        for worker in [*self._gone, self._worker]:
            await worker.close(grace)

    def _live(self, death: Death | None) -> None:
        self._store, self._death = dying_store(self._env.store.inner, death, self._record)
        self._worker = self._env.new_worker(self._store)

    def _record(self, chunk: Chunk) -> None:
        steps = [event["step"] for event in chunk.events if event["kind"] == "activity"]
        journal.entries += [("recorded", chunk.execution_id, step) for step in steps]


@contextlib.asynccontextmanager
async def mortal(
    workflows: Sequence[Workflow[Any, Any]], k: int | None = None, moment: Moment = "before"
) -> AsyncIterator[Environment]:
    """An environment whose worker dies at call `k`; never, if that is None."""
    journal.clear()
    async with Environment(workflows) as env:
        env.worker = cast(Worker, Mortal(env, k, moment))  # type: ignore[assignment]
        yield env


async def everywhere(workflows: Sequence[Workflow[Any, Any]], scenario: Scenario, limit: int = 80) -> int:
    """Run `scenario` whole, then with a death before and after each of the worker's store calls. Whatever it asserts
    must hold each time, no recorded step may run again, and what came about must replay. Returns how many calls it
    was. A scenario makes at most `limit`."""
    async with mortal(workflows) as env:
        await scenario(env)
        await assert_replays(env)
        calls = cast(Mortal, env.worker).store.count()
    assert 0 < calls <= limit
    for k, moment in deaths(calls):
        async with mortal(workflows, k, moment) as env:
            try:
                await scenario(env)
                journal.assert_recorded_is_final()
                await assert_replays(env)
            except BaseException as error:
                error.add_note(f"died {moment} call {k}: {cast(Mortal, env.worker).died_at}")
                raise
    return calls


def deaths(calls: int) -> Iterator[tuple[int, Moment]]:
    """Every call, before and after."""
    for k in range(calls):
        yield k, "before"
        yield k, "after"


async def rest(env: Environment) -> None:
    """Let everything run that can; if a worker died, its leases expire first."""
    await env.settle()
    while any(execution.worker for execution in await executions(env)):
        env.clock.advance(env.settings.lease + env.settings.skew + timedelta(seconds=1))
        await env.settle()


async def executions(env: Environment, workflow: Workflow[Any, Any] | None = None) -> list[Execution]:
    """All executions there are, or those of a workflow, the oldest first."""
    page = await env.store.inner.list(Filter(workflow=workflow.name if workflow else None), 1_000)
    return sorted(page.executions, key=lambda e: (e.created_at, e.execution_id))


async def assert_at_rest(env: Environment) -> None:
    """Every execution has ended, holds no lease and owes nothing."""
    for execution in await executions(env):
        assert execution.is_complete, f"{execution.workflow} {execution.payload} is left running"
        assert execution.worker is None
        assert not execution.owes


async def assert_replays(env: Environment) -> None:
    """Each execution's history, given to the code afresh, comes to what is stored."""
    for execution in await executions(env):
        run = await replayed(env, execution)
        if execution.is_complete and execution.outcome != "terminated":
            assert run.outcome is not None, f"{execution.workflow} comes to no outcome in replay"
            assert run.outcome.kind == execution.outcome
            assert run.outcome.error == execution.error or _alike(run.outcome.error, execution.error)
            assert len(run.outcome.compensation_errors) == len(execution.compensation_errors)
            if execution.completed_result is not None:
                assert run.outcome.value == execution.completed_result
        run.close()


async def replayed(env: Environment, execution: Execution) -> Run:
    """The code of an execution, brought to where its history leaves it."""
    loaded = await env.store.inner.load(execution.execution_id)
    workflow = env.registry.find(execution.workflow, execution.version)
    assert workflow is not None
    payload = loaded.input.value if loaded.input else execution.payload or "null"
    run = Run(
        workflow,
        execution.execution_id,
        payload,
        execution.created_at,
        execution.ancestors,
        execution.run_id,
        execution.logic_flags,
        raises=env.registry.raises,
    )

    def work() -> None:
        run.begin()
        for event in effective(event for chunk in loaded.chunks for event in chunk.decoded()):
            run.apply(event)

    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def call() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    asyncio.get_running_loop().call_soon(call)
    await done
    return run


def _alike(one: Any, other: Any) -> bool:
    return bool(one and other and (one.type, one.message, one.data) == (other.type, other.message, other.data))


async def inputs(env: Environment, id: str) -> list[str | None]:
    """The values in the history, in order."""
    loaded = await env.store.inner.load(id)
    events = [event for chunk in loaded.chunks for event in chunk.decoded()]
    return [
        event.value for event in events if isinstance(event, StepResolved) and event.kind in ("deferred", "channel")
    ]
