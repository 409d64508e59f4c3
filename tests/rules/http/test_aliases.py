"""N18: over HTTP a field has its alias in both directions, wherever a value is shown. In Python it has its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Generic, TypeVar

import pydantic
import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel, model_validator
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from engine import AlreadyResolved, Channel, Deferred, Failure, Runtime, activity, workflow
from engine.boundary import history, http
from engine.boundary.answers import Request
from engine.core.declarations import Workflow
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment

T = TypeVar("T")


class Item(BaseModel):
    item_name: str = Field(alias="itemName")
    data: bytes = b""


class Order(BaseModel):
    order_id: str = Field(alias="orderId")
    items: list[Item] = []
    by_name: dict[str, Item] = {}
    after: Order | None = None


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    order_id: str
    the_items: list[Item] = []


class TwoNames(BaseModel):
    order_id: str = Field(validation_alias=AliasChoices("orderId", "id"), serialization_alias="orderNumber")


class InOnly(BaseModel):
    order_id: str = Field(validation_alias="orderId")


class Page(BaseModel, Generic[T]):
    all_items: list[T] = Field(alias="allItems")


class Root(RootModel[list[Item]]):
    pass


@dataclass
class Plain:
    order_id: Annotated[str, Field(alias="orderId")]


@pydantic.dataclasses.dataclass
class Checked:
    order_id: str = Field(alias="orderId")


class Typed(TypedDict):
    order_id: Annotated[str, Field(alias="orderId")]


class Changing(BaseModel):
    order_id: str = Field(alias="orderId")

    @model_validator(mode="after")
    def _checks(self) -> Changing:
        if self.order_id == GONE:
            raise ValueError("today's code knows no such order")
        return self


GONE = ""


class Refused(Failure):
    order_id: str = Field(alias="orderId")
    item: Item


ITEM = {"itemName": "pen", "data": "AP8="}
SHAPES: list[tuple[Any, Any, Any]] = [
    (
        Order,
        {"orderId": "7", "items": [ITEM]},
        {"orderId": "7", "items": [ITEM], "by_name": {}, "after": None},
    ),
    (
        Order,
        {"orderId": "7", "by_name": {"itemName": ITEM}, "after": {"orderId": "8"}},
        {
            "orderId": "7",
            "items": [],
            "by_name": {"itemName": ITEM},
            "after": {"orderId": "8", "items": [], "by_name": {}, "after": None},
        },
    ),
    (Camel, {"orderId": "7", "theItems": [ITEM]}, {"orderId": "7", "theItems": [ITEM]}),
    (Camel, {"order_id": "7", "the_items": []}, {"orderId": "7", "theItems": []}),
    (TwoNames, {"id": "7"}, {"orderNumber": "7"}),
    (InOnly, {"orderId": "7"}, {"order_id": "7"}),
    (Page[Item], {"allItems": [ITEM]}, {"allItems": [ITEM]}),
    (Root, [ITEM], [ITEM]),
    (Plain, {"orderId": "7"}, {"orderId": "7"}),
    (Checked, {"orderId": "7"}, {"orderId": "7"}),
    (Typed, {"orderId": "7"}, {"orderId": "7"}),
    (list[Item | None], [ITEM, None], [ITEM, None]),
    (dict[str, tuple[Item, int]], {"a": [ITEM, 1]}, {"a": [ITEM, 1]}),
    (Item | int, ITEM, ITEM),
    (Any, {"order_id": "7", "orderId": "8"}, {"order_id": "7", "orderId": "8"}),
]


def echoing(kind: Any) -> Workflow[Any, Any]:
    """A workflow that takes and gives that type, through an activity, a deferred and a channel."""

    async def pass_on(value: Any) -> Any:
        return value

    async def echoed(value: Any) -> Any:
        value = await passing(value)
        value = await Deferred("aliased.deferred", kind)
        return await Channel("aliased.channel", kind).receive()

    pass_on.__annotations__ = echoed.__annotations__ = {"value": kind, "return": kind}
    passing = activity(name="aliased_pass")(pass_on)
    return workflow(name="aliased")(echoed)


class App:
    """One app over HTTP."""

    def __init__(self, *workflows: Workflow[Any, Any], declares: Any = ()) -> None:
        self.runtime = Runtime(list(workflows), lambda: SqliteStore(":memory:"), declares=declares)

    async def __call__(self, function: Callable[..., Any], *route: str, body: Any = None, **query: str) -> Any:
        text = b"" if body is None else json.dumps(body).encode()
        answer = await function(self.runtime, Request("https://x/api/executions", text, query), *route)
        return json.loads(answer.body)

    async def close(self) -> None:
        await self.runtime.close(timedelta(0))


@pytest.mark.parametrize(("kind", "given", "shown"), SHAPES)
async def test_every_value_is_shown_under_the_names_that_it_came_with(kind: Any, given: Any, shown: Any) -> None:
    """N18: payload, results of steps, values of deferreds and channels, result, list: nested ones too."""
    app = App(echoing(kind), declares=[Deferred("aliased.deferred", kind), Channel("aliased.channel", kind)])
    try:
        id = (await app(http.start, "aliased", body=given))["executionId"]
        await app.runtime.client.drive(id)
        await app(http.resolve_deferred, id, "aliased.deferred", body=given)
        await app(http.send, id, "aliased.channel", body=given)
        await app.runtime.client.drive(id)
        polled = await app(http.poll, id)
        assert polled["result"] == shown
        listed = await app(http.list_executions, workflow="aliased")
        assert [one["result"] for one in listed["executions"]] == [shown]
        told = await app(history.history, id)
        assert told["payload"]["value"] == shown
        assert [event["result"]["value"] for event in told["events"] if "result" in event] == [shown] * 3
    finally:
        await app.close()


aliased_order = Deferred("aliased.order", Order)


@workflow
async def aliased_fails(order: Order) -> None:
    raise Refused(orderId=order.order_id, item=Item(itemName="pen"))


@activity
async def aliased_refuses(order: Order) -> Order:
    raise Refused(orderId=order.order_id, item=Item(itemName="pen"))


@workflow
async def aliased_waits(order: Order) -> Order:
    try:
        return await aliased_refuses(order)
    except Refused:
        return await aliased_order


@workflow
async def aliased_changes(order: Changing) -> Changing:
    return order


async def test_failures_are_shown_under_aliases() -> None:
    """N18: the data of a failure is a value as well, in the status and in the history."""
    app = App(aliased_fails, aliased_waits)
    try:
        id = (await app(http.start, "aliased_fails", body={"orderId": "7"}, wait="5"))["executionId"]
        shown = {"orderId": "7", "item": {"itemName": "pen", "data": ""}}
        assert (await app(http.poll, id))["error"]["data"] == shown
        id = (await app(http.start, "aliased_waits", body={"orderId": "7"}))["executionId"]
        await app.runtime.client.drive(id)
        (event,) = [event for event in (await app(history.history, id))["events"] if "error" in event]
        assert event["error"]["data"] == shown
    finally:
        await app.close()


async def test_what_is_asked_for_has_the_names_in_which_it_is_sent() -> None:
    """N18: the schema of a pending deferred, and the first value where another one is refused."""
    app = App(aliased_waits)
    try:
        id = (await app(http.start, "aliased_waits", body={"orderId": "7"}))["executionId"]
        await app.runtime.client.drive(id)
        (step,) = (await app(http.poll, id, pending="true"))["pending"]
        assert "orderId" in step["schema"]["$defs"]["Order"]["properties"]
        await app(http.resolve_deferred, id, "aliased.order", body={"orderId": "8"})
        refused = await app(http.resolve_deferred, id, "aliased.order", body={"orderId": "9"})
        assert refused["first"] == {"orderId": "8", "items": [], "by_name": {}, "after": None}
    finally:
        await app.close()


async def test_what_today_s_type_refuses_is_shown_as_it_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """N18: or what this app doesn't know. A status is always shown."""
    app = App(aliased_changes)
    try:
        id = (await app(http.start, "aliased_changes", body={"orderId": "7"}, wait="5"))["executionId"]
        assert (await app(http.poll, id))["result"] == {"orderId": "7"}
        monkeypatch.setattr(f"{__name__}.GONE", "7")
        assert (await app(http.poll, id))["result"] in ({"orderId": "7"}, {"order_id": "7"})
    finally:
        await app.close()


async def test_in_python_a_value_has_its_names() -> None:
    """N18: a result is an object, and plain data has the names of fields, as a model dumps itself."""
    async with Environment([aliased_waits]) as env:
        handle = await env.start(aliased_waits, Order(orderId="7"))
        await env.drive(handle)
        await env.resolve(handle, aliased_order, Order(orderId="8"))
        with pytest.raises(AlreadyResolved):
            await env.resolve(handle, aliased_order, Order(orderId="9"))
        status = await env.finish(handle)
        assert (await handle.result()) == Order(orderId="8")
        assert status.value() == Order(orderId="8").model_dump()
