"""Driving one execution: the only place where the deterministic core meets the store.

A drive holds the lease of one execution from its claim until it lets go. One flow of control makes every write to the
exec document and the history, so a drive can't race with itself. Activities run beside this flow, and only report to
it.

Invariants:
1. An event is recorded before the drive starts any activity that follows from it (write-ahead).
2. Only a result that the workflow still waits for is recorded. A late result of a step that it gave up is dropped.
3. A drive that has lost the lease writes nothing more, and cancels its running activities.
4. An error of the store ends the drive, never the execution. The lease expires, and another drive loads what is stored.
   If the store can't be reached, the claim isn't counted: the driver is alive. The same holds for a child that only a
   later version of the engine may change.
5. A Fault of the deployment suspends the execution. All events before it are recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from engine.core.commands import DropActivity, DropChild, StartActivity, StartChild
from engine.core.declarations import Workflow
from engine.core.run import Run
from engine.core.steps import ChildStep
from engine.driving.activities import Activities
from engine.driving.at_work import AtWork
from engine.driving.children import Children
from engine.driving.claim import Claim
from engine.driving.delivery import Delivery
from engine.driving.end_log import log_end
from engine.driving.intake import Intake
from engine.driving.lease import Lease, LeaseLost
from engine.driving.log_fields import fields_of, known_key
from engine.driving.places import Place
from engine.driving.quarantine import check_before_load, check_progress
from engine.driving.resources import Resources
from engine.driving.runs import displayed_by, run_of
from engine.driving.suspension_log import log_suspension
from engine.driving.workflow_log import write_lines
from engine.ground import telemetry
from engine.ground.errors import (
    CodeFailed,
    Fault,
    LaterEngine,
    Quarantined,
    StoreError,
    Stuck,
    Unavailable,
)
from engine.store import transitions
from engine.store.base import MAX_DISCARD
from engine.store.documents import OUTPUT, Execution, Heartbeat, InboxItem, Large, is_large
from engine.store.transitions import Replacement
from engine.values.error_records import ErrorRecord, record
from engine.values.events import Begun, Event
from engine.values.outcome import Outcome

_log = logging.getLogger("engine")


class Stopping(enum.Enum):
    """Whether the process wants a drive to let go."""

    NOT = "it goes on"
    BETWEEN_STEPS = "it lets go between two steps, as soon as no activity runs"
    NOW = "it lets go at once, and cancels the activities that run"


class Drive:
    """One driver at work on one execution, under the claim that it holds."""

    def __init__(self, resources: Resources, place: Place, workflow: Workflow[Any, Any], claim: Claim) -> None:
        claimed = claim.execution
        self._resources = resources
        self._place = place
        self._workflow = workflow
        self._lease = Lease(resources.store, resources.clock, resources.settings, claim)
        self._is_fresh = claim.is_fresh
        self._logged = claimed.logged
        self._intake: Intake | None = None
        """What the code takes in. None as long as its history isn't loaded."""
        self._changed = asyncio.Event()
        self.newest_seen = claimed
        """The newest version of the exec document that this drive was notified of."""
        self._activities = Activities(resources, claimed, workflow.options.max_parallel, self._changed)
        self._children = Children(resources, claim, self._changed)
        self._ended: set[str] = set()
        """The steps of children that were dropped because the code had ended. An interrupt may make the code run again,
        and these children aren't dropped twice."""
        self._stopping = Stopping.NOT

    # -- what the worker calls --

    @property
    def execution(self) -> Execution:
        """The exec document as last read or written."""
        return self._lease.execution

    @property
    def has_news(self) -> bool:
        """Whether there is news that this drive has not taken in."""
        return self._lease.is_behind

    @property
    def is_busy(self) -> bool:
        """Whether activities have begun and not ended. They can't move to another process."""
        return self._activities.have_begun

    async def run(self) -> None:
        """Drive until the execution has ended, is suspended or released, or belongs to another driver. Raises nothing
        but CancelledError."""
        one, id = self.execution, self.execution.execution_id
        try:
            with telemetry.segment(id, one.workflow, one.traceparent, is_first=not one.history_length) as marks:
                await self._drive()
                marks.note("durable.status", "suspended" if self.execution.suspended else self.execution.status)
        except LeaseLost as lost:
            _log.info("execution %s: stopped driving: %s", id, lost, extra=fields_of(one))
        except (Unavailable, LaterEngine) as error:
            _log.warning("execution %s: stopped driving, its lease will expire: %s", id, error, extra=fields_of(one))
            self._cancel()
            await self._uncount_claim()
        except StoreError as error:
            _log.error("execution %s: stopped driving, its lease will expire: %s", id, error, extra=fields_of(one))
        except Exception:  # noqa: BLE001 - a bug in the engine must not stop other executions
            _log.exception("execution %s: the driver failed, its lease will expire", id, extra=fields_of(one))
        finally:
            self._cancel()
            if self._intake is not None:
                self._intake.run.close()

    async def _uncount_claim(self) -> None:
        with contextlib.suppress(StoreError, LeaseLost):  # the store can't be reached for longer
            await self._lease.uncount_claim()

    def notify(self, execution: Execution) -> None:
        """Note that a version of the exec document was seen. It may bring news."""
        if self._lease.notice(execution.wake):
            self.newest_seen = execution
            self._changed.set()

    def drain(self) -> None:
        """Let go between two steps, as soon as no activity runs."""
        if self._stopping is Stopping.NOT:
            self._stopping = Stopping.BETWEEN_STEPS
        self._changed.set()

    def go_on(self) -> None:
        """Take back `drain`: go on with the next step."""
        if self._stopping is Stopping.BETWEEN_STEPS:
            self._stopping = Stopping.NOT
        self._changed.set()

    def cut(self) -> None:
        """Let go now. Running activities are cancelled and leave no trace."""
        self._stopping = Stopping.NOW
        self._changed.set()

    # -- the flow --

    async def _drive(self) -> None:
        try:
            intake = await self._begin()
            delivery = Delivery(self._resources, intake.run, self._lease, self._activities, self._children)
            while not await self._step(intake, delivery):
                pass
        except Fault as fault:
            while not await self._suspend_because(fault):
                pass

    async def _begin(self) -> Intake:
        """Run the workflow's code to the point where its history ends."""
        payload, history = self.execution.payload or "null", list[Event]()
        settings = self._resources.settings
        check_before_load(self.execution, settings.max_claims)
        if not self._is_fresh:
            payload, history = await self._lease.load()
        check_progress(self.execution, settings.max_claims, history)
        one = self.execution
        self._activities.key = known_key(self._workflow, one.execution_id, payload)
        run = run_of(self._workflow, one, payload, history, self._resources.registry.raises)
        at_work = AtWork(self._lease, run) if one.claims >= settings.max_claims else None
        self._intake = Intake(run, self._lease, settings, self._keep_the_lease, at_work)
        await self._intake.replay(history)
        if one.reopenings:
            self._ask_again_for_children(run, history)
        return self._intake

    async def _step(self, intake: Intake, delivery: Delivery) -> bool:
        """One round: deliver new events, record them, and start what follows from them. True once the drive has let go.

        Write-ahead depends on this order:
        1. The code sees only events that were read under a lease that still holds. The code asks for steps, in memory.
        2. Activities that the code gave up are cancelled at once. That leaves no trace, so it needs no record before.
        3. If the drive ends here, one transition writes the last events and lets go. This drive starts nothing more.
        4. Otherwise the events are recorded. Only then may they have effects outside this process.
        5. Recording may have taken as long as the lease lasts. If the heartbeat is due, the round begins again.
        6. Now the effects start: children that were given up are interrupted, other children are begun, and activities
           start.
        """
        run = intake.run
        # 1.
        if self._lease.is_behind:
            await self._lease.refresh()
        await self._keep_the_lease()
        await intake.take_in(delivery)
        if run.held is not None:
            raise CodeFailed(run.held)
        # 2.
        self._sort_steps(run)
        if self._children.error is not None:
            raise self._children.error
        # 3.
        if run.outcome is not None:
            self._drop_children(run)
            if not self._children.are_crossing:
                return await self._end(intake, run.outcome)
        if self._stopping is Stopping.NOW:
            self._cancel()
            return await self._let_go(transitions.release(self._lease.token, self._now()))
        if self._is_at_rest(run, delivery):
            return await self._suspend(run, delivery.cause_to_stop())
        # 4.
        await intake.record()
        self._lease.displayed = {**displayed_by(run), "parked": self._activities.parked()}
        self._write_log()
        # 5.
        if self._now() >= self._lease.heartbeat_at:
            return False
        # 6.
        self._children.interrupt_dropped()
        if self._stopping is Stopping.BETWEEN_STEPS:
            self._activities.recall()
            if not self._activities.are_running and not self._children.are_crossing:
                return await self._let_go(transitions.release(self._lease.token, self._now()))
        elif run.outcome is None:
            await intake.before_starting()
            self._children.begin(run.steps.children)
            self._activities.start(run.steps.activities)
        await self._wait(run)
        return False

    # -- activities and children --

    def _sort_steps(self, run: Run) -> None:
        """Pass on which activities and children the code has asked for, and which it has given up."""
        for command in run.take_commands():
            match command:
                case StartActivity(step):
                    self._resources.registry.check_step(step.activity)
                    self._activities.add(step)
                case StartChild(child):
                    self._children.add(child)
                case DropActivity(step):
                    self._activities.drop(step)
                case DropChild(child, outlives):
                    self._drop_child(child, run.steps.children, outlives)
        self._activities.wake(self._now(), self.execution.wake)

    def _ask_again_for_children(self, run: Run, history: Sequence[Event]) -> None:
        """Begin the children once more that this execution had begun before it was reopened."""
        asked = {
            event.step
            for event in history
            if isinstance(event, Begun) and event.reopenings == self.execution.reopenings
        }
        for step in run.steps.children.values():
            if step.begun and step.id not in asked:
                self._children.add(step)

    def _drop_children(self, run: Run) -> None:
        """Drop the children that the code still waits for at its end, except abandoned ones."""
        for step in run.steps.children.values():
            if step.id not in self._ended:
                self._ended.add(step.id)
                if not run.steps.outlives(step):
                    self._drop_child(step, {}, outlives=False)

    def _drop_child(self, step: ChildStep, open: Mapping[str, ChildStep], outlives: bool) -> None:
        if self._exit_of(step) is None:
            self._children.drop(step, open, outlives)

    def _exit_of(self, step: ChildStep) -> InboxItem | None:
        """The exit of a child, if it is known."""
        return self._lease.inbox.child(step.id) or self._children.exits.get(step.id)

    def _cancel(self) -> None:
        self._activities.cancel()
        self._children.cancel()

    # -- waiting --

    async def _keep_the_lease(self) -> None:
        if self._now() >= self._lease.heartbeat_at:
            await self._lease.extend(self._heartbeats())

    def _is_at_rest(self, run: Run, delivery: Delivery) -> bool:
        if self._changed.is_set():  # something arrived since the last delivery, perhaps only in memory
            return False
        if not self._activities.are_idle or not self._children.are_idle:
            return False
        due = self._next_due(run)
        hold = self._resources.settings.hold if self._stopping is Stopping.NOT else timedelta(0)
        return due is None or due > self._now() + hold

    def _next_due(self, run: Run) -> datetime | None:
        timer = min((timer.due for timer in run.steps.timers.values()), default=None)
        return min(filter(None, (timer, self._activities.next_due)), default=None)

    async def _wait(self, run: Run) -> None:
        due = self._next_due(run) if run.outcome is None else None  # timers don't count after the end
        until = min(filter(None, (self._lease.heartbeat_at, due)))
        self._place.give_up()
        await self._resources.clock.wait(self._changed, self._seconds_until(until))
        self._changed.clear()
        while not await self._place.take_within(self._resources.clock, self._seconds_until(self._lease.heartbeat_at)):
            await self._keep_the_lease()

    # -- letting go --

    async def _suspend(self, run: Run, cause: ErrorRecord | None) -> bool:
        if cause is not None:
            log_suspension(self.execution, cause.type, f"a step failed for good: {cause.type}: {cause.message}")
            return await self._let_go(self._suspension(self._next_due(run), cause))
        if run.open_steps():
            return await self._let_go(self._suspension(self._next_due(run)))
        return await self._suspend_because(
            Stuck(
                "the workflow waits for something that no activity, timer or deferred can bring (an Event that nobody "
                "sets, a task that waits for itself); only an interrupt reaches it"
            )
        )

    async def _suspend_because(self, fault: Fault) -> bool:
        log_suspension(self.execution, type(fault).__name__, str(fault))
        claims = self.execution.claims - 1 if isinstance(fault, Quarantined) else 0  # the driver of this claim is alive
        return await self._let_go(
            self._suspension(None, record(fault.error if isinstance(fault, CodeFailed) else fault), claims)
        )

    def _suspension(self, due_at: datetime | None, cause: ErrorRecord | None = None, claims: int = 0) -> Replacement:
        return transitions.suspend(self._lease.token, due_at, self._now(), cause, claims)

    async def _end(self, intake: Intake, outcome: Outcome) -> bool:
        run = intake.run
        if run.next_payload is None:
            return await self._complete(run, outcome)
        read = self._lease.inbox.read_by(run.taken, run.received)
        if len(read) >= MAX_DISCARD:
            # Some items are deleted before the restart itself. After that, only the history has their values.
            await intake.record()
        if not await self._lease.restart(run.next_payload, read, max(self._now(), run.now), displayed_by(run)):
            return False
        self._write_log()
        return True

    async def _complete(self, run: Run, outcome: Outcome) -> bool:
        text, output = outcome.value, None
        if text is not None and is_large(text):
            output = Large(id=OUTPUT, execution_id=self.execution.execution_id, value=text).with_write_id()
        result = None if output else text
        completion = transitions.complete(
            self._lease.token, outcome.kind, result, outcome.error, self._now(), outcome.compensation_errors
        )
        unread = self._lease.inbox.unread(run.taken)
        completion = completion.also(unread_values=unread, leftovers=run.leftovers())
        completion = completion.also(ended_at=run.ended_at, undone=run.undone)
        if not await self._let_go(completion, output):
            return False
        telemetry.add("durable.executions.ended", workflow=self.execution.workflow, outcome=outcome.kind)
        log_end(self.execution)
        return True

    async def _let_go(self, transition: Replacement, output: Large | None = None) -> bool:
        """End the drive by this transition. False if there was news: then the drive goes on."""
        intake, heartbeats = self._intake, self._heartbeats()
        if heartbeats is not None and "heartbeats" not in transition.set:  # the end of a run deletes them
            transition = transition.also(heartbeats=heartbeats)
        if intake is not None and intake.is_replayed and "parked" not in transition.set:
            transition = transition.also(parked=self._activities.parked())
        if intake is not None and intake.run.has_begun:
            transition = transition.also(logged=max(intake.run.turn + 1, self.execution.logged))
            if intake.is_replayed:  # a replay that broke off is behind what is shown already
                transition = transition.also(**displayed_by(intake.run))
        if not await self._lease.let_go(transition, intake.unrecorded if intake is not None else [], output):
            return False
        self._write_log()
        return True

    def _heartbeats(self) -> dict[str, Heartbeat] | None:
        """The last heartbeats of the activities that the code waits for. None as long as that isn't known."""
        intake = self._intake
        return self._activities.heartbeats(intake.run.steps.activities) if intake and intake.is_replayed else None

    def _write_log(self) -> None:
        """Write the log lines that no driver has written before. The events of their turns are recorded."""
        if self._intake is not None:
            lines = [line for line in self._intake.run.take_log() if line.turn >= self._logged]
            write_lines(lines, self.execution, self._activities.key)

    def _now(self) -> datetime:
        return self._resources.clock.now()

    def _seconds_until(self, moment: datetime) -> float:
        return max(0.0, (moment - self._now()).total_seconds())
