"""One execution's code in memory: events go in, what it waits for and its outcome come out.

Rules:
1. No I/O, no clock, no store, no randomness that isn't seeded by the execution's id.
2. Events are applied one at a time, and the loop runs until it is idle after each: live as in replay.
3. An event must answer a step that the code waits for now, asked with the same digest. Otherwise the code has
   changed: NonDeterminism. Nothing is guessed.
4. Values are decoded from what is stored before the code sees them, live as in replay.
5. A Fault (of the deployment) ends the run without an outcome; only the workflow's own end makes an outcome.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from engine.core.declarations import Activity, Channel, Deferred, Workflow
from engine.core.loop import DurableFuture, DurableLoop, DurableTimer
from engine.core.steps import ActivityStep, ChannelStep, ChildStep, DeferredStep, LogLine, Step, TimerStep
from engine.ground.clock import FAR_FUTURE, from_seconds
from engine.ground.errors import EncodingError, NonDeterminism, NotDurable, TooLarge
from engine.ground.names import execution_id
from engine.values.codec import digest
from engine.values.error_records import ErrorRecord, fitting, rebuild, record
from engine.values.events import AttemptFailed, Begun, Event, Interrupted, StepKind, StepResolved
from engine.values.outcome import Outcome


class Run:
    """A workflow's code, brought to where its events left it.

    `payload` is JSON text; `started_at` the time at which the code sees itself begin; `ancestors` the executions that
    it was started by, directly or not; `run` tells it from a purged one of its id: what it starts is its own.
    """

    def __init__(
        self,
        workflow: Workflow[Any, Any],
        execution_id: str,
        payload: str,
        started_at: datetime,
        ancestors: tuple[str, ...] = (),
        run: str | None = None,
    ) -> None:
        self.workflow = workflow
        self.execution_id = execution_id
        self.ancestors = ancestors
        self._own = execution_id if run is None else f"{execution_id}/{run}"
        self.outcome: Outcome | None = None
        self.interrupted = False
        self.turn = 0
        """The number of the event that was applied last; 0 is the beginning."""
        self.activities: dict[str, ActivityStep] = {}
        self.timers: dict[str, TimerStep] = {}
        self.deferreds: dict[str, DeferredStep] = {}
        self.children: dict[str, ChildStep] = {}
        self.channels: dict[str, ChannelStep] = {}
        self.asked: list[ActivityStep | ChildStep] = []
        """Activities and children that the code asked for since the owner last emptied this list."""
        self.dropped: list[ActivityStep | ChildStep] = []
        """Activities and children that the code stopped waiting for since the owner last emptied this list."""
        self.taken: set[str] = set()
        """Inbox documents whose values channels have given out."""
        self.log: list[LogLine] = []
        seed = hashlib.sha256(execution_id.encode()).digest()
        self.random = random.Random(seed)
        self.loop = DurableLoop(started_at.timestamp(), self)  # type: ignore[abstract]
        self._payload = payload
        self._calls: Counter[str] = Counter()
        self._named: dict[str, Activity[Any, Any]] = {}
        self._received: dict[str, StepResolved] = {}
        self.cause: BaseException | None = None
        """What the workflow failed with, or was interrupted by, while it winds up."""
        self._main: asyncio.Task[Any] | None = None
        self._winding_up: asyncio.Task[None] | None = None
        self._compensations: list[Callable[[], Awaitable[Any]]] = []
        self._finalizers: list[Callable[[Outcome], Awaitable[Any]]] = []
        self._wind_up_errors: list[ErrorRecord] = []
        self._out_of_time: TimeoutError | None = None

    # -- the owner's side --

    def begin(self) -> None:
        """Run the code to its first wait. Raises a Fault if the deployment can't run it."""
        arguments = self.workflow.arguments(self._payload)
        if self.workflow.options.time_limit is not None:
            self.loop.call_later(self.workflow.options.time_limit.total_seconds(), self._run_out_of_time)
        self._main = self.loop.create_task(
            self.workflow.function(*arguments), name="workflow", context=contextvars.Context()
        )
        self._run_until_idle()

    def apply(self, event: Event) -> None:
        """Let one event happen, and run the code until it waits again. Raises a Fault."""
        self.turn += 1
        self.loop.now = max(self.loop.now, event.at.timestamp())
        match event:
            case StepResolved():
                self._resolve(event)
            case AttemptFailed():
                step = self._expected("activity", event.step, event.digest, event)
                assert isinstance(step, ActivityStep)
                step.attempts, step.retry_at = event.attempt, event.retry_at
                return
            case Begun():
                child = self._expected("child", event.step, event.digest, event)
                assert isinstance(child, ChildStep)
                child.begun = True
                return
            case Interrupted():
                self._interrupt()
            case _:
                return
        self._run_until_idle()

    def is_open(self, kind: StepKind, step: str) -> bool:
        """Whether the code waits for that step now."""
        return step in self._open(kind)

    @property
    def now(self) -> datetime:
        """The time that the code sees."""
        return from_seconds(self.loop.now)

    @property
    def waits(self) -> bool:
        """Whether the code waits for anything that can still come."""
        return bool(self.open_steps())

    def close(self) -> None:
        """Drop the code. Nothing that it does on its way out is seen."""
        self.loop.close()

    # -- the code's side (engine.core.declarations.Steps, engine.core.loop.Timers) --

    async def perform(self, activity: Activity[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of an activity. Raises EncodingError before anything is asked, if an argument can't be stored."""
        if self._named.setdefault(activity.name, activity) is not activity:
            raise self.loop.declare(
                NotDurable(f"two different activities are named {activity.name!r}: give one another name")
            )
        arguments, fingerprint = activity.signature.encode(args, kwargs)
        step = ActivityStep(
            "activity",
            self._number(activity.name),
            fingerprint,
            activity,
            arguments,
            self.loop.create_future(),
        )
        if not self.loop.is_closed():
            self.activities[step.id] = step
            self.asked.append(step)
        try:
            return await step.future
        finally:
            if self.activities.pop(step.id, None) is not None:
                self.dropped.append(step)

    async def receive(self, deferred: Deferred[Any]) -> Any:
        """A deferred's value. Awaited again, it is the same value, at once."""
        if deferred.name in self._received:
            return self._value(self._received[deferred.name], deferred.codec.decode)
        step = self.deferreds.get(deferred.name)
        if step is None:
            step = DeferredStep("deferred", deferred.name, "", deferred)
            if not self.loop.is_closed():
                self.deferreds[deferred.name] = step
        waiter = self.loop.create_future()
        step.waiters.append(waiter)
        try:
            return await waiter
        finally:
            step.waiters.remove(waiter)
            if not step.waiters:
                self.deferreds.pop(step.id, None)

    async def descend(self, workflow: Workflow[Any, Any], payload: Any, waits: bool, abandon: bool) -> Any:
        """A child workflow: its result, or (not `waits`) its execution id. Raises EncodingError, TooLarge or ValueError
        before anything is asked, if it can't be started."""
        text, value = workflow.stored_payload(payload)
        id, key = self._number(workflow.name), workflow.key_of(value)
        child = execution_id(workflow.name, key if key is not None else f"{self._own}/{id}")
        if child in (self.execution_id, *self.ancestors):
            raise ValueError(f"workflow {workflow.name} can't wait for itself or for its own ancestor {child}")
        fingerprint = digest([child, workflow.payload.canonical(value) if workflow.takes_payload else None])
        future = self.loop.create_future()
        step = ChildStep("child", id, fingerprint, workflow, text, child, waits, abandon, key is None, future)
        if not self.loop.is_closed():
            self.children[id] = step
            self.asked.append(step)
        try:
            return await future
        finally:
            if self.children.pop(id, None) is not None:
                self.dropped.append(step)

    async def take(self, channel: Channel[Any]) -> Any:
        """The next value of a channel."""
        step = ChannelStep("channel", self._number(channel.name), "", channel, self.loop.create_future())
        if not self.loop.is_closed():
            self.channels[step.id] = step
        try:
            return await step.future
        finally:
            self.channels.pop(step.id, None)

    def compensate(self, undo: Callable[[], Awaitable[Any]]) -> None:
        """Have `undo` run if the workflow fails or is interrupted."""
        self._compensations.append(undo)

    def finalize(self, last: Callable[[Outcome], Awaitable[Any]]) -> None:
        """Have `last` run at the very end."""
        self._finalizers.append(last)

    def timer_opened(self, timer: DurableTimer) -> None:
        delay = timer.when() - self.loop.now
        # The time limit has a name of its own: setting one changes the numbers of no other timer.
        timer.key = self._number("timer") if self._main is not None else "time limit"
        # Whole milliseconds, rounded up: a timer never fires before its time.
        due = from_seconds(math.ceil(round(timer.when() * 1000, 3)) / 1000) if math.isfinite(delay) else FAR_FUTURE
        self.timers[timer.key] = TimerStep("timer", timer.key, digest(round(delay, 3)), timer, due)

    def timer_closed(self, timer: DurableTimer) -> None:
        self.timers.pop(timer.key, None)

    def write_log(self, level: int, message: str, error: Any, extra: dict[str, Any] | None) -> None:
        """A line for the workflow's log."""
        if not self.loop.is_closed():
            self.log.append(LogLine(self.turn, level, message, error, extra))

    # -- inside --

    def _resolve(self, event: StepResolved) -> None:
        step = self._expected(event.kind, event.step, event.digest, event)
        match step:
            case TimerStep():
                del self.timers[step.id]
                self.loop.now = max(self.loop.now, min(step.timer.when(), FAR_FUTURE.timestamp()))
                self.loop.fire(step.timer)
            case ActivityStep():
                activity = step.activity
                result = self._result(event, activity.signature.result.decode, activity.raises)
                del self.activities[step.id]
                _settle(step.future, result)
            case DeferredStep():
                self._received[step.id] = event
                del self.deferreds[step.id]
                for waiter in step.waiters:
                    _settle(waiter, self._result(event, step.deferred.codec.decode, ()))
            case ChildStep():
                decode = step.workflow.result.decode if step.waits else json.loads
                result = self._result(event, decode, ())
                del self.children[step.id]
                _settle(step.future, result)
            case ChannelStep():
                result = self._result(event, step.channel.codec.decode, ())
                self.taken.add(event.item or "")
                del self.channels[step.id]
                _settle(step.future, result)

    def _interrupt(self) -> None:
        self.interrupted = True
        self.outcome = None
        assert self._main is not None
        if self._winding_up is not None and self._winding_up.done():
            self._winding_up = None  # it had ended well: now there is something to undo
        self._main.cancel("the execution was interrupted")

    def _run_out_of_time(self) -> None:
        limit = self.workflow.options.time_limit
        if self._main is not None and not self._main.done():
            self._out_of_time = TimeoutError(f"the execution took longer than its time limit of {limit}")
            self._main.cancel(str(self._out_of_time))

    def _run_until_idle(self) -> None:
        self.loop.run_until_idle()
        assert self._main is not None
        if not self._main.done() or self.outcome is not None:
            return
        if self._winding_up is None:
            ended = self._end(self._main)
            if self._finalizers or (self._compensations and ended.kind != "completed"):
                self._winding_up = self.loop.create_task(self._wind_up(), context=contextvars.Context())
                self.loop.run_until_idle()
        if self._winding_up is None or self._winding_up.done():
            self.outcome = self._end(self._main)

    async def _wind_up(self) -> None:
        assert self._main is not None
        while self._compensations or self._finalizers:
            ended = self._end(self._main)  # each time anew: an interrupt may come in between
            if self._compensations and ended.kind != "completed":
                await self._attempt_last(self._compensations.pop())
            elif self._finalizers:
                last = self._finalizers.pop(0)
                await self._attempt_last(lambda last=last, ended=ended: last(ended))  # type: ignore[misc]
            else:
                return

    async def _attempt_last(self, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            await work()
        except GeneratorExit as error:
            if self.loop.is_closed():  # the code is dropped
                raise
            self._wind_up_errors.append(record(error))
        except BaseException as error:  # noqa: BLE001 - the others still have to run
            self._wind_up_errors.append(record(error))

    def _end(self, main: asyncio.Task[Any]) -> Outcome:
        """How the workflow's own code ended."""
        error: BaseException | None = self._out_of_time
        value: str | None = None
        if error is None and main.cancelled():
            error = asyncio.CancelledError("the workflow cancelled itself")
        elif error is None and (error := main.exception()) is None:
            try:
                value, _ = self.workflow.result.round_trip(main.result())
            except (EncodingError, TooLarge) as problem:
                error = problem
        self.cause = error
        failures = fitting(self._wind_up_errors)
        if self.interrupted:
            saved = None if main.cancelled() or error is None else record(error)
            if saved is None:
                self.cause = asyncio.CancelledError("the execution was interrupted")
            return Outcome("interrupted", error=saved, compensation_errors=failures)
        if error is not None:
            return Outcome("failed", error=record(error), compensation_errors=failures)
        return Outcome("completed", value=value, compensation_errors=failures)

    def _expected(self, kind: StepKind, id: str, fingerprint: str, event: Event) -> Step:
        step: Step | None = self._open(kind).get(id)
        if step is not None and step.digest == fingerprint:
            return step
        found = f"{kind} {id!r}"
        if step is not None:
            reason = f"now asks {found} with another input (digest {step.digest}, recorded {fingerprint})"
        elif self.outcome is not None:
            reason = f"has ended by then ({self.outcome.kind})"
        elif waiting := [f"{s.kind} {s.id!r}" for s in self.open_steps()]:
            reason = f"now waits for {', '.join(waiting[:5])}" + (" and others" if len(waiting) > 5 else "")
        else:
            reason = "now waits for nothing"
        what = {AttemptFailed: "a failed attempt of", Begun: "the start of"}.get(type(event), "the end of")
        raise NonDeterminism(
            f"event {self.turn} of the history records {what} {found}, but the code of {self.workflow!r} {reason}. "
            "Either its steps were renamed, added, removed or reordered since, or they depend on something that isn't "
            "recorded (a clock, chance, a global). Deploy the code that wrote this history (or register the new code "
            "as another version), then resume."
        )

    def _open(self, kind: StepKind) -> dict[str, Any]:
        match kind:
            case "activity":
                return self.activities
            case "timer":
                return self.timers
            case "deferred":
                return self.deferreds
            case "child":
                return self.children
            case "channel":
                return self.channels

    def open_steps(self) -> list[Step]:
        """What the code waits for now."""
        return [
            *self.activities.values(),
            *self.timers.values(),
            *self.deferreds.values(),
            *self.children.values(),
            *self.channels.values(),
        ]

    def _number(self, name: str) -> str:
        self._calls[name] += 1
        return name if self._calls[name] == 1 else f"{name}#{self._calls[name]}"

    def _value(self, event: StepResolved, decode: Callable[[str], Any]) -> Any:
        value, error = self._result(event, decode, ())
        if error is not None:
            raise error
        return value

    def _result(
        self, event: StepResolved, decode: Callable[[str], Any], raises: tuple[type[BaseException], ...]
    ) -> tuple[Any, BaseException | None]:
        if event.error is not None:
            return None, rebuild(event.error, raises)
        return decode(event.value or "null"), None


def _settle(future: DurableFuture, result: tuple[Any, BaseException | None]) -> None:
    if future.done():  # cancelled in the same turn
        return
    value, error = result
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
