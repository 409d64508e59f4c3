"""What the code of a run takes in: first its history, then new events, which are kept until they are recorded.

Rules:
1. An event is kept before the code sees it. So it is recorded even if the code can't go on.
2. A turn's patches are kept right after the turn's event.
3. Many events are taken in some at a time. In between, other executions run and heartbeats go out.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from engine.core.run import Run
from engine.driving.at_work import AtWork
from engine.driving.delivery import Delivery
from engine.driving.lease import EVENTS_AT_A_TIME, Lease
from engine.driving.log_fields import fields_of
from engine.driving.outside_task import outside_task
from engine.ground.errors import HistoryFull
from engine.ground.settings import Settings
from engine.values.events import Event, Takeover

_log = logging.getLogger("engine")


class Intake:
    """Gives events to the code of `run`, and records them under `lease`.

    keep_the_lease: sends a heartbeat if one is due.
    at_work: stores where the code is at work, if this is the last driver before a quarantine.
    """

    def __init__(
        self,
        run: Run,
        lease: Lease,
        settings: Settings,
        keep_the_lease: Callable[[], Awaitable[None]],
        at_work: AtWork | None,
    ) -> None:
        self.run = run
        self.is_replayed = False
        """Whether the run has come to the end of its history."""
        self.unrecorded: list[Event] = []
        self._lease = lease
        self._settings = settings
        self._keep_the_lease = keep_the_lease
        self._at_work = at_work

    async def replay(self, history: Sequence[Event]) -> None:
        """Run the code from its beginning to the point where its history ends."""
        if self._at_work is not None:
            await self._at_work.before_the_beginning()
        await outside_task(lambda: self._keeping_patches(self.run.begin))
        ends = [number for number, event in enumerate(history) if not isinstance(event, Takeover)]
        first = ends[-1] if self._at_work is not None and ends else len(history)
        for start in range(0, first, EVENTS_AT_A_TIME):
            await outside_task(lambda start=start: self._apply(history[start : min(start + EVENTS_AT_A_TIME, first)]))  # type: ignore[misc]
            await self._keep_the_lease()
        if self._at_work is not None and ends:
            await self._at_work.before(history[first])
            await outside_task(lambda: self._apply(history[first:]))
        self.is_replayed = True

    async def take_in(self, delivery: Delivery) -> None:
        """Give all new events to the code. Raises HistoryFull, and what the code's faults raise."""
        while self._at_work is not None and (event := await outside_task(delivery.next_event)) is not None:
            await self._at_work.before(event)
            await outside_task(lambda event=event: self._take(event))  # type: ignore[misc]
        while await outside_task(lambda: self._take_some(delivery)):
            await self._keep_the_lease()

    async def before_starting(self) -> None:
        """Activities and children are about to start. Raises LeaseLost, StoreError."""
        if self._at_work is not None:
            await self._at_work.before_starting()

    async def record(self) -> None:
        """Record the events that aren't recorded yet. Raises LeaseLost, StoreError."""
        if self.unrecorded:
            await self._lease.append(self.unrecorded)
            self.unrecorded.clear()
            self._at_work = None

    def _apply(self, events: Sequence[Event]) -> None:
        for event in events:
            self.run.apply(event)

    def _take_some(self, delivery: Delivery) -> bool:
        for _ in range(EVENTS_AT_A_TIME):
            event = delivery.next_event()
            if event is None:
                return False
            self._take(event)
        return True

    def _take(self, event: Event) -> None:
        self._check_length()
        self.unrecorded.append(event)
        self._keeping_patches(lambda: self.run.apply(event))

    def _keeping_patches(self, turn: Callable[[], None]) -> None:
        try:
            turn()
        finally:
            self.unrecorded += self.run.take_patches()

    def _check_length(self) -> None:
        """Log that a history grows long, and raise HistoryFull for a full one. An interrupted execution may still clean
        up."""
        run, execution = self.run, self._lease.execution
        if run.turn == self._settings.warn_at_events:
            _log.warning(
                "execution %s of workflow %s has recorded %d events: each wake-up replays them. Let it call restart()",
                execution.execution_id,
                execution.workflow,
                run.turn,
                extra=fields_of(execution),
            )
        if run.turn >= self._settings.max_events and not execution.interrupted:
            raise HistoryFull(
                f"the run has recorded {run.turn} events, as many as ENGINE_MAX_EVENTS allows. Let the workflow call "
                "restart(), which begins a new history. To let this run end, raise the setting and resume it."
            )
