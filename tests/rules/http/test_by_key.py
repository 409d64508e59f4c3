"""P5: over HTTP, an execution is addressed by its workflow and idempotency key."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from engine import Deferred, Runtime, workflow
from engine.boundary import http
from engine.boundary.answers import Request
from engine.store.sqlite.store import SqliteStore

keyed_answer = Deferred("keyed.answer", str)


@workflow(idempotency_key=lambda order: order["id"])
async def keyed_order(order: dict[str, str]) -> str:
    return await keyed_answer


@workflow
async def keyed_other(order: dict[str, str]) -> str:
    return await keyed_answer


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    store = SqliteStore(":memory:")
    runtime = Runtime([keyed_order, keyed_other], lambda: store)
    yield runtime
    await runtime.close(timedelta(0))


async def by_key(runtime: Runtime, name: str, **query: str) -> tuple[int, dict[str, Any]]:
    request = Request(f"https://host/api/workflows/{name}/executions", query=query)
    answer = await http.poll_by_key(runtime, request, name)
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize("key", ["order-7", "a/b", "a%2Fb", "?#&=", "..", " a ", "😀", "\u00e9", "x" * 5_000])
async def test_an_execution_is_found_by_its_key(runtime: Runtime, key: str) -> None:
    """P5: whatever the key holds; the answer is that of a poll by its id, with the same links."""
    handle = await runtime.client.start(keyed_order, {"id": key})
    status, body = await by_key(runtime, "keyed_order", key=key)
    polled = await http.poll(
        runtime, Request(f"https://host/api/executions/{handle.execution_id}"), handle.execution_id
    )
    assert (status, body) == (200, json.loads(polled.body))
    assert body["links"]["self"] == f"https://host/api/executions/{handle.execution_id}"


async def test_it_waits_and_shows_what_is_pending_as_a_poll_does(runtime: Runtime) -> None:
    """P5: `?wait=` and `?pending=` mean the same."""
    handle = await runtime.client.start(keyed_order, {"id": "7"})
    await runtime.client.drive(handle)
    _, body = await by_key(runtime, "keyed_order", key="7", pending="true")
    assert [step["name"] for step in body["pending"]] == ["keyed.answer"]
    await handle.resolve(keyed_answer, "yes")
    await runtime.client.drive(handle)
    assert (await by_key(runtime, "keyed_order", key="7", wait="1"))[1]["result"] == "yes"


@pytest.mark.parametrize(
    ("name", "query", "status", "says"),
    [
        ("keyed_order", {"key": "8"}, 404, "no execution of workflow keyed_order has the idempotency key '8'"),
        ("keyed_other", {"key": "7"}, 404, "no execution of workflow keyed_other"),
        ("nobody", {"key": "7"}, 404, "no workflow is named 'nobody'; there are: keyed_order"),
        ("keyed_order-7", {"key": "8"}, 404, "no workflow is named 'keyed_order-7'"),
        ("keyed_order", {}, 400, "?key=order-7"),
        ("keyed_order", {"key": ""}, 400, "?key=order-7"),
        ("keyed_order", {"id": "7"}, 400, "'id' is not one of key, wait, pending"),
        ("keyed_order", {"key": "7", "wait": "soon"}, 400, "wait must be a number of seconds"),
        ("keyed_order", {"key": "7", "pending": "yes"}, 400, "pending must be false or true"),
        ("keyed_order", {"key": "\ud800"}, 400, "half a character"),
    ],
)
async def test_what_is_not_there_is_said(
    runtime: Runtime, name: str, query: dict[str, str], status: int, says: str
) -> None:
    """P5: no execution, no workflow, no key. `keyed_order-7` with the key `8` isn't `keyed_order` with `7-8`."""
    await runtime.client.start(keyed_order, {"id": "7"})
    await runtime.client.start(keyed_order, {"id": "7-8"})
    answered, body = await by_key(runtime, name, **query)
    assert answered == status
    assert says in body["detail"]


async def test_an_execution_whose_workflow_is_gone_is_found(runtime: Runtime) -> None:
    """P5: its key is still its address, after a deployment without the workflow."""
    await runtime.client.start(keyed_order, {"id": "7"})
    later = Runtime([keyed_other], lambda: runtime.store)
    status, body = await by_key(later, "keyed_order", key="7")
    assert (status, body["workflow"]) == (200, "keyed_order")
    assert body["leftAlone"]
