"""Timer triggers: runs each timer function when it is due.

1. Runs of one function never overlap. The next run is due at the first slot after the *start* of the previous run. If
   that slot has passed when the previous run ends, the next run starts at once, and is marked as past due. Slots in
   between are skipped.
2. Schedules are in UTC.
3. Each host runs its own timers. On the platform one instance runs them for all.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime

from croniter import croniter
from croniter.croniter import CroniterBadCronError, CroniterBadDateError

from devhost.clock import Clock
from devhost.functions import Function, TimerTrigger
from devhost.invoke import Invoker, decode
from devhost.retry import Attempt, run_with_retries
from devhost.settings import LoadError

LATE_SECONDS = 1.0
"""A run is past due if it starts this long after its slot."""
LONGEST_NAP_SECONDS = 60.0
"""The longest wait before the clock is read again. Somebody may set the clock, and the event loop's own clock may stand
still while the machine sleeps."""

_FIELD = re.compile(r"[0-9*/,-]|[A-Za-z]{3,}", re.ASCII)
_SEVENTH_DAY = re.compile(r"(?<![\d/])7", re.ASCII)
"""Sunday is 0. croniter would accept 7 as well."""
_NAMES = frozenset(
    [
        "jan",
        "feb",
        "mar",
        "apr",
        "may",
        "jun",
        "jul",
        "aug",
        "sep",
        "oct",
        "nov",
        "dec",
        "sun",
        "mon",
        "tue",
        "wed",
        "thu",
        "fri",
        "sat",
    ]
)


class Schedule:
    """An NCRONTAB expression: {second} {minute} {hour} {day} {month} {day of week}. Raises LoadError."""

    def __init__(self, text: str) -> None:
        self._text = text
        fields = text.split()
        # croniter accepts more than NCRONTAB (L, W, #, ?, hashes). A schedule that works here has to work in Azure too.
        names = {name.lower()[:3] for name in re.findall("[A-Za-z]+", text)}
        known = all(_FIELD.sub("", field) == "" for field in fields) and names <= _NAMES
        if len(fields) != 6 or not known or _SEVENTH_DAY.search(fields[5]):
            raise LoadError(
                f"schedule {text!r} is not an NCRONTAB expression of six fields: "
                "{second} {minute} {hour} {day} {month} {day of week}"
            )
        self._expression = " ".join(re.sub("([A-Za-z]{3})[A-Za-z]*", r"\1", field) for field in fields)
        try:
            self.next_after(0)
        except CroniterBadDateError as error:
            raise LoadError(f"schedule {text!r} has no slot: no date matches it") from error
        except (CroniterBadCronError, ValueError) as error:
            raise LoadError(f"schedule {text!r} is not an NCRONTAB expression: {error}") from error

    def next_after(self, moment: float) -> float:
        """The first slot later than `moment`, both in seconds since the epoch."""
        start = datetime.fromtimestamp(moment, UTC)
        # In NCRONTAB the day and the day of week must both match. In cron one of them is enough.
        slots = croniter(self._expression, start, second_at_beginning=True, day_or=False)
        slot: datetime = slots.get_next(datetime)
        return slot.timestamp()


class TimerRunner:
    """Runs one timer function at its times."""

    def __init__(self, function: Function, invoker: Invoker, clock: Clock) -> None:
        assert isinstance(function.trigger, TimerTrigger)
        self._function = function
        self._trigger = function.trigger
        self._schedule = Schedule(function.trigger.schedule)
        self._invoker = invoker
        self._clock = clock
        self._ended = asyncio.Event()
        self._last: float | None = None

    def stop(self) -> None:
        """Lets no further run start."""
        self._ended.set()

    async def run(self) -> None:
        """Runs the function at its times until `stop`. Returns when the current run, if any, has ended."""
        due = self._clock.time()
        if not self._trigger.run_on_startup:
            due = self._schedule.next_after(due)
        while await self._wait_until(due):
            started = self._clock.time()
            following = self._schedule.next_after(started)
            await self._fire(started, following, past_due=started - due >= LATE_SECONDS)
            self._last = started
            due = following

    async def _wait_until(self, due: float) -> bool:
        """Waits until `due`. Returns False if `stop` is called before."""
        while not self._ended.is_set() and (left := due - self._clock.time()) > 0:
            await self._clock.wait(self._ended, min(left, LONGEST_NAP_SECONDS))
        return not self._ended.is_set()

    async def _fire(self, started: float, following: float, *, past_due: bool) -> None:
        last = _iso(started if self._last is None else self._last)
        status = {"Last": last, "LastUpdated": last, "Next": _iso(following)}
        data = {"IsPastDue": past_due, "Schedule": {"AdjustForDST": True}, "ScheduleStatus": status}

        async def call(attempt: Attempt) -> object:
            return await self._invoker.call(self._function, decode(self._function, data), attempt)

        await run_with_retries(
            call, self._function.retry, self._clock, self._ended, f"timer function {self._function.name}"
        )


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()
