"""The activities of one execution while it is driven. Some wait for a place or for their next attempt. The others run,
as tasks beside the driver's flow of control.

A task only reports its end, and the driver takes it with `next_ended`. A step leaves no trace if it was dropped, or if
it is no longer open when its turn comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import cast

from engine.core.activity_info import ActivityInfo
from engine.core.attempt_state import AttemptState, current_state
from engine.core.messages import Message
from engine.core.steps import ActivityStep
from engine.driving.attempt import AttemptResult, run_attempt
from engine.driving.limits import Desk, Parked
from engine.driving.messages import deliver
from engine.driving.resources import Resources
from engine.store.documents import Execution, Heartbeat
from engine.store.limit_state import Asking
from engine.values.error_records import examinable
from engine.values.limits import Limits

MAX_ALL_DETAILS = 400_000
"""The most characters that the details of one execution's heartbeats take together: they travel with `exec`."""


class Activities:
    """The attempts that a driver of `execution` makes, at most `limit` at a time. `changed` is set when one ends."""

    def __init__(self, resources: Resources, execution: Execution, limit: int, changed: asyncio.Event) -> None:
        self._resources = resources
        self._execution = execution
        self._limit = limit
        self.key: str | None = None
        """The idempotency key of the execution, once it is known."""
        self._changed = changed
        self._waiting: dict[str, ActivityStep] = {}
        self._later: dict[str, ActivityStep] = {}
        self._parked: dict[str, tuple[ActivityStep, datetime]] = {}
        """Steps that wait for a permit, each with the time when it asks again."""
        self._asked: dict[str, Desk] = {}
        """The limits that steps have asked for a permit which they don't have yet."""
        self._newest_wake = execution.wake
        self._running: dict[str, asyncio.Task[AttemptResult | Parked]] = {}
        self._begun: dict[str, asyncio.Event] = {}
        self._states: dict[str, AttemptState] = {}
        """The attempts that run, or ran when this driver let go."""
        self._stored = dict(execution.heartbeats)
        self._ended: deque[tuple[ActivityStep, AttemptResult]] = deque()

    @property
    def are_running(self) -> bool:
        """Whether there is an attempt whose end the driver has not taken yet. It may still wait for a thread."""
        return bool(self._running)

    @property
    def have_begun(self) -> bool:
        """Whether any activity really runs, and doesn't only wait for a thread."""
        return any(begun.is_set() for begun in self._begun.values())

    @property
    def are_idle(self) -> bool:
        """Whether there is nothing to do before the next retry is due."""
        return not (self._waiting or self._running or self._ended)

    @property
    def next_due(self) -> datetime | None:
        """When the next retry is due, or a step asks for a permit again."""
        retries = [step.retry_at for step in self._later.values() if step.retry_at is not None]
        return min([*retries, *(look_at for _, look_at in self._parked.values())], default=None)

    def add(self, step: ActivityStep) -> None:
        """Add a step whose next attempt is to be made, at `retry_at` or as soon as there is a place."""
        (self._waiting if step.retry_at is None else self._later)[step.id] = step

    def drop(self, step: ActivityStep) -> None:
        """Forget a step that the workflow gave up, and cancel its attempt."""
        self._waiting.pop(step.id, None)
        self._later.pop(step.id, None)
        self._states.pop(step.id, None)
        self._parked.pop(step.id, None)
        desk = self._asked.pop(step.id, None)
        if desk is None and step.id in self._execution.parked and step.activity.limits is not None:
            with contextlib.suppress(Exception):  # the key function is the author's; the ticket then expires
                desk = self._desk(step, step.activity.limits)
        if desk is not None:
            desk.leave(self._asking(step))
        self._stop(step.id)

    def recall(self) -> None:
        """Give up the attempts that still wait for a thread. Another process can begin them."""
        for id in [id for id, begun in self._begun.items() if not begun.is_set()]:
            self._stop(id)

    def _stop(self, id: str) -> None:
        self._begun.pop(id, None)
        if (task := self._running.pop(id, None)) is not None:
            task.cancel()

    def wake(self, now: datetime, wake: int) -> None:
        """Let the steps whose retry is due now wait for a place. After news (`wake` has grown), all that wait for a
        permit ask again."""
        has_news, self._newest_wake = wake > self._newest_wake, max(wake, self._newest_wake)
        for step, look_at in list(self._parked.values()):
            if has_news or look_at <= now:
                self._waiting[step.id] = self._parked.pop(step.id)[0]
        for step in [s for s in self._later.values() if s.retry_at is not None and s.retry_at <= now]:
            self._waiting[step.id] = self._later.pop(step.id)

    def start(self, open: Mapping[str, ActivityStep]) -> None:
        """Begin the waiting steps that are still open, as many as there are places."""
        while self._waiting and len(self._running) < self._limit:
            step = self._waiting.pop(next(iter(self._waiting)))
            if open.get(step.id) is step:
                begun = self._begun[step.id] = asyncio.Event()
                task = self._running[step.id] = asyncio.create_task(self._within_limits(step, begun))
                task.add_done_callback(functools.partial(self._report, step, self._newest_wake))

    def next_ended(self) -> tuple[ActivityStep, AttemptResult] | None:
        """The next attempt that has ended, in the order in which they ended. None if there is none."""
        if not self._ended:
            return None
        step, ended = self._ended.popleft()
        self._running.pop(step.id, None)
        self._begun.pop(step.id, None)
        self._states.pop(step.id, None)
        return step, ended

    def heartbeats(self, open: Mapping[str, ActivityStep]) -> dict[str, Heartbeat]:
        """The last heartbeat of each of these steps that has one. All details together have MAX_ALL_DETAILS characters
        at most: what goes beyond stays in this process."""
        found, room = dict[str, Heartbeat](), MAX_ALL_DETAILS
        for step in open.values():
            last = self._last_heartbeat(step)
            if last is not None and len(last.details) <= room:
                found[step.id] = last
                room -= len(last.details)
        return found

    def _last_heartbeat(self, step: ActivityStep) -> Heartbeat | None:
        state, stored = self._states.get(step.id), self._stored.get(step.id)
        if state is not None and state.details is not None:
            return Heartbeat(attempt=state.attempt, details=state.details)
        if stored is not None and stored.attempt == step.attempts + 1:  # of the attempt that a crash cut off
            return stored
        return None if step.details is None else Heartbeat(attempt=step.attempts, details=step.details)

    def parked(self) -> dict[str, str]:
        """The steps that wait for a permit, each with the limits of its activity in words."""
        return {id: str(step.activity.limits) for id, (step, _) in self._parked.items()}

    def cancel(self) -> None:
        """Cancel all running attempts. They leave no trace."""
        for task in self._running.values():
            task.cancel()
        self._running.clear()
        self._begun.clear()

    async def _within_limits(self, step: ActivityStep, begun: asyncio.Event) -> AttemptResult | Parked:
        limits = step.activity.limits
        if limits is None:
            return await self._perform(step, begun)
        desk, who = self._desk(step, limits), self._asking(step)
        self._asked[step.id] = desk
        if (parked := await desk.ask(who)) is not None:
            return parked
        self._asked.pop(step.id, None)
        async with desk.held(who, outlives=not step.activity.is_async):
            return await self._perform(step, begun)

    def _desk(self, step: ActivityStep, limits: Limits) -> Desk:
        signature, name = step.activity.signature, step.activity.name
        key = limits.key_of(signature.by_name(step.arguments), name) if limits.key is not None else ""
        return self._resources.limits.of(name, limits, key)

    def _asking(self, step: ActivityStep) -> Asking:
        one = self._execution
        return Asking(one.execution_id, one.run_id, step.id, step.attempts + 1, one.worker or "")

    async def _perform(self, step: ActivityStep, begun: asyncio.Event) -> AttemptResult:
        one = self._execution
        info = ActivityInfo(one.execution_id, one.workflow, step.id, step.attempts + 1, one.run_id, self.key)
        if isinstance(step.activity, Message):
            begun.set()
            return await deliver(self._resources, step, info)
        last = self._last_heartbeat(step)
        state = self._states[step.id] = AttemptState(info.attempt, None if last is None else last.details)
        current_state.set(state)
        try:
            state.lifespan = await self._resources.lifespan.value()
            return await run_attempt(step, info, self._resources.clock, self._resources.threads, begun)
        finally:
            state.is_cancelled = True  # a thread may still run

    def _report(self, step: ActivityStep, wake: int, task: asyncio.Task[AttemptResult | Parked]) -> None:
        """Take in how a task ended. An activity can also end its task by CancelledError, or by a GeneratorExit, which
        no `except` on the way catches."""
        if self._running.get(step.id) is not task:
            return  # the driver gave the step up
        if not task.cancelled() and task.exception() is None and isinstance(parked := task.result(), Parked):
            self._park(step, parked, is_woken=self._newest_wake > wake)
            return
        if task.cancelled():
            ended = AttemptResult(error=asyncio.CancelledError("the activity cancelled itself"))
        elif (error := task.exception()) is not None:
            ended = AttemptResult(error=error)
        else:
            ended = cast(AttemptResult, task.result())
        if ended.error is not None:
            state = self._states.get(step.id)
            ended = AttemptResult(error=examinable(ended.error), details=None if state is None else state.details)
        self._ended.append((step, ended))
        self._changed.set()

    def _park(self, step: ActivityStep, parked: Parked, is_woken: bool) -> None:
        """Let a step wait for a permit. If the execution was woken while the step asked, it asks again at once."""
        self._running.pop(step.id)
        self._begun.pop(step.id, None)
        if is_woken:
            self._waiting[step.id] = step
        else:
            self._parked[step.id] = step, parked.look_at
        self._changed.set()
