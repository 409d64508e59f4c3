"""The limits of activities across the deployment: asks for permits, renews them, gives them back, and wakes who waits.

Rules:
1. Requests of one process for the same limit that come while another is under way share the next write.
2. Whoever changes a limit wakes the executions whose turn has come, after the write. If it dies in between, they look
   again by themselves: each has a `dueAt`.
3. Every answer follows a write, also where nothing changes: only the write proves that the version was the newest.
4. A permit is given back before the end of its attempt is recorded. If the process dies in between, the next attempt
   asks for one of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from engine.ground.clock import Clock
from engine.ground.errors import Conflict, Missing, StoreError, Unavailable
from engine.ground.settings import Settings
from engine.store import transitions
from engine.store.base import MAX_READS, Store
from engine.store.limit_state import Asking, LimitState, Ticket, Times, limit_id
from engine.values.limits import Limits

_log = logging.getLogger("engine")

MAX_TRIES = 50
"""Writes that may lose to another process before the limit counts as unreachable."""
MAX_DESKS = 1_000
"""The limits whose last version a process remembers."""

_Change = Callable[[LimitState, datetime], tuple[LimitState, Any]]


@dataclass(frozen=True)
class Parked:
    """The attempt waits for a permit, and asks again at `look_at` unless it is woken before."""

    look_at: datetime


class LimitDesks:
    """All limits, as one process uses them."""

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._desks: dict[str, Desk] = {}

    def of(self, activity: str, limits: Limits, key: str) -> Desk:
        """The desk of one limit."""
        id = limit_id(activity, key)
        if id not in self._desks:
            for idle in [other for other, desk in self._desks.items() if not desk.is_busy][: -MAX_DESKS + 1 or None]:
                if len(self._desks) >= MAX_DESKS:
                    del self._desks[idle]
            self._desks[id] = Desk(self._store, self._clock, self._settings, id)
        desk = self._desks[id]
        desk.limits = limits
        return desk


class Desk:
    """One limit, as one process uses it."""

    limits: Limits

    def __init__(self, store: Store, clock: Clock, settings: Settings, id: str) -> None:
        self._store = store
        self._clock = clock
        self._id = id
        self._times = Times(settings.lease, settings.heartbeat, settings.skew)
        self._known: LimitState | None = None
        self._pending: list[tuple[_Change, asyncio.Future[Any]]] = []
        self._working: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether requests are under way."""
        return self._working is not None

    async def ask(self, who: Asking) -> Parked | None:
        """Ask for a permit. None if the attempt may run."""
        times, limits = self._times, self.limits
        try:
            look_at: datetime | None = await self._submit(lambda state, now: state.ask(who, limits, now, times))
        except StoreError as error:
            fields = {"execution_id": who.execution_id, "step": who.step, "attempt": who.attempt}
            _log.warning(
                "execution %s: step %s can't ask for a permit: %s", who.execution_id, who.step, error, extra=fields
            )
            return Parked(self._clock.now() + times.heartbeat)
        return None if look_at is None else Parked(look_at)

    @contextlib.asynccontextmanager
    async def held(self, who: Asking, outlives: bool) -> AsyncIterator[None]:
        """Renew a permit during the block, and give it back at its end. `outlives`: what runs goes on after a
        cancellation, as a thread does. Then the permit stays until it expires."""
        if self.limits.concurrency is None:
            yield
            return
        ended = asyncio.Event()
        renewing = asyncio.create_task(self._renew(who, ended))
        is_over = True
        try:
            yield
        except asyncio.CancelledError:
            is_over = not outlives
            raise
        finally:
            ended.set()
            renewing.cancel()
            if is_over:
                with contextlib.suppress(StoreError):  # it expires
                    await asyncio.shield(self.leave(who))

    def leave(self, who: Asking) -> asyncio.Future[Any]:
        """Give back the permit of an attempt, or its place among those that wait. Nobody needs to wait for this."""
        return self._submit(lambda state, _: (state.leave(who), None))

    async def settled(self) -> None:
        """Wait until no request is under way, and those whose turn has come are woken."""
        while self._working is not None:
            await asyncio.wait({self._working})

    async def _renew(self, who: Asking, ended: asyncio.Event) -> None:
        while True:
            await self._clock.wait(ended, self._times.heartbeat.total_seconds())
            if ended.is_set():
                return
            with contextlib.suppress(StoreError):  # the next one may succeed before it expires
                await self._submit(lambda state, now: (state.renew(who, now, self._times), None))

    def _submit(self, change: _Change) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # some callers don't wait
        self._pending.append((change, answer))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return answer

    async def _work(self) -> None:
        try:
            while self._pending:
                group, self._pending = self._pending, []
                await self._answer(group)
        finally:
            self._working = None

    async def _answer(self, group: list[tuple[_Change, asyncio.Future[Any]]]) -> None:
        try:
            answers, turn = await self._change([change for change, _ in group])
        except BaseException as error:
            self._known = None
            for _, future in group:
                if not future.done():
                    future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), answer in zip(group, answers, strict=True):
            if not future.done():
                future.set_result(answer)
        await self._wake(turn)

    async def _change(self, changes: list[_Change]) -> tuple[list[Any], tuple[Ticket, ...]]:
        for _ in range(MAX_TRIES):
            state, now, answers = self._known or await self._read(), self._clock.now(), list[Any]()
            for change in changes:
                state, answer = change(state, now)
                answers.append(answer)
            state, turn = state.wake(self.limits, now, self._times)
            try:
                self._known = await self._store.write_limit(state)
            except Conflict:
                self._known = None
            else:
                return answers, turn
        raise Unavailable(f"limit {self._id}: other processes changed it {MAX_TRIES} times meanwhile")

    async def _read(self) -> LimitState:
        try:
            return await self._store.read_limit(self._id)
        except Missing:
            return LimitState(execution_id=self._id)

    async def _wake(self, turn: tuple[Ticket, ...]) -> None:
        """Wake executions whose turn has come. Those that have ended give up their places to the next ones."""
        while turn:
            alive = await asyncio.gather(*map(self._wake_one, turn))
            gone = frozenset(ticket.holder for ticket, lives in zip(turn, alive, strict=True) if not lives)
            if not gone:
                return
            try:
                _, turn = await self._change([lambda state, _, gone=gone: (state.without(gone), None)])  # type: ignore[misc]
            except StoreError:
                self._known = None
                return

    async def _wake_one(self, ticket: Ticket) -> bool:
        """Wake an execution. False if it has ended. If the store can't be reached, the execution looks by itself."""
        for _ in range(MAX_READS):
            try:
                one = await self._store.read(ticket.execution_id)
                if one.is_complete:
                    return False
                await self._store.replace(transitions.wake(self._clock.now()).apply(one))
            except Missing:
                return False
            except Conflict:
                continue
            except StoreError:
                return True
            return True
        return True
