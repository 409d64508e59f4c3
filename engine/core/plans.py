"""When a schedule's occurrences are: a cron expression in a time zone, and what happens to late and overlapping ones.

Rules:
1. An occurrence is a local time that the expression names. Occurrences follow Debian's cron where the clock changes: a
   time that the clock skips is its first minute after the change, and a time that comes twice is its first one. This
   holds for a fixed time of day. An expression with `*` or a step in its minutes or hours follows real time.
2. Seconds are an optional first field, as in Azure Functions' timers.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

Overlap = Literal["skip", "queue", "allow"]
"""What happens to an occurrence whose predecessor is still running."""


def _checked_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"there is no time zone {name!r}: a zone has a name such as Europe/Berlin or UTC") from error
    return name


def _checked_cron(expression: str) -> str:
    try:
        next(_times(expression, datetime(2000, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        raise ValueError(
            f"{error} in {expression!r}: a schedule has five fields (minute, hour, day, month, day of the week), or "
            "six with the seconds first, as in '30 2 * * *'"
        ) from error
    except StopIteration:
        raise ValueError(f"{expression!r} names no time at all") from None
    return expression


class Plan(BaseModel):
    """When a workflow starts by itself.

    cron: five fields, or six with the seconds first.
    tz: the name of a time zone.
    overlap: what happens to an occurrence while the execution of the one before runs. `skip` leaves it out, `queue`
        starts it afterwards, `allow` starts it at once.
    catch_up: how late an occurrence may start after a time in which no process ran. Later ones are left out.
    paused: whether occurrences are left out for now.
    due: the next occurrence. The engine keeps it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cron: Annotated[str, AfterValidator(_checked_cron)]
    tz: Annotated[str, AfterValidator(_checked_zone)] = "UTC"
    overlap: Overlap = "skip"
    catch_up: Annotated[timedelta, Field(ge=timedelta(0))] = timedelta(hours=1)
    paused: bool = False
    due: AwareDatetime | None = None

    def after(self, time: datetime) -> Plan:
        """The plan whose next occurrence is the first one after a time."""
        return self.model_copy(update={"due": self.next(time)})

    def change_to(self, other: Plan) -> PlanChange | None:
        """What differs in another plan, but for the next occurrence and the pause. None if nothing does."""
        new = {name: getattr(other, name) for name in ("cron", "tz", "overlap", "catch_up")}
        changed = {name: value for name, value in new.items() if value != getattr(self, name)}
        return PlanChange(**changed) if changed else None

    def next(self, time: datetime) -> datetime:
        """The first occurrence after a time, in the plan's zone."""
        return next(_times(self.cron, time.astimezone(ZoneInfo(self.tz))))


class PlanChange(BaseModel):
    """What changes of a plan. Fields that aren't given stay as they are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cron: Annotated[str, AfterValidator(_checked_cron)] | None = None
    tz: Annotated[str, AfterValidator(_checked_zone)] | None = None
    overlap: Overlap | None = None
    catch_up: Annotated[timedelta, Field(ge=timedelta(0))] | None = None
    paused: bool | None = None

    def of(self, plan: Plan) -> Plan:
        """The changed plan."""
        return plan.model_copy(update=self.model_dump(exclude_none=True))


def _times(expression: str, start: datetime) -> Iterator[datetime]:
    """The occurrences after a local time. CronSim knows Debian's rules for five fields only. So a fixed second is added
    to the time of the minute."""
    fields = expression.split()
    if len(fields) != 6 or not fields[0].isdecimal() or int(fields[0]) > 59:
        yield from CronSim(expression, start)
        return
    seconds = timedelta(seconds=int(fields[0]))
    for minute in CronSim(" ".join(fields[1:]), (start.astimezone(UTC) - seconds).astimezone(start.tzinfo)):
        yield (minute.astimezone(UTC) + seconds).astimezone(start.tzinfo)
