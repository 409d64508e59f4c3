"""Once faults stop: every execution ends, or waits for something that the outside owes it, within two sweeps.

More exactly. Faults stop, and nothing is delivered any more but by the sweep. After the time that leases take to
expire, rounds of two sweeps follow, by workers that know the versions of all executions. In each:
1. Whatever was due on everybody's clock has changed.
2. What isn't due and isn't driven is at rest. It has ended and its parents are notified, or it is suspended with
   nothing unseen. Its history alone, replayed, waits for exactly that: deferreds that nobody completed, channels with
   nothing untaken, children that still run, timers and retries of which the earliest is its `dueAt`.
3. No child runs on that its parent, which has ended, waited for or gave up: it was interrupted, or is over.
4. Then the outside brings what it owes, time jumps to what is due next, and there is another round.
At the end all have ended, their histories replay to the recorded results, and without faults every attempt ran once.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from engine.core.commands import DropChild
from engine.core.registry import Registry
from engine.core.run import Run
from engine.core.steps import ChildStep
from engine.store.base import Loaded, payload_of, sort_documents
from engine.store.documents import EXEC, Execution
from engine.values.events import effective
from tests.verification.simulation.invariants import Identity, Known, ObservedRun, Violation
from tests.verification.simulation.outside import Outside
from tests.verification.simulation.platform import Platform
from tests.verification.simulation.programs import NEWER, WORKFLOWS
from tests.verification.simulation.world import World

ROUNDS = 40
"""Rounds in which every execution must have ended."""
CLOCKS = timedelta(seconds=6)
"""More than any clock is off."""
EXPIRY_SECONDS = 70.0
"""More than a lease, the allowance for skew, clocks that are off, and the store's own retries take."""
SIMPLE_CAUSES = {"Quarantined", "ConnectionError", "ValueError", "TimeoutError"}
"""What may suspend an execution here: nobody deploys code that is at fault."""

REGISTRY = Registry([*WORKFLOWS.values(), *NEWER.values()])


