"""H8: what comes a second time under one key is the same request, or it is refused with both values shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import count
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from engine import AlreadyResolved, AlreadySent, AlreadyStarted, Channel, Deferred, Runtime, restart, workflow
from engine.boundary import http
from engine.boundary.answers import Request
from engine.core.declarations import Workflow
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment

_numbers = count()


class Line(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)

    item_name: str
    number: int = 1


class Card(BaseModel):
    kind: Literal["card"] = "card"
    of: str


class Cash(BaseModel):
    kind: Literal["cash"] = "cash"
    of: str


class Order(BaseModel):
    id: str
    lines: list[Line] = []
    tags: set[str] = set()
    paid_by: Card | Cash | None = None
    made: int = Field(default_factory=lambda: next(_numbers))
    at: datetime | None = None
    weight: float | None = None


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0
    names: dict[str, int] = field(default_factory=dict)


again_numbers = Channel("again.numbers", int)
again_orders = Channel("again.orders", Order)
again_approved = Deferred("again.approved", Order)


@workflow(idempotency_key=lambda order: order.id)
async def again_order(order: Order) -> None:
    await again_approved
    await again_orders.receive()
    await again_numbers.receive()


@workflow
async def again_point(point: Point) -> None:
    await again_numbers.receive()


@workflow
async def again_plain(anything: Any) -> None:
    await again_numbers.receive()


@workflow
async def again_colour(colour: Colour) -> None:
    await again_numbers.receive()


@workflow
async def again_text(text: str) -> None:
    await again_numbers.receive()


@workflow
async def again_nothing() -> None:
    await again_numbers.receive()


@workflow
async def again_for_ever(number: int) -> None:
    await again_numbers.receive()
    restart(number + 1)


ALL: list[Workflow[Any, Any]] = [
    again_order,
    again_point,
    again_plain,
    again_colour,
    again_text,
    again_nothing,
    again_for_ever,
]
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LONG = "x" * 50_000

SAME: list[tuple[Workflow[Any, Any], Any, Any]] = [
    (again_order, Order(id="a"), Order(id="a")),
    (again_order, Order(id="a"), Order(id="a", lines=[], paid_by=None)),
    (again_order, Order(id="a", tags={"x", "y", "z"}), Order(id="a", tags={"z", "y", "x"})),
    (again_order, Order(id="a", weight=1), Order(id="a", weight=1.0)),
    (again_order, Order(id="a", paid_by=Card(of="ann")), Order(id="a", paid_by=Card(kind="card", of="ann"))),
    (again_point, Point(1), Point(1, 0, {})),
    (again_point, Point(1, names={"a": 1, "b": 2}), Point(1, names={"b": 2, "a": 1})),
    (again_plain, {"a": 1, "b": [1.0]}, {"b": [1], "a": 1}),
    (again_plain, None, None),
    (again_text, LONG, LONG),
]
OTHER: list[tuple[Workflow[Any, Any], Any, Any, str]] = [
    (again_order, Order(id="a"), Order(id="a", lines=[Line(item_name="pen")]), "payload.lines.0 was not there"),
    (
        again_order,
        Order(id="a", lines=[Line(item_name="pen")]),
        Order(id="a", lines=[Line(item_name="ink")]),
        "payload.lines.0.item_name was 'pen', is now 'ink'",
    ),
    (again_order, Order(id="a", tags={"x"}), Order(id="a", tags={"y"}), "payload.tags was {'x'}, is now {'y'}"),
    (again_order, Order(id="a", paid_by=Card(of="ann")), Order(id="a", paid_by=Cash(of="ann")), "payload.paid_by was"),
    (again_order, Order(id="a", made=1), Order(id="a", made=2), "payload.made was 1, is now 2"),
    (again_order, Order(id="a", at=NOON), Order(id="a", at=NOON + timedelta(seconds=1)), "payload.at was"),
    (again_point, Point(1), Point(2), "payload.x was 1, is now 2"),
    (again_point, Point(1, names={"a": 1}), Point(1), "payload.names.a was 1, is now not there"),
    (again_plain, {"a": 1}, {"a": True}, "payload.a was 1, is now True"),
    (again_plain, [1, 2], [2, 1], "payload.0 was 1, is now 2"),
    (again_plain, None, 0, "payload was None, is now 0"),
    (again_colour, Colour.RED, Colour.BLUE, "payload was <Colour.RED: 'red'>, is now <Colour.BLUE: 'blue'>"),
    (again_text, LONG, LONG + "!", "payload was 'xxx"),
    (again_text, LONG, "short", "is now 'short'"),
]


@pytest.mark.parametrize(("started", "first", "second"), SAME)
async def test_the_same_payload_finds_the_execution(started: Workflow[Any, Any], first: Any, second: Any) -> None:
    """H8: as data, by today's type: not by its text, its order of keys, or defaults that are made afresh."""
    async with Environment(ALL) as env:
        one = await env.client.start(started, first, key="k")
        assert (await env.client.start(started, second, key="k")).execution_id == one.execution_id


