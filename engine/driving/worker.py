"""The worker: claims executions and drives them, for the change feed, the sweep and direct callers.

Rules:
1. The feed and the sweep only give hints. The exec document alone decides whether to drive an execution, and the claim
   is a replace under its etag. A stale hint costs a conflict, and never leads to a wrong claim.
2. One poisoned document never fails or blocks the others.
3. A drive works inside an invocation, so that the platform sees the work. Each invocation has a time budget. When the
   budget is spent, the drive takes no further step: it lets go of its execution between two steps, and the execution is
   handed over.
4. A running activity can't move to another process. It goes on in this process, under its heartbeat, without an
   invocation. When it has ended, its execution is let go and handed over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from engine.core.registry import Registry
from engine.driving.child_requests import notify_parents
from engine.driving.claim import Claim, Create, claim_new, claim_stored
from engine.driving.drive import Drive
from engine.driving.hand_overs import HandOver, HandOvers, Hint
from engine.driving.left_alone import LeftAlone
from engine.driving.lifespan import Lifespan, Opens
from engine.driving.limits import LimitDesks
from engine.driving.log_fields import fields_of, mark_lines_of_activities
from engine.driving.notices import Notice
from engine.driving.places import Place, Places
from engine.driving.resources import Resources
from engine.driving.threads import Threads
from engine.driving.timers import Timers, is_soon
from engine.driving.waiting import wait_within
from engine.driving.watchdog import Watchdog
from engine.ground import telemetry
from engine.ground.clock import Clock
from engine.ground.errors import Conflict, DecodingError, Missing, Unavailable, Unreadable
from engine.ground.settings import Settings
from engine.store.base import Page, Store, page_of
from engine.store.documents import Execution

MOST_HINTS = 1_000
"""The most executions that one sweep hands over. The platform takes some milliseconds to send a hint."""

_log = logging.getLogger("engine")


class Worker:
    """Drives executions in this process."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        clock: Clock,
        rng: random.Random | None = None,
        lifespan: Opens | None = None,
    ) -> None:
        mark_lines_of_activities()
        self._store = store
        self._registry = registry
        self._settings = settings
        self._clock = clock
        self._threads = Threads(clock, settings.activity_threads)
        self._lifespan = Lifespan(lifespan)
        rng = rng or random.Random()
        limits = LimitDesks(store, clock, settings)
        self._resources = Resources(store, registry, clock, settings, self._threads, rng, self._lifespan, limits)
        self._watchdog = Watchdog(settings.blocked_after, settings.blocked_exit)
        self._drives: dict[str, tuple[Drive, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._queue: set[asyncio.Task[None]] = set()
        """Tasks that wait for a place. They have claimed nothing yet."""
        self._late: set[asyncio.Task[None]] = set()
        """Tasks whose invocation is over. They take no further step."""
        self._places = Places(settings.max_held, settings.max_drives)
        self._hand_overs = HandOvers()
        self._timers = Timers(clock, self._fire)
        self._closing = False
        self._left_alone = LeftAlone(registry)

    def start(self, execution: Execution) -> asyncio.Task[None]:
        """Begin to drive an execution, if it has work to do and nobody drives it. The task ends when the drive ends.
        The task raises Unavailable only if the claim failed because the store can't be reached."""
        return self._spawn(self._guarded(execution, lambda: self._attend(execution)), execution)

    async def start_new(self, execution: Execution, create: Create) -> Execution:
        """Store a new execution by `create`, and begin to drive what is stored, if it has work to do and nobody drives
        it. If there is a place now, the execution is created as claimed: that saves the request of the claim.

        Returns what is stored. The work goes on if the caller is cancelled. Raises what `create` raises, and
        Unavailable if this worker ends meanwhile: then nobody knows whether the execution is stored.
        """
        stored: asyncio.Future[Execution] = asyncio.get_running_loop().create_future()
        work = self._guarded(execution, lambda: self._store_and_drive(execution, create, stored))
        task = self._spawn(work, execution)
        task.add_done_callback(lambda _: _answer(stored, Unavailable("the worker was closed: start it again")))
        return await stored

    def _spawn(self, work: Coroutine[Any, Any, None], execution: Execution) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"drive {execution.execution_id}")
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    async def drive(self, execution: Execution) -> None:
        """Drive an execution for as long as it has work to do. Raises Unavailable as `start` does."""
        await self.start(execution)

    async def drive_changes(self, documents: Iterable[Mapping[str, Any]], hand_over: HandOver | None = None) -> None:
        """Drive the executions in a batch of the change feed. `documents` may be any documents of the container.

        Returns after `batch_budget` plus `let_go_within` at the latest. Drives that have not ended by then go to
        `hand_over`. Without `hand_over`, the feed and the sweep find them. Raises Unavailable if the store can't be
        reached: the caller should then deliver the batch again.
        """
        newest: dict[str, Execution] = {}
        page = page_of(documents)
        self._report(page)
        for execution in page.executions:
            newest[execution.execution_id] = execution
            telemetry.measure("durable.feed.lag", (self._clock.now() - execution.updated_at).total_seconds())
        changed = list(newest.values())
        if hand_over is not None:
            for execution in filter(self._is_released, changed):
                self._hand(execution, hand_over)
            changed = [execution for execution in changed if not self._is_released(execution)]
        await self._drive_all(changed, hand_over)

    async def sweep(self, hand_over: HandOver | None = None) -> int:
        """Drive the executions that are due: an expired lease, a timer, or news that nobody delivered. Executions
        beyond the places of this process go to `hand_over`. Without `hand_over`, the sweep drives page after page. It
        also waits for timers that are due within `sweep_waits`, unless it has handed something over. Returns how many
        executions were due. Raises Unavailable if the store can't be reached."""
        begun, timers = self._clock.now(), list[asyncio.Task[None]]()
        looked_at, here, hints = 0, list[Execution](), 0
        async for due, soon in self._due():
            looked_at += len(due)
            for execution in soon:
                if hand_over is None or len(self._timers) < self._settings.max_drives:
                    timers.append(self._timers.keep(execution))
                else:
                    hints += self._hand(execution, hand_over)
            if hand_over is None:
                await self._drive_all(due, None)
                continue
            room = max(0, self._places.free - len(here))
            here += due[:room]
            for execution in due[room:]:
                hints += self._hand(execution, hand_over)
            if hints >= MOST_HINTS:
                break
        if hand_over is not None:
            await self._drive_all(here, hand_over)
        if not hints:  # the platform sends hints when this invocation ends, so they must not wait
            await wait_within(self._clock, begun + self._settings.sweep_waits - self._clock.now(), timers)
        return looked_at

    async def drive_one(self, hint: Hint, hand_over: HandOver) -> None:
        """Drive one execution until the drive lets go. After `invocation_budget` the drive lets go between two steps,
        and the execution is handed over again. Raises Unavailable if the store can't be reached."""
        if hint.at is not None:
            ahead = min(self._settings.timers_ahead, hint.at - self._clock.now())
            await self._clock.wait(asyncio.Event(), max(0.0, ahead.total_seconds()))
        try:
            execution = await self._store.read(hint.execution_id)
        except Missing:
            return
        task = self.running(execution.execution_id)
        if task is None:
            task = self.start(execution)
        elif not self._closing:
            self._late.discard(task)
            self._drives[execution.execution_id][0].go_on()
        await wait_within(self._clock, self._settings.invocation_budget, [task])
        await self._end_batch({task: execution}, hand_over)

    async def _due(self) -> AsyncIterator[tuple[list[Execution], list[Execution]]]:
        """Yield page by page the executions that are due, and those whose timer is due soon, within `sweep_budget`."""
        deadline = self._clock.now() + self._settings.sweep_budget
        is_first, continuation = True, None
        while self._clock.now() < deadline and not self._closing:
            now = self._clock.now()
            page = await self._store.due(now + self._settings.timers_ahead, self._settings.page, continuation)
            oldest = page.executions[0].due_at if is_first and page.executions else None
            if is_first and (oldest is None or oldest > now):
                telemetry.measure("durable.sweep.overdue", 0)
            elif oldest is not None:
                overdue = (now - oldest).total_seconds()
                telemetry.measure("durable.sweep.overdue", overdue)
                fields = {"notice": Notice.OVERDUE, "overdue_seconds": overdue}
                _log.info("sweep: executions are due, the oldest is %.1f s overdue", overdue, extra=fields)
            self._report(page)
            due = [execution for execution in page.executions if execution.due_at and execution.due_at <= now]
            yield due, [execution for execution in page.executions if self._is_soon(execution, now)]
            is_first, continuation = False, page.continuation
            if continuation is None:
                return

    def _is_soon(self, execution: Execution, now: datetime) -> bool:
        return is_soon(execution, now, self._settings.timers_ahead)

    async def _fire(self, execution: Execution) -> None:
        """Drive an execution whose timer is due, as a batch of one. There may be no invocation at this moment."""
        with contextlib.suppress(Unavailable):  # the sweep finds it
            await self._drive_all([execution], None)

    def running(self, execution_id: str) -> asyncio.Task[None] | None:
        """The drive of that execution in this process, if there is one."""
        held = self._drives.get(execution_id)
        return held[1] if held else None

    def notify(self, execution: Execution) -> bool:
        """Tell a drive in this process that its exec document changed. False if there is no such drive."""
        held = self._drives.get(execution.execution_id)
        if held is not None:
            held[0].notify(execution)
        return held is not None

    @property
    def is_draining(self) -> bool:
        """Whether the worker has stopped claiming executions."""
        return self._closing

    def drain(self) -> None:
        """Stop claiming. Each drive here lets go between two steps, as soon as none of its activities runs."""
        self._closing = True
        self._timers.close()
        for drive, _ in self._drives.values():
            drive.drain()

    async def close(self, grace: timedelta = timedelta(seconds=5)) -> None:
        """Stop: claim nothing more, give running activities `grace` to end, then let go of everything. An activity that
        is cut off leaves no trace, and runs again elsewhere."""
        self.drain()
        await self._wait_for_tasks(grace)
        for drive, _ in self._drives.values():
            drive.cut()
        await self._wait_for_tasks(timedelta(seconds=5))
        for task in self._tasks:
            task.cancel()
        await self._lifespan.close()
        self._threads.close()
        self._watchdog.close()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # a batch raises one error: without this call, asyncio would log the others

    async def _wait_for_tasks(self, seconds: timedelta) -> None:
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds.total_seconds())

    async def _drive_all(self, executions: list[Execution], hand_over: HandOver | None) -> None:
        batch = {self.start(execution): execution for execution in executions}
        await wait_within(self._clock, self._settings.batch_budget, batch)
        await self._end_batch(batch, hand_over)

    async def _end_batch(self, batch: Mapping[asyncio.Task[None], Execution], hand_over: HandOver | None) -> None:
        """End the invocation of a batch. Tasks without a place are cancelled. Drives between two steps let go. The
        other drives run an activity, which may take as long as it likes."""
        late = [task for task in batch if not task.done()]
        for task in late:
            self._make_late(task)
        busy = {task for drive, task in self._drives.values() if drive.is_busy}
        await wait_within(self._clock, self._settings.let_go_within, [task for task in late if task not in busy])
        errors = []
        for task, execution in batch.items():
            released = self._hand_overs.release_of(execution.execution_id)
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                errors.append(error)
            elif hand_over is not None and (task.cancelled() or released or not (task.done() or task in busy)):
                self._hand(execution, hand_over, released)
        if errors:
            raise errors[0]

    def _make_late(self, task: asyncio.Task[None]) -> None:
        if task in self._queue:
            task.cancel()
        self._late.add(task)
        for drive, driving in self._drives.values():
            if driving is task:
                drive.drain()

    def _is_released(self, execution: Execution) -> bool:
        """Whether this process let go of this version of the execution because an invocation was over."""
        return self._hand_overs.release_of(execution.execution_id) == execution.etag

    def _hand(self, execution: Execution, hand_over: HandOver, etag: str | None = None) -> bool:
        """Hand over this version of an execution, unless it was handed over a short while ago. Returns whether it was
        handed over now."""
        version, now = (execution.execution_id, etag or execution.etag), self._clock.now()
        if self._hand_overs.is_handed_over(*version, now):
            return False
        self._hand_overs.note_hint(*version, now)
        hand_over(Hint(execution.execution_id, execution.due_at if self._is_soon(execution, now) else None))
        return True

    async def _guarded(self, execution: Execution, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Unavailable:
            raise
        except (DecodingError, Unreadable) as error:
            self._left_alone.note_unreadable(execution.execution_id, str(error))
        except Exception:  # noqa: BLE001 - a document that can't be read must not stop other executions
            _log.exception("execution %s can't be driven", execution.execution_id, extra=fields_of(execution))

    async def _attend(self, execution: Execution) -> None:
        if self._closing or self.notify(execution):
            return
        if execution.is_of_later_engine:
            return self._left_alone.note(execution)
        if execution.is_complete:
            return await self._settle(execution)
        await self._follow(await self._hold(execution))

    async def _follow(self, drive: Drive | None) -> None:
        """Do what is left to do after a drive has let go."""
        while drive is not None:
            # If the drive was notified just as it let go, the notifier relies on this process to go on. A read could
            # return an older version than the one of the notification.
            execution = drive.newest_seen if drive.has_news else drive.execution
            if execution.is_complete:
                return await self._settle(execution)
            if not drive.has_news:
                return
            drive = await self._hold(execution)

    async def _store_and_drive(self, execution: Execution, create: Create, stored: asyncio.Future[Execution]) -> None:
        drive, claim = None, None
        place = await self._places.enter_now() if self._may_claim(execution) else None
        try:
            try:
                if place is None:
                    found = await create(execution)
                else:
                    found, claim = await claim_new(self._resources, execution, create)
            except Exception as error:  # noqa: BLE001 - the caller raises it
                return _answer(stored, error)
            _answer(stored, found)
            if claim is not None and place is not None:
                drive = await self._drive(claim, place)
        finally:
            if place is not None:
                place.leave()
        if drive is not None:
            await self._follow(drive)
        elif not found.is_complete:
            await self._attend(found)

    async def _hold(self, execution: Execution) -> Drive | None:
        """Claim an execution and drive it until the drive lets go. None if the claim failed."""
        task = asyncio.current_task()
        assert task is not None
        self._queue.add(task)
        try:
            place = await self._places.enter()
        finally:
            self._queue.discard(task)
        try:
            claim = await claim_stored(self._resources, execution, self._may_claim)
            return None if claim is None else await self._drive(claim, place)
        finally:
            place.leave()

    async def _drive(self, claim: Claim, place: Place) -> Drive:
        """Drive an execution under its claim until the drive lets go."""
        id, task = claim.execution.execution_id, asyncio.current_task()
        workflow = self._registry.find(claim.execution.workflow, claim.execution.version)
        assert task is not None
        assert workflow is not None
        drive = Drive(self._resources, place, workflow, claim)
        self._drives[id] = (drive, task)
        self._hand_overs.note_claim(id)
        self._timers.drop(id)
        if self._closing:  # the worker was closed while the claim was under way
            drive.cut()
        elif task in self._late:
            drive.drain()
        try:
            with self._watchdog.watching():
                await drive.run()
        finally:
            if self._drives.get(id, (None,))[0] is drive:
                del self._drives[id]
        if task in self._late:
            self._hand_overs.note_release(drive.execution)
        if not self._closing and self._is_soon(drive.execution, self._clock.now()):
            self._timers.keep(drive.execution)
        return drive

    def _may_claim(self, execution: Execution) -> bool:
        """Whether this process drives executions of that kind now."""
        workflow = self._registry.find(execution.workflow, execution.version)
        if workflow is None or execution.is_of_later_engine:
            self._left_alone.note(execution)
            return False
        return not self._closing

    async def _settle(self, execution: Execution) -> None:
        """Notify the parents of an execution that has ended, or purge it after its retention."""
        if execution.owes:
            for parent in await notify_parents(self._store, self._clock, execution):
                self.notify(parent)
        elif execution.is_expired(self._clock.now()):
            with contextlib.suppress(Conflict, Missing):
                await self._store.purge(execution)

    def _report(self, page: Page) -> None:
        """Log the executions of a page that are passed over because their exec documents can't be read."""
        for execution_id, problem in page.unreadable.items():
            self._left_alone.note_unreadable(execution_id, problem)


def _answer(stored: asyncio.Future[Execution], answer: Execution | Exception) -> None:
    """Give the caller of `start_new` its answer, unless it has one or was cancelled."""
    if stored.done():
        return
    if isinstance(answer, Exception):
        stored.set_exception(answer)
    else:
        stored.set_result(answer)