class Settling:
    """The end of a world."""

    def __init__(self, world: World, platform: Platform, outside: Outside) -> None:
        self._world = world
        self._platform = platform
        self._outside = outside

    async def settle(self) -> None:
        """Bring every execution to its end. Raises Violation."""
        world = self._world
        world.note("", "faults stop")
        world.faults.stop()
        self._platform.stop()
        world.newer = True
        for node in list(world.workers):
            if node.process.frozen:
                world.loop.thaw(node.process)
        world.boot()
        await asyncio.sleep(EXPIRY_SECONDS)
        for _ in range(ROUNDS):
            is_over = await self._round()
            self._check_dropped()
            if is_over:
                return self._check_ends()
        raise Violation(f"after {ROUNDS} rounds these have not ended: {[e.execution_id[:4] for e in self._running()]}")

    async def _round(self) -> bool:
        """Two sweeps. True once there is nothing left to do."""
        world = self._world
        due = {e.execution_id: e.etag for e in self._executions() if self._is_due(e, -CLOCKS)}
        able = [node for node in world.workers if node.newer and not node.closing]
        for node in (able[0], able[-1]):
            await self._platform.sweep(node)
        for execution in self._executions():
            if due.get(execution.execution_id) == execution.etag:
                raise Violation(f"execution {execution.execution_id[:4]} is due, but two sweeps did nothing for it")
        waiting = False
        for execution in self._executions():
            if execution.owes and execution.due_at is None:
                raise Violation(f"execution {execution.execution_id[:4]} owes its end to a parent, but is never due")
            pending = execution.due_at is not None and not execution.suspended and not execution.is_complete
            if pending or execution.owes or self._is_due(execution, CLOCKS):
                waiting = True
            elif not execution.is_complete:
                waiting = await self._look(execution) or waiting
        if not waiting and not self._running():
            return True
        if not waiting:
            await self._pass_time()
        else:
            await asyncio.sleep(2 * CLOCKS.total_seconds())
        return False

    async def _look(self, execution: Execution) -> bool:
        """Check that it is at rest, and give it what it waits for. True if something was given."""
        world, id = self._world, execution.execution_id
        if not execution.suspended or execution.wake != execution.seen_wake:
            raise Violation(f"execution {id[:4]} is not due, but there is something to do for it")
        if execution.cause is not None:
            if execution.cause.type not in SIMPLE_CAUSES:
                raise Violation(f"execution {id[:4]} is suspended: {execution.cause.type}: {execution.cause.message}")
            world.cured = True
            await self._outside.resume(id)
            return True
        loaded = self._loaded(execution)
        run = replayed(execution, loaded)
        try:
            return await self._owed(execution, loaded, run)
        finally:
            run.close()

    async def _owed(self, execution: Execution, loaded: Loaded, run: Run) -> bool:
        id = execution.execution_id
        of_now = [i for i in loaded.inbox if i.kind != "child" or i.reopenings == execution.reopenings]
        sent = {(i.kind, i.name) for i in of_now if i.run_id in (None, execution.run_id)}
        left = [item for item in loaded.inbox if item.kind == "channel" and item.id not in run.taken]
        dues = [timer.due for timer in run.steps.timers.values()]
        dues += [step.retry_at for step in run.steps.activities.values() if step.retry_at is not None]
        for wrong, what in (
            (run.outcome is not None, "has come to its end"),
            (execution.interrupted and not run.interrupted, "has not heard of its interrupt"),
            (
                any(step.retry_at is None for step in run.steps.activities.values()),
                "waits for an activity that nobody runs",
            ),
            (any(("deferred", name) in sent for name in run.steps.deferreds), "waits for a value that is there"),
            (any(("child", step) in sent for step in run.steps.children), "waits for a child that has told its end"),
            (not all(map(self._lives, run.steps.children.values())), "waits for a child that nobody runs"),
            (bool(left and run.steps.channels), "waits for a channel that has values"),
            (execution.due_at != min(dues, default=None), f"waits until {execution.due_at}, and not for {dues}"),
            (not run.open_steps(), "waits for nothing"),
            (execution.history_length != execution.history_start + len(loaded.chunks), "doesn't count its history"),
        ):
            if wrong:
                raise Violation(f"execution {id[:4]} is at rest, but {what}")
        for name in list(run.steps.deferreds):
            await self._outside.complete(id, name.partition("[")[2].removesuffix("]"))
        for _ in run.steps.channels:
            await self._outside.send(id)
        return bool(run.steps.deferreds or run.steps.channels)

    def _lives(self, step: object) -> bool:
        child = self._world.container.documents(getattr(step, "execution_id", "")).get(EXEC)
        return child is not None

    async def _pass_time(self) -> None:
        world = self._world
        dues = [e.due_at for e in self._executions() if e.due_at is not None and not e.is_complete]
        if not dues:
            raise Violation(f"nothing is due, but these run: {[e.execution_id[:4] for e in self._running()]}")
        await asyncio.sleep(max(0.0, (min(dues) + CLOCKS - world.now).total_seconds()))

    def _check_dropped(self) -> None:
        for parent in self._executions():
            if not parent.is_complete or parent.outcome == "terminated":
                continue
            run = replayed(parent, self._loaded(parent))
            dropped = [command.step for command in run.take_commands() if isinstance(command, DropChild)]
            for step in [*dropped, *run.steps.children.values()]:
                if not isinstance(step, ChildStep) or step.abandon or not (step.waits and step.is_own):
                    continue
                child = self._world.container.documents(step.execution_id).get(EXEC)
                if child is not None and child["status"] == "running" and not child["interrupted"]:
                    raise Violation(f"{step.execution_id[:4]} runs, but {parent.execution_id[:4]} has given it up")
            run.close()

    def _check_ends(self) -> None:
        for execution in self._executions():
            check_end(execution, self._loaded(execution))
        if self._world.faults.calm:
            for identity, known in self._world.invariants.all():
                check_runs(identity, known)

    def _loaded(self, execution: Execution) -> Loaded:
        documents = self._world.container.documents(execution.execution_id)
        loaded = sort_documents(documents.values())
        chunks = [chunk for chunk in loaded.chunks if chunk.number >= execution.history_start]
        return replace(loaded, chunks=chunks)

    def _executions(self) -> list[Execution]:
        container = self._world.container
        return [Execution.from_document(d[EXEC]) for d in map(container.documents, container.known()) if EXEC in d]

    def _running(self) -> list[Execution]:
        return [execution for execution in self._executions() if not execution.is_complete]

    def _is_due(self, execution: Execution, by: timedelta) -> bool:
        return execution.due_at is not None and execution.due_at <= self._world.now + by


def replayed(execution: Execution, loaded: Loaded) -> ObservedRun:
    """The execution's code, brought to where its history leads."""
    workflow = REGISTRY.find(execution.workflow, execution.version)
    assert workflow is not None
    history = effective(event for chunk in loaded.chunks for event in chunk.decoded())
    payload = payload_of(execution, loaded, history)
    assert execution.run_id is not None
    run = ObservedRun(
        workflow,
        execution.execution_id,
        payload or "null",
        execution.run_started_at,
        execution.ancestors,
        execution.run_id,
        execution.logic_flags,
    )
    run.begin()
    for event in history:
        run.apply(event)
    return run


def check_end(execution: Execution, loaded: Loaded) -> None:
    """A history leads to the recorded outcome. Raises Violation, or what the replay raises."""
    if execution.outcome == "terminated":
        return
    run = replayed(execution, loaded)
    run.close()
    result = loaded.output.value if loaded.output else execution.completed_result
    found = (run.outcome.kind, run.outcome.value) if run.outcome else None
    if found != (execution.outcome, result):
        recorded = (execution.outcome, result)
        raise Violation(f"execution {execution.execution_id[:4]} replays to {found}, not to {recorded}")
    shown = run.displayed.status
    if shown is not None and (shown, run.displayed.tags["seen"]) != (execution.custom_status, execution.tags["seen"]):
        raise Violation(f"execution {execution.execution_id[:4]} shows {execution.custom_status}, not {shown}")


def check_runs(identity: Identity, known: Known) -> None:
    """Without faults an attempt runs once: those recorded as failed, the one that ended the step, and nothing else but
    one that was given up."""
    for step, starts in known.starts.items():
        least = known.failed[step] + (step in known.resolved)
        most = known.failed[step] + 1
        if not least <= starts <= most:
            raise Violation(f"{step} of {identity[0][:4]} ran {starts} times, but should have {least} to {most} times")
