"""What a workflow's code may use while it runs: activities, children, deferreds, channels, timers, random numbers, the
time, the log, compensations and finalizers.

Rules:
1. A call opens a step, and waits for the event that resolves the step. The call itself does nothing else.
2. The run seeds the random numbers, so they are the same in every replay.
3. Once the loop is closed, the code is dropped. Its last requests have no effect.
"""

from __future__ import annotations

import hashlib
import math
import random
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, NoReturn

from engine.core.activity import Activity
from engine.core.declarations import Channel, Deferred, Workflow
from engine.core.displayed import Displayed
from engine.core.identities import Identities
from engine.core.loop import DurableLoop, DurableTimer
from engine.core.messages import Message, MessageKind
from engine.core.patches import Patches
from engine.core.step_table import StepTable, answer
from engine.core.steps import ActivityStep, ChannelStep, ChildStep, DeferredStep, LogLine, TimerStep
from engine.core.wind_up import WindUp
from engine.ground.clock import FAR_FUTURE, from_seconds
from engine.ground.errors import NonDeterminism, NotDurable
from engine.ground.names import execution_id
from engine.values.codec import digest
from engine.values.error_records import ErrorClasses
from engine.values.events import StepResolved
from engine.values.logic_flags import LogicFlag
from engine.values.outcome import Outcome


