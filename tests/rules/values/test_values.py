"""Values through activities and workflows: what comes back is what was sent, of its declared type, or is refused."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, Generic, NewType, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel

from engine import EncodingError, TooLarge, Workflow, activity, workflow
from engine.testing import Environment
from tests.support.mortal import assert_replays, journal

T = TypeVar("T")
Sku = NewType("Sku", str)


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    tags: set[str] = set()


@dataclass(frozen=True)
class Box(Generic[T]):
    content: T
    more: list[Box[T]]


class Name(str):
    """A text with a type of its own, which no declaration mentions."""


CASES: dict[str, tuple[Any, Any]] = {
    "offset": (datetime, datetime(2026, 3, 1, 2, 30, 0, 123456, timezone(timedelta(hours=-5)))),
    "utc": (datetime, datetime(2026, 3, 1, tzinfo=UTC)),
    "naive": (datetime, datetime(2026, 3, 1, 2, 30)),
    "date": (date, date(2026, 2, 28)),
    "timedelta": (timedelta, timedelta(days=400, microseconds=1)),
    "decimal": (Decimal, Decimal("1.10")),
    "uuid": (UUID, UUID(int=7)),
    "enum": (Colour, Colour.RED),
    "bytes": (bytes, bytes(range(256))),
    "set": (set[int], {3, 1, 2}),
    "tuple": (tuple[int, str], (1, "a")),
    "int keys": (dict[int, str], {1: "a", 2**70: "b"}),
    "nan": (float, math.nan),
    "inf": (float, -math.inf),
    "minus zero": (float, -0.0),
    "inf beside None": (list[float | None], [math.inf, None]),
    "big": (int, 2**70),
    "model": (Point, Point(x=1, tags={"a", "b"})),
    "list of models": (list[Point], [Point(x=1), Point(x=2)]),
    "optional": (Point | None, None),
    "nested": (Box[Point], Box(Point(x=1), [Box(Point(x=2), [])])),
    "new type keys": (dict[Sku, Point], {Sku("a"): Point(x=1)}),
    "none": (None, None),
    "text": (str, "\x00\u2028 \U0001f642 é e\u0301"),
}
TOO_LARGE = [(3_000_000, "x", False), (16_000_000, "x", False), (800_000, '"', False)]
REFUSED: dict[str, Any] = {
    "lambda": lambda: 1,
    "object": object(),
    "set in plain": {1, 2},
    "int keys in plain": {1: "a"},
    "tuple in plain": (1, 2),
    "nan in plain": [math.nan],
    "datetime in plain": datetime(2026, 1, 1, tzinfo=UTC),
    "surrogate": "\ud800",
    "model in plain": Point(x=1),
    "bytes in plain": b"x",
}


def typed(kind: Any) -> Workflow[Any, Any]:
    """A workflow and its activity that take and give that type."""

    async def passes(value: Any) -> Any:
        assert _same(value, Seen.sent), f"the activity was given {value!r}"
        return value

    async def round_trip(payload: Any) -> Any:
        result = await typed_activity(payload)
        Seen.seen.append(result)
        return result

    for function in (passes, round_trip):
        function.__annotations__ = {next(iter(function.__annotations__)): kind, "return": kind}
    typed_activity = activity(passes)
    return workflow(round_trip)


class Seen:
    """What was sent, and what the workflow had, live and in replay."""

    sent: Any
    seen: list[Any]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and repr(one) == repr(other) if isinstance(one, float) else bool(one == other)


@activity
async def gives(how: str):  # type: ignore[no-untyped-def]
    journal.note(how)
    return REFUSED[how]


@activity
async def takes(value: Any) -> None:
    journal.note("taken")


@activity
async def gives_text(size: int, letter: str) -> str:
    journal.note("text")
    return letter * size


@activity
async def gives_bytes(size: int) -> bytes:
    return random_bytes(size)


@activity
async def takes_text(text: str) -> int:
    return len(text)


def random_bytes(size: int) -> bytes:
    import random

    return random.Random(1).randbytes(size)


@workflow
async def calls_with(how: str) -> str:
    try:
        await takes(REFUSED[how])
    except EncodingError as error:
        return str(error)
    return ""


@workflow
async def gets(how: str) -> str:
    try:
        await gives(how)
    except Exception as error:
        return f"{type(error).__name__} {error}"
    return ""


@workflow
async def returns(how: str) -> Any:
    return REFUSED[how]


@workflow
async def gets_text(request: tuple[int, str]) -> str:
    try:
        text = await gives_text(*request)
    except Exception as error:
        return f"{type(error).__name__} {error}"
    return str(await takes_text(text))


@workflow
async def gets_bytes(size: int) -> bool:
    return await gives_bytes(size) == random_bytes(size)


@workflow
async def tells_local_time() -> list[str]:
    berlin = ZoneInfo("Europe/Berlin")
    return [datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=berlin).astimezone(UTC).isoformat() for fold in (0, 1)]


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]


@pytest.mark.parametrize("case", CASES)
async def test_a_value_comes_back_as_it_was(case: str) -> None:
    """K1, K3, K4: payload, argument, result, and the workflow's own; live, after an eviction, and in replay."""
    kind, value = CASES[case]
    one = typed(kind)
    async with Environment([one]) as env:
        Seen.sent, Seen.seen = value, []
        status = await env.run(one, value)
        assert status.outcome == "completed", status.error
        assert status.result is not None
        assert _same(one.result.decode(status.result), value)
        await assert_replays(env)
        assert len(Seen.seen) == 3  # live, as `finish` replayed it, and evicted
        assert all(_same(seen, value) for seen in Seen.seen)