@pytest.mark.parametrize(("started", "first", "second", "told"), OTHER)
async def test_another_payload_is_refused_and_both_are_shown(
    started: Workflow[Any, Any], first: Any, second: Any, told: str
) -> None:
    """H8: the message is short, names the execution, and nothing has changed."""
    async with Environment(ALL) as env:
        id = (await env.client.start(started, first, key="k")).execution_id
        stored = await env.store.inner.read(id)
        with pytest.raises(AlreadyStarted) as refused:
            await env.client.start(started, second, key="k")
        assert told in str(refused.value)
        assert len(str(refused.value)) < 800
        assert (refused.value.execution_id, await env.store.inner.read(id)) == (id, stored)


async def test_the_common_path_asks_the_store_for_nothing_more() -> None:
    """H8: a start is one request; a repeated one reads the document that it has to read anyway."""
    async with Environment(ALL) as env:
        asked: list[str] = []

        async def note(call: Any) -> None:
            asked.append(call.method)

        env.store.before = note
        await env.client.start(again_point, Point(1), key="k")
        await env.client.start(again_point, Point(1), key="k")
        assert asked == ["create", "create", "read"]
        await env.client.start(again_text, LONG, key="long")
        await env.client.start(again_text, LONG, key="long")
        assert asked[3:] == ["create", "create", "read", "load"]


async def test_a_run_that_began_anew_is_found_whatever_the_payload() -> None:
    """H8: its first payload is gone, and the payload of its present run is its own affair."""
    async with Environment(ALL) as env:
        id = (await env.client.start(again_for_ever, 1, key="k")).execution_id
        await env.drive(id)
        await env.client.send(id, again_numbers, 1)
        await env.settle()
        assert (await env.store.inner.read(id)).restarts == 1
        for payload in (1, 2, 3):
            assert (await env.client.start(again_for_ever, payload, key="k")).execution_id == id


async def test_over_http_another_payload_is_a_conflict() -> None:
    """H8: the same body again is the same execution; another one is a 409 that shows both."""
    runtime = Runtime(ALL, lambda: SqliteStore(":memory:"))
    try:

        async def post(body: Any) -> tuple[int, dict[str, Any]]:
            request = Request("https://x/api/workflows/again_order", json.dumps(body).encode())
            response = await http.start(runtime, request, "again_order")
            return response.status, json.loads(response.body)

        body = {"id": "a", "lines": [{"itemName": "pen"}]}
        (code, first), (again, second) = await post(body), await post(dict(reversed(body.items())))
        assert (code, again, first["executionId"]) == (202, 202, second["executionId"])
        code, refused = await post({"id": "a", "lines": [{"itemName": "ink"}]})
        assert (code, refused["executionId"]) == (409, first["executionId"])
        assert refused["title"] == "Already started with another payload"
        assert refused["differences"] == ["payload.lines.0.itemName was 'pen', is now 'ink'"]
        assert "payload.lines.0.itemName was 'pen', is now 'ink'. Nothing was changed" in refused["detail"]
        code, refused = await post({"id": "a"})
        assert refused["differences"] == ["payload.lines.0 was Line(itemName='pen', number=1), is now not there"]
    finally:
        await runtime.close(timedelta(0))


@pytest.mark.parametrize("moment", ["waiting", "received", "ended"])
async def test_another_value_of_one_key_is_refused(moment: str) -> None:
    """H8: in a channel as well, whether the first one waits, was received, or the execution is over."""
    async with Environment(ALL) as env:
        id = (await env.client.start(again_nothing, key="k")).execution_id
        await env.client.send(id, again_numbers, 1, key="first")
        if moment != "waiting":
            await env.finish(id)
        await env.client.send(id, again_numbers, 1, key="first")
        with pytest.raises(AlreadySent, match="value was 1, is now 2"):
            await env.client.send(id, again_numbers, 2, key="first")


SENT: list[tuple[Callable[[], Order], Callable[[], Order]]] = [
    (lambda: Order(id="a", tags={"x", "y"}), lambda: Order(id="a", tags={"y", "x"})),
    (lambda: Order(id="a"), lambda: Order(id="a", lines=[])),
]


@pytest.mark.parametrize(("first", "second"), SENT)
async def test_the_same_value_again_is_a_success(first: Callable[[], Order], second: Callable[[], Order]) -> None:
    """H8, A6: of a channel under its key, and of a deferred: compared as data."""
    async with Environment(ALL) as env:
        id = (await env.start(again_order, Order(id="z"))).execution_id
        await env.client.send(id, again_orders, first(), key="one")
        await env.client.send(id, again_orders, second(), key="one")
        await env.client.resolve(id, again_approved, first())
        await env.client.resolve(id, again_approved, second())
        with pytest.raises(AlreadySent):
            await env.client.send(id, again_orders, Order(id="b"), key="one")
        with pytest.raises(AlreadyResolved):
            await env.client.resolve(id, again_approved, Order(id="b"))