class Context:
    """What one run's code calls. It implements `CallsActivities`, `Steps`
    and `Timers`."""

    def __init__(
        self,
        workflow: Workflow[Any, Any],
        identities: Identities,
        started_at: datetime,
        flags: frozenset[str],
        patches: Patches,
        raises: ErrorClasses,
        displayed: Displayed,
    ) -> None:
        self.workflow = workflow
        self.turn = 0
        """The number of the event that the run applied last; 0 is the beginning."""
        self.loop = DurableLoop(started_at.timestamp(), self)  # type: ignore[abstract]
        self.steps = StepTable()
        self.wind_up = WindUp(workflow, self.loop, flags, raises)
        self.flags = flags
        self.patches = patches
        self.displayed = displayed
        self.received: dict[str, StepResolved] = {}
        """The events that resolved deferreds, by the deferreds' names."""
        self._identities = identities
        self._identity = identities.at(0)
        self.random = random.Random(self._seed())
        self._log: list[LogLine] = []
        self._activities: dict[str, Activity[Any, Any]] = {}

    @property
    def execution_id(self) -> str:
        """The id of the execution, as the code sees it in this turn."""
        return self._identity.execution_id

    def next_turn(self) -> None:
        """Begin the turn of the next event. Where a fork leaves its original, the random numbers begin anew."""
        self.turn += 1
        identity = self._identities.at(self.turn)
        if identity != self._identity:
            self._identity = identity
            self.random.seed(self._seed())

    @property
    def now(self) -> datetime:
        """The time that the code sees."""
        return from_seconds(self.loop.now)

    @property
    def cause(self) -> BaseException | None:
        """The error with which the workflow failed or was interrupted, for its compensations and finalizers."""
        return self.wind_up.cause

    def random_uuid(self) -> uuid.UUID:
        """A random UUID that is the same in every replay."""
        return uuid.UUID(int=self.random.getrandbits(128), version=4)

    def take_log(self) -> list[LogLine]:
        """The lines that the code logged since the last call."""
        lines, self._log = self._log, []
        return lines

    async def call_activity(self, activity: Activity[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an activity as a step. Raises EncodingError before the step opens, if an argument can't be stored."""
        known = self._activities.setdefault(activity.name, activity.origin)
        if not activity.is_same(known):
            raise self.loop.declare(
                NotDurable(
                    f"{known!r} ({known.place}) and {activity!r} ({activity.place}) have one name and different "
                    "functions: give one of them another name"
                )
            )
        activity = activity.sharing_with(known)
        arguments, fingerprint = activity.signature.encode(args, kwargs)
        step = ActivityStep(
            "activity",
            self.steps.number(activity.name),
            fingerprint,
            activity,
            arguments,
            self.loop.create_future(),
        )
        if not self.loop.is_closed():
            self.steps.open(step)
        try:
            return await step.future
        finally:
            self.steps.drop(step)

    def send_message(
        self,
        kind: MessageKind,
        workflow: Workflow[Any, Any],
        execution_id: str,
        target: Channel[Any] | Deferred[Any] | None,
        value: Any,
    ) -> Coroutine[Any, Any, Any]:
        """A message to another execution, and its delivery. Raises EncodingError before anything is asked, if the
        value can't be stored; one of REFUSALS where the receiver can't have it."""
        arguments = (execution_id, target.name if target is not None else None, value)
        return self.call_activity(Message(kind, workflow.name, target), arguments, {})

    async def receive_deferred(self, deferred: Deferred[Any]) -> Any:
        """Wait for a deferred's value. A later call gives the same value at once."""
        if deferred.name in self.received:
            value, error = answer(self.received[deferred.name], deferred.codec.decode)
            if error is not None:
                raise error
            return value
        step = self.steps.deferreds.get(deferred.name)
        if step is None:
            step = DeferredStep("deferred", deferred.name, "", deferred)
            if not self.loop.is_closed():
                self.steps.open(step)
        waiter = self.loop.create_future()
        step.waiters.append(waiter)
        try:
            return await waiter
        finally:
            step.waiters.remove(waiter)
            if not step.waiters:
                self.steps.drop(step)

    async def call_child(self, workflow: Workflow[Any, Any], payload: Any, waits: bool, abandon: bool) -> Any:
        """Start a child workflow. Returns its result, or without `waits` its execution id. Raises EncodingError,
        TooLarge or ValueError before the step opens, if the child can't be started."""
        text, value = workflow.stored_payload(payload)
        id, key = self.steps.number(workflow.name), workflow.key_of(value)
        child = execution_id(workflow.name, key if key is not None else f"{self._identity.run}/{id}")
        if child in (self.execution_id, *self._identity.ancestors):
            raise ValueError(f"workflow {workflow.name} can't wait for itself or for its own ancestor {child}")
        fingerprint = digest([child, workflow.payload.canonical(value) if workflow.takes_payload else None])
        future, is_own, tags = self.loop.create_future(), key is None, workflow.tags_of(value)
        step = ChildStep("child", id, fingerprint, workflow, text, child, waits, abandon, is_own, future, tags)
        if not self.loop.is_closed():
            self.steps.open(step)
        try:
            return await future
        finally:
            self.steps.drop(step)

    async def receive_value(self, channel: Channel[Any]) -> Any:
        """Wait for the next value of a channel."""
        step = ChannelStep("channel", self.steps.number(channel.name), "", channel, self.loop.create_future())
        if not self.loop.is_closed():
            self.steps.open(step)
        try:
            return await step.future
        finally:
            self.steps.drop(step)

    def has_patch(self, patch: str) -> bool:
        """Whether the run goes by a change of its code. Raises ValueError for an id that can't be recorded."""
        return self.patches.holds(patch, self.turn, self.now, deprecated=False)

    def deprecate_patch(self, patch: str) -> None:
        """The code goes by this change alone. Raises NonDeterminism if the run passed here without it."""
        if not self.patches.holds(patch, self.turn, self.now, deprecated=True) and not self.loop.is_closed():
            raise self.loop.declare(
                NonDeterminism(
                    f"the run passed deprecate_patch({patch!r}) before the patch was there, and goes the old way. "
                    f"Deploy code that still has both ways, under `if workflow.patched({patch!r})`, until all such "
                    "runs have ended; then resume."
                )
            )

    def set_status(self, value: Any) -> None:
        """Show a custom status. Raises EncodingError, TooLarge."""
        if not self.loop.is_closed():
            self.displayed.set_status(value)

    def set_tag(self, name: str, text: str) -> None:
        """Set a tag of the execution. Raises TypeError, ValueError."""
        if not self.loop.is_closed():
            self.displayed.set_tag(name, text)

    def restart(self, payload: Any) -> NoReturn:
        """End this run of the workflow, and begin the next one. Raises EncodingError or TooLarge before anything ends,
        and RuntimeError as `WindUp.restart` does."""
        self.wind_up.restart(self.workflow.stored_payload(payload)[0])

    def compensate(self, name: str, undo: Callable[[], Awaitable[Any]]) -> None:
        """Register `undo` under `name`. It runs if the workflow fails or is interrupted."""
        self.wind_up.compensate(name, undo)

    def finalize(self, last: Callable[[Outcome], Awaitable[Any]]) -> None:
        """Register `last` to run at the very end."""
        self.wind_up.finalize(last)

    def timer_opened(self, timer: DurableTimer) -> None:
        delay = timer.when() - self.loop.now
        # The time limit has its own name, so that setting a limit doesn't renumber the other timers.
        timer.key = self.steps.number("timer") if self.wind_up.has_begun else "time limit"
        # Whole milliseconds, rounded up: a timer never fires before its time.
        due = from_seconds(math.ceil(round(timer.when() * 1000, 3)) / 1000) if math.isfinite(delay) else FAR_FUTURE
        seconds = round(delay, 3)
        self.steps.open(TimerStep("timer", timer.key, digest(seconds), timer, due, seconds))

    def timer_closed(self, timer: DurableTimer) -> None:
        step = self.steps.timers.get(timer.key)
        if step is not None:
            self.steps.drop(step)

    def write_log(self, level: int, message: str, error: Any, extra: dict[str, Any] | None) -> None:
        """Add a line to the workflow's log."""
        if not self.loop.is_closed():
            self._log.append(LogLine(self.turn, level, message, error, extra))

    def _seed(self) -> bytes:
        seed = self._identity.run if LogicFlag.RUN_SEED in self.flags else self.execution_id
        return hashlib.sha256(seed.encode()).digest()
