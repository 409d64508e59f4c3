"""Time as the engine sees it. The clock is passed in, so that tests can move it.

An instant is an aware UTC datetime in whole milliseconds. Documents store instants as texts of one width, so the texts
sort like the instants.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Annotated, Protocol

from pydantic import AfterValidator, PlainSerializer

FAR_FUTURE = datetime(9999, 12, 31, tzinfo=UTC)
"""The latest instant. A timer that is set beyond it never fires."""


def instant(moment: datetime) -> datetime:
    """`moment` in UTC, cut to whole milliseconds."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    beyond = moment.microsecond % 1000
    return moment.replace(microsecond=moment.microsecond - beyond) if beyond else moment


def from_seconds(seconds: float) -> datetime:
    """The instant `seconds` after the epoch. FAR_FUTURE if a datetime can't hold it."""
    try:
        return instant(datetime.fromtimestamp(round(seconds, 3), UTC))
    except (OverflowError, ValueError, OSError):
        return FAR_FUTURE


def isoformat(moment: datetime) -> str:
    """The text of an instant. It always has 24 characters, so that texts sort like instants."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _stored(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a datetime must have a time zone")
    try:
        return instant(moment)
    except OverflowError:
        raise ValueError("the datetime is outside the years 1 to 9999 in UTC") from None


Instant = Annotated[datetime, AfterValidator(_stored), PlainSerializer(isoformat)]


class Clock(Protocol):
    """Tells the present time, and waits."""

    def now(self) -> datetime:
        """The present instant."""
        ...

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until `event` is set, for `seconds` at most."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return instant(datetime.now(UTC))

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
