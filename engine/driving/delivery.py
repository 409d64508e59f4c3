"""Delivery: chooses the next event for a workflow's code among everything that has arrived for it.

Rules:
1. An interrupt goes before everything else. Once the code has ended, nothing but an interrupt is delivered.
2. Only a result that the code waits for now becomes an event. A late result of a step that the code gave up is dropped.
3. One pass over the open steps serves many events. So the time for each event doesn't grow with the number of inbox
   items, children and timers.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from engine.core.messages import Message
from engine.core.run import Run
from engine.core.steps import ActivityStep
from engine.driving.activities import Activities
from engine.driving.attempt import AttemptResult
from engine.driving.children import Children
from engine.driving.lease import Lease
from engine.driving.resources import Resources
from engine.ground.clock import FAR_FUTURE
from engine.ground.errors import EncodingError, RetryAfter, TooLarge
from engine.values.error_records import ErrorRecord, record
from engine.values.events import AttemptFailed, Begun, Event, Interrupted, StepHeld, StepResolved


class Delivery:
    """Finds the next event for `run` among what its lease, its activities and its children have brought."""

    def __init__(
        self, resources: Resources, run: Run, lease: Lease, activities: Activities, children: Children
    ) -> None:
        self._resources = resources
        self._run = run
        self._lease = lease
        self._activities = activities
        self._children = children
        self._held: list[tuple[ActivityStep, ErrorRecord]] = []
        self._pass: Iterator[Event] = iter(())

    def next_event(self) -> Event | None:
        """The next event at the present time, or None if nothing has arrived."""
        run, at = self._run, self._at()
        if self._lease.execution.interrupted and not run.interrupted:
            return Interrupted(at, reason=self._lease.execution.interrupt_reason)
        if run.outcome is not None:
            return None
        while (ended := self._activities.next_ended()) is not None:
            if run.steps.activities.get(ended[0].id) is ended[0]:
                return self._ending(*ended, at)
        event = next(self._pass, None)
        if event is None:
            self._pass = self._matches()
            event = next(self._pass, None)
        return event

    def cause_to_stop(self) -> ErrorRecord | None:
        """The error of the first held step that the workflow still waits for, or None."""
        return next((error for step, error in self._held if self._run.is_open("activity", step.id)), None)

    def _at(self) -> datetime:
        return max(self._resources.clock.now(), self._run.now)

    def _matches(self) -> Iterator[Event]:
        """One pass. The code runs between two events, so each event is made only if the code still waits for its
        step."""
        run, inbox = self._run, self._lease.inbox
        for name in list(run.steps.deferreds):
            item = inbox.deferred(name)
            if item is not None and name in run.steps.deferreds:
                yield StepResolved(name, "", self._at(), "deferred", item.value, item.error)
        while (child := self._children.next_begun()) is not None:
            if run.steps.children.get(child.id) is child:
                reopenings = self._lease.execution.reopenings or None
                yield Begun(child.id, child.digest, self._at(), input=child.new_input, reopenings=reopenings)
        for child in list(run.steps.children.values()):
            item = inbox.child(child.id) or self._children.exits.get(child.id)
            if item is not None and run.steps.children.get(child.id) is child:
                yield StepResolved(
                    child.id, child.digest, self._at(), "child", item.value, item.error, input=child.new_input
                )
        for receiving in list(run.steps.channels.values()):
            item = inbox.next_value(receiving.channel.name, run.taken)
            if item is not None and run.steps.channels.get(receiving.id) is receiving:
                yield StepResolved(receiving.id, "", self._at(), "channel", item.value, item.error, item.id)
        yield from self._due_timers()

    def _due_timers(self) -> Iterator[Event]:
        """Events of due timers. They go last: a result that has arrived goes before a time limit. So the pass also ends
        when the code begins to wait for another deferred, child or channel value."""
        run, at = self._run, self._at()
        awaited = len(run.steps.deferreds), len(run.steps.children), len(run.steps.channels)
        for timer in sorted((t for t in run.steps.timers.values() if t.due <= at), key=lambda t: t.due):
            if run.steps.timers.get(timer.id) is timer:
                yield StepResolved(timer.id, timer.digest, self._at(), "timer", input=timer.new_input)
            if awaited != (len(run.steps.deferreds), len(run.steps.children), len(run.steps.channels)):
                return

    def _ending(self, step: ActivityStep, ended: AttemptResult, at: datetime) -> Event:
        if ended.error is None:
            return StepResolved(step.id, step.digest, at, "activity", value=ended.value, input=step.new_input)
        retry, attempts = step.activity.retry, step.attempts + 1
        error = record(ended.error, step.activity.raises)
        if isinstance(ended.error, EncodingError | TooLarge) or not retry.allows(ended.error, attempts):
            if self._run.workflow.options.suspend_on_failure and not isinstance(step.activity, Message):
                self._held.append((step, error))
                return StepHeld(step.id, step.digest, at, error, input=step.new_input, details=ended.details)
            return StepResolved(step.id, step.digest, at, "activity", error=error, input=step.new_input)
        asked = ended.error.delay(at) if isinstance(ended.error, RetryAfter) else None
        delay = retry.delay(attempts, self._resources.rng) if asked is None else asked
        retry_at = at + min(delay, FAR_FUTURE - at)
        return AttemptFailed(
            step.id, step.digest, at, attempts, error, retry_at, input=step.new_input, details=ended.details
        )