async def test_a_subclass_that_no_declaration_mentions_never_passes_silently() -> None:
    """K3: it comes back as the declared type, live as in replay, or it is refused at the call."""
    one = typed(str)
    async with Environment([one]) as env:
        Seen.sent, Seen.seen = "x", []
        await env.run(one, "x")
        await assert_replays(env)
        assert {type(seen) for seen in Seen.seen} == {str}
        try:
            status = await env.run(one, Name("x"))
        except EncodingError:
            return
        assert status.value() == "x"


@pytest.mark.parametrize("how", REFUSED)
async def test_a_value_that_cannot_be_stored_is_an_error_where_it_is_used(how: str) -> None:
    """D6, K4: as an argument the activity does not run; as a result it ran once; both name the type; as the
    workflow's own result it fails the execution. Nothing is tried for ever."""
    async with Environment(ALL) as env:
        name = type(REFUSED[how]).__name__
        assert name in (await env.run(calls_with, how)).value()
        assert journal.effects == []
        answer = (await env.run(gets, how)).value()
        assert "EncodingError" in answer
        assert name in answer
        assert journal.effects == [how]
        status = await env.run(returns, how)
        assert status.outcome == "failed"
        assert status.error is not None
        assert (status.error.type, name in status.error.message) == ("EncodingError", True)
        await assert_replays(env)


@pytest.mark.parametrize(
    ("size", "letter", "fits"),
    [(1_790_000, "x", True), (1_900_000, "x", False), (590_000, "€", True), (700_000, "€", False), *TOO_LARGE],
)
async def test_a_large_value_arrives_or_is_a_failure_that_can_be_caught(size: int, letter: str, fits: bool) -> None:
    """G1: near the limit of a document, in bytes as stored; one run either way, and the limit is named."""
    async with Environment(ALL) as env:
        answer = (await env.run(gets_text, (size, letter))).value()
        assert answer == str(size) if fits else ("TooLarge" in answer and "1,800,000" in answer)
        assert journal.effects == ["text"]


async def test_bytes_that_do_not_compress_arrive() -> None:
    """G1: 1.3 MB of noise."""
    async with Environment(ALL) as env:
        assert (await env.run(gets_bytes, 1_300_000)).value() is True


async def test_a_payload_that_is_too_large_stores_nothing() -> None:
    """G1: refused at the start."""
    one = typed(str)
    async with Environment([one]) as env:
        with pytest.raises(TooLarge):
            await env.start(one, "x" * 2_000_000)
        assert env.store.count() == 0


async def test_local_times_are_instants() -> None:
    """B4: 02:30 happens twice in Berlin on that night."""
    async with Environment(ALL) as env:
        expected = ["2026-10-25T00:30:00+00:00", "2026-10-25T01:30:00+00:00"]
        assert (await env.run(tells_local_time)).value() == expected


async def test_values_at_once_are_not_mixed_up() -> None:
    """G3: 200 large results that end in one turn, each to its own call."""
    async with Environment([fan_out]) as env:
        assert (await env.run(fan_out, 200)).value() == 200 * 20_000 + sum(range(200))


@workflow
async def fan_out(count: int) -> int:
    texts = await asyncio.gather(*(gives_text(20_000 + number, "é") for number in range(count)))
    assert [len(text) for text in texts] == [20_000 + number for number in range(count)]
    return sum(map(len, texts))
