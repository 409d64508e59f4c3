"""The workflows of the recordings, second part: values of many types, and large ones. Never to be changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Generic, NewType, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from engine import activity, workflow

T = TypeVar("T")
Sku = NewType("Sku", str)


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Box(Generic[T]):
    content: T
    more: list[Box[T]]


class Everything(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    offset: datetime
    naive: datetime
    day: date
    span: timedelta
    price: Decimal
    id: UUID
    colour: Colour
    raw: bytes
    numbers: set[int]
    pair: tuple[int, str]
    by_number: dict[int, str]
    big: int
    boxes: Box[Point]
    by_sku: dict[Sku, Point]
    nothing: None
    text: str


@activity(name="recorded.give")
async def give(value: Everything, point: Point | None) -> Everything:
    return value


@activity(name="recorded.odd")
async def odd() -> list[float]:
    return [math.nan, -math.inf, -0.0, 0.1]


@workflow(name="recorded.values")
async def values(everything: Everything) -> tuple[Everything, list[str]]:
    """What it gave back is told in words, too, so that a change in how it is read shows."""
    given, numbers = await give(everything, Point(x=1, tags=frozenset({"b", "a"}))), await odd()
    offset = given.offset.utcoffset()
    told = [
        f"{given.offset.isoformat()} {offset} {given.naive.isoformat()} {given.naive.tzinfo}",
        f"{given.day.isoformat()} {given.span.total_seconds()} {given.price} {given.id.hex} {given.colour.name}",
        f"{given.raw.hex()} {sorted(given.numbers)} {given.pair} {given.by_number}",
        f"{[math.isnan(number) or number for number in numbers]} {given.big} {given.boxes.more[0].content.x}",
        f"{given.by_sku[Sku('a')].x} {sorted(given.by_sku[Sku('a')].tags)} {given.nothing} {given.text!a}",
    ]
    return given, told


@activity(name="recorded.double")
async def double(text: str) -> str:
    return text + text


@workflow(name="recorded.large")
async def large(text: str) -> str:
    return await double(text) + (await double(text[:3_000])).upper()
