"""The document of a limit: who has a permit, which starts still count, and who waits, in order of arrival.

Rules:
1. A document is alone in its partition, and every change is written under its etag. So each decision about a limit is
   made on its newest version.
2. A step that comes while others wait gets a permit only if there are enough for those before it as well.
3. A permit expires unless it is renewed. A ticket expires unless its step looks again. So nobody who died holds
   anything for ever.
4. A step that asks twice has one permit, and keeps its place in the order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from engine.ground.clock import Instant
from engine.store.documents import Document, Record
from engine.values.limits import Limits

LIMIT = "limit"
MAX_WAITING = 1_000
"""The most tickets. Steps beyond them look again after each lease, and have no place in the order."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel, validate_by_name=True)


class Permit(_Part):
    """An attempt that may run. `token`: the lease under which it runs."""

    holder: str
    token: str
    expires_at: Instant


class Ticket(_Part):
    """An attempt that waits, and its execution. `woken_at`: when that execution was last woken for it."""

    holder: str
    execution_id: str
    expires_at: Instant
    woken_at: Instant | None = None


@dataclass(frozen=True)
class Asking:
    """Who asks: one attempt of a step, and the token of the lease under which its driver works."""

    execution_id: str
    run_id: str | None
    step: str
    attempt: int
    token: str

    @property
    def holder(self) -> str:
        return f"{self.execution_id}/{self.run_id or ''}/{self.attempt}/{self.step}"


@dataclass(frozen=True)
class Times:
    """How long a permit holds without a renewal, the time between renewals, and how far clocks may be apart."""

    lease: timedelta
    heartbeat: timedelta
    skew: timedelta


class LimitState(Record):
    """The document."""

    id: Literal["limit"] = "limit"
    permits: tuple[Permit, ...] = ()
    starts: tuple[Instant, ...] = ()
    waiting: tuple[Ticket, ...] = ()
    etag: str = Field(default="", exclude=True)

    @classmethod
    def from_document(cls, document: Document) -> Self:
        return super().from_document(document).model_copy(update={"etag": document.get("_etag", "")})

    def ask(self, who: Asking, limits: Limits, now: datetime, times: Times) -> tuple[LimitState, datetime | None]:
        """The state after an attempt asked for a permit. With it: None if the attempt may run, else when it should ask
        again, unless it is woken before."""
        state, holder = self._current(limits, now), who.holder
        permit = Permit(holder=holder, token=who.token, expires_at=now + times.lease + times.skew)
        own = next((one for one in state.permits if one.holder == holder), None)
        if own is not None and (limits.limit is None or own.token == who.token):
            return state._with(permits=_put(state.permits, permit)), None
        if own is not None:  # its driver died: the attempt begins once more, and that start counts
            state = state._with(permits=tuple(one for one in state.permits if one is not own))
        place = next((n for n, one in enumerate(state.waiting) if one.holder == holder), len(state.waiting))
        if place < state._free(limits):
            return state._with(
                permits=(*state.permits, permit) if limits.concurrency is not None else (),
                starts=(*state.starts, now) if limits.limit is not None else (),
                waiting=tuple(one for one in state.waiting if one.holder != holder),
            ), None
        look_at = state._next_look(place, limits, now, times)
        ticket = Ticket(holder=holder, execution_id=who.execution_id, expires_at=look_at + times.lease + times.skew)
        is_full = place == len(state.waiting) >= MAX_WAITING
        return (state if is_full else state._with(waiting=_put(state.waiting, ticket))), look_at

    def renew(self, who: Asking, now: datetime, times: Times) -> LimitState:
        """The state after a running attempt renewed its permit. A permit that had expired is taken again, even if the
        limit is then exceeded, because the attempt runs."""
        if any(one.holder == who.holder and one.token != who.token for one in self.permits):
            return self
        permit = Permit(holder=who.holder, token=who.token, expires_at=now + times.lease + times.skew)
        return self._with(permits=_put(self.permits, permit))

    def leave(self, who: Asking) -> LimitState:
        """The state after an attempt ended or was given up. Another driver's permit for it stays."""
        return self._with(
            permits=tuple(one for one in self.permits if (one.holder, one.token) != (who.holder, who.token)),
            waiting=tuple(one for one in self.waiting if one.holder != who.holder),
        )

    def without(self, holders: frozenset[str]) -> LimitState:
        """The state without these tickets."""
        return self._with(waiting=tuple(one for one in self.waiting if one.holder not in holders))

    def wake(self, limits: Limits, now: datetime, times: Times) -> tuple[LimitState, tuple[Ticket, ...]]:
        """The state with marks on the tickets whose turn has come, and those tickets: their executions are to be woken.
        A ticket is woken once in each heartbeat. Starts in a period need nobody who wakes: the time tells."""
        state = self._current(limits, now)
        if limits.concurrency is None:
            return state, ()
        turn = state.waiting[: max(0, state._free(limits))]
        chosen = tuple(one for one in turn if one.woken_at is None or one.woken_at + times.heartbeat <= now)
        woken = {
            one.holder: one.model_copy(
                update={
                    "woken_at": now,
                    "expires_at": one.expires_at if one.woken_at else now + times.lease + times.skew,
                }
            )
            for one in chosen
        }
        return state._with(waiting=tuple(woken.get(one.holder, one) for one in state.waiting)), chosen

    def _with(self, **changes: Any) -> LimitState:
        return self.model_copy(update=changes)

    def _current(self, limits: Limits, now: datetime) -> LimitState:
        """Without what has expired."""
        since = now - limits.limit.per if limits.limit is not None else now
        return self._with(
            permits=tuple(one for one in self.permits if one.expires_at > now),
            starts=tuple(at for at in self.starts if at > since),
            waiting=tuple(one for one in self.waiting if one.expires_at > now),
        )

    def _free(self, limits: Limits) -> int:
        places = MAX_WAITING if limits.concurrency is None else limits.concurrency - len(self.permits)
        starts = MAX_WAITING if limits.limit is None else limits.limit.most - len(self.starts)
        return min(places, starts)

    def _next_look(self, place: int, limits: Limits, now: datetime, times: Times) -> datetime:
        """When the step at this place should look again. By the period: when its start is allowed, if all before it
        start as soon as they may. By concurrency: after a time in which even dead owners give back enough permits."""
        rate = limits.limit
        if rate is not None and (behind := place - (rate.most - len(self.starts))) >= 0:
            rounds, index = divmod(behind, rate.most)
            ordered = sorted(self.starts)
            first = ordered[index] if index < len(ordered) else now
            return first + (rounds + 1) * rate.per
        beyond = 0 if place >= MAX_WAITING else place // (limits.concurrency or 1)
        return now + times.lease * (1 + beyond)


def limit_id(activity: str, key: str) -> str:
    """The partition of a limit. It shows no key: a key may be private."""
    digest = hashlib.sha256(f"{activity}\n{key}".encode(errors="surrogatepass")).hexdigest()
    return f"limit-{digest[:32]}"


def _put(parts: tuple[Any, ...], part: Any) -> tuple[Any, ...]:
    """With `part` in the place of that of its holder, or at the end."""
    if any(one.holder == part.holder for one in parts):
        return tuple(part if one.holder == part.holder else one for one in parts)
    return (*parts, part)
