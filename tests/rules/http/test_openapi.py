"""The description of the API: a valid OpenAPI, with every route, and with the types of the app's own declarations."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel, Field

from engine import Channel, Deferred, Failure, Runtime, Workflow, workflow
from engine.boundary import functions, history, http
from engine.boundary.answers import Request, Response, describe
from engine.boundary.openapi import describe_api
from engine.boundary.status import Status
from engine.testing import Environment
from engine.values.error_records import ErrorRecord


class Item(BaseModel):
    """The same name as in the result, with other fields."""

    sku: str = Field(alias="SKU")
    price: Decimal


class Order(BaseModel):
    items: list[Item]
    at: datetime | None = None
    inner: Order | None = None


class Sold(BaseModel):
    orders: dict[str, Order] = {}


class Odd:
    def __init__(self, text: str) -> None:
        self.text = text


class Unlucky(Failure):
    number: int


approved = Deferred("described.yes[no] & more", bool)
orders = Channel("described.orders", Order)


@workflow
async def sells(order: Order) -> Sold:
    """Sells an order.

    With more to say.
    """
    if await approved:
        raise Unlucky(number=13)
    await orders.receive()
    return Sold()


@workflow
async def plain() -> None:
    return None


@workflow
async def anything(value: Any) -> Any:
    return value


WORKFLOWS: list[Workflow[Any, Any]] = [sells, plain, anything]


@pytest.fixture
def described() -> dict[str, Any]:
    return describe_api(Environment(WORKFLOWS).registry, "https://host/api")


def test_it_is_a_valid_description(described: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(json.loads(json.dumps(described))).validate()
    ids = [operation["operationId"] for path in described["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))


def test_every_field_of_an_execution_is_described(described: dict[str, Any]) -> None:
    """With all that a status can hold: the API's description has a property for each field of the answer."""
    at, error = datetime(2026, 1, 2, tzinfo=UTC), ErrorRecord(type="Unlucky", message="13")
    status = Status(
        *("id", "sells", "1", "complete", "completed", True, True, "reason", "who", error, "{}", error, (error,)),
        *(("a task",), 1, {"a": "b"}, {"done": 1}, at, at, at, at, "lacks it"),
    )
    assert set(describe(status)) <= set(described["components"]["schemas"]["ExecutionShape"]["properties"])


def test_every_route_of_the_app_is_described(described: dict[str, Any]) -> None:
    """But for the page. Nothing else is."""
    tree = ast.parse(Path(functions.__file__).read_text("utf-8"))
    routes = set()
    for node in ast.walk(tree):
        for call in getattr(node, "decorator_list", []):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "triggers.route":
                methods = ast.literal_eval(next(k.value for k in call.keywords if k.arg == "methods"))
                routes.add((methods[0].lower(), f"/{ast.literal_eval(call.args[0])}"))
    routes -= {("get", "/ui"), ("get", "/ui/{file}"), ("post", "/workflows/{name}")}
    general = {
        (method, path)
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
        if "." not in operation["operationId"]
    }
    assert general == routes
    assert {f"/workflows/{each.name}" for each in WORKFLOWS} <= described["paths"].keys()


def test_types_are_those_of_the_declarations(described: dict[str, Any]) -> None:
    """N18: fields under their aliases in both directions, and models of one name apart."""
    schemas = described["components"]["schemas"]
    start = described["paths"]["/workflows/sells"]["post"]
    assert start["summary"] == "Sells an order."
    assert start["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/workflow.sells.payload")
    assert set(schemas["workflow.sells.payload.Item"]["properties"]) == {"SKU", "price"}
    assert set(schemas["workflow.sells.result.Item"]["properties"]) == {"SKU", "price"}
    assert "requestBody" not in described["paths"]["/workflows/plain"]["post"]
    assert schemas["workflow.anything.payload"] == {}
    path = "/executions/{id}/deferreds/described.yes%5Bno%5D%20%26%20more"
    ref = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert schemas[ref.rpartition("/")[2]] == {"type": "boolean"}


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment(WORKFLOWS) as env:
        yield env


async def test_answers_are_as_described(env: Environment, described: dict[str, Any]) -> None:
    """What routes really answer, in several states, fits its schema and has no field beside it."""
    runtime = Runtime(WORKFLOWS, lambda: env.store.inner, clock=env.clock)
    order = {"items": [{"SKU": "a", "price": "1.5"}]}
    start = Request("https://host/api/workflows/x", json.dumps(order).encode())
    id = json.loads((await http.start(runtime, start, "sells")).body)["executionId"]
    await env.settle()
    seen = list[str]()

    async def check(path: str, method: str, answer: Response) -> None:
        operation = described["paths"][path][method]
        response = operation["responses"][str(answer.status)]
        (content,) = response["content"].values()
        root = {**content["schema"], "components": described["components"]}
        body = json.loads(answer.body)
        jsonschema.Draft202012Validator(root).validate(body)
        name = re.findall(r"\w+$", json.dumps(content["schema"]).split("$ref")[1].split('"')[2])[0]
        assert body.keys() <= described["components"]["schemas"][name]["properties"].keys(), path
        seen.append(f"{method} {path} {answer.status}")

    def asks(**query: str) -> Request:
        return Request("https://host/api/executions", query=query)

    for _ in range(2):
        one = "/executions/{id}"
        await check(one, "get", await http.poll(runtime, asks(pending="true"), id))
        await check("/executions", "get", await http.list_executions(runtime, asks()))
        await check("/counts", "get", await http.count_executions(runtime, asks()))
        await check("/health", "get", await http.health(runtime))
        await check(f"{one}/history", "get", await history.history(runtime, asks(), id))
        await check(f"{one}/steps", "get", await history.steps(runtime, asks(), id))
        await check(f"{one}/family", "get", await history.family(runtime, asks(), id))
        if not (await env.status(id)).is_complete:
            await env.client.resolve(id, approved, True)
        await env.finish(id)
    await check("/executions", "get", await http.list_executions(runtime, asks(q="colour:red")))
    await check(one, "get", await http.poll(runtime, asks(), "0" * 32))
    await check(f"{one}/terminate", "post", await http.terminate(runtime, asks(), id))
    odd = Request("https://host/api/workflows/x", b'{"items": [{}]}')
    await check("/workflows/sells", "post", await http.start(runtime, odd, "sells"))
    await check("/workflows/plain", "post", await http.start(runtime, asks(), "plain"))
    assert len(seen) == 19
