"""The Functions app itself, given what the platform's worker gives it: requests, feed batches, the timer."""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import azure.functions as func
import pytest
from azure.functions.meta import Datum
from azure.functions.timer import TimerRequest

ORDER = {
    "id": "order-7",
    "customer": "Ada",
    "amount": "12.50",
    "items": [{"sku": "lamp", "quantity": 1}, {"sku": "chair", "quantity": 4}],
}


class Hints(func.Out[list[str]]):
    """Takes no hint: whatever these tests start ends, or parks, within its batch."""

    def set(self, val: list[str]) -> None:
        raise AssertionError(val)

    def get(self) -> list[str]:
        return []


class App:
    """A fresh import of function_app over files of its own, called as the platform calls it."""

    def __init__(self, module: Any, folder: Path) -> None:
        self.module = module
        self.functions: dict[str, Callable[..., Any]] = {}
        self.triggers: dict[str, dict[str, Any]] = {}
        for function in module.app.get_functions():
            self.functions[function.get_function_name()] = function.get_user_function()
            self.triggers[function.get_function_name()] = function.get_trigger().get_dict_repr()
        self._folder = folder
        self._seen = 0

    async def call(
        self, function: str, body: Any = None, query: dict[str, str] | None = None, /, **route: str
    ) -> tuple[int, Any, dict[str, str]]:
        """An HTTP function's answer: status, JSON, headers."""
        path = self.triggers[function]["route"].format(**route)
        answer = await self.functions[function](
            func.HttpRequest(
                method=self.triggers[function]["methods"][0],
                url=f"https://app.example/api/{path}",
                headers={"host": "app.example"},
                params=query or {},
                route_params=route,
                body=b"" if body is None else json.dumps(body).encode(),
            )
        )
        assert isinstance(answer, func.HttpResponse)
        text = answer.get_body().decode()
        assert answer.mimetype in ("application/json", "application/problem+json")
        return answer.status_code, json.loads(text) if text else None, dict(answer.headers)

    async def feed(self) -> int:
        """Hand over what changed since the last time, as the change feed does: the latest version of each document.
        Returns how many these were."""
        with closing(sqlite3.connect(self._folder / "store.sqlite")) as db:
            query = "SELECT body, seq FROM documents WHERE seq > ? ORDER BY seq"
            rows = db.execute(query, (self._seen,)).fetchall()
        documents = [json.loads(body) | {"_rid": "r", "_ts": 1, "_lsn": seq, "_self": "s"} for body, seq in rows]
        if documents:
            self._seen = rows[-1][1]
            decoder = func.get_binding_registry().get("cosmosDBTrigger")  # type: ignore[no-untyped-call]
            batch = decoder.decode(Datum(json.dumps(documents), "json"), trigger_metadata={})
            assert await self.functions["drive_changes"](batch, Hints()) is None
        return len(documents)

    async def settle(self) -> None:
        while await self.feed():
            pass

    def effects(self) -> list[tuple[str, str]]:
        """What the activities did to the outside: (execution, step)."""
        with closing(sqlite3.connect(self._folder / "ledger.sqlite")) as db:
            return db.execute("SELECT execution, step FROM effects ORDER BY rowid").fetchall()


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    monkeypatch.setenv("ENGINE_SQLITE_FILE", str(tmp_path / "store.sqlite"))
    monkeypatch.setenv("LEDGER_FILE", str(tmp_path / "ledger.sqlite"))
    for name in ("COSMOS", "COSMOS__accountEndpoint", "ENGINE_SIGNING_KEY"):
        monkeypatch.delenv(name, raising=False)
    sys.modules.pop("function_app", None)
    module = importlib.import_module("function_app")
    yield App(module, tmp_path)
    await module.runtime.close(timedelta(0))
    sys.modules.pop("function_app", None)


async def test_an_order_from_start_to_end(app: App) -> None:
    """Started over HTTP, driven by the feed, approved over HTTP, shipped: each side effect once, the receipt whole."""
    status, body, headers = await app.call("start", ORDER, name="fulfil")
    id = body["executionId"]
    assert status == 202
    assert urlsplit(headers["Location"]).path == f"/api/executions/{id}"
    await app.settle()
    _, body, _ = await app.call("poll", id=id)
    assert body["suspended"]
    _, found, _ = await app.call("poll_by_key", None, {"key": str(ORDER["id"])}, name="fulfil")
    assert found["executionId"] == id
    status, again, _ = await app.call("start", ORDER, name="fulfil")
    assert (status, again["executionId"]) == (202, id)
    answer = {"approved": True, "by": "Grace"}
    status, _, _ = await app.call("resolve_deferred", answer, id=id, name="approval")
    assert status == 200
    await app.settle()
    status, body, _ = await app.call("poll", id=id)
    assert (status, body["outcome"]) == (200, "completed")
    assert body["result"]["approved_by"] == "Grace"
    assert [parcel["sku"] for parcel in body["result"]["parcels"]] == ["lamp", "chair"]
    assert app.effects() == [(id, step) for step in ("charge", "reserve", "ship", "ship#2")]
    status, again, _ = await app.call("start", ORDER, name="fulfil")
    assert (status, again["result"]) == (200, body["result"])


async def test_the_timer_alone_brings_an_order_to_its_wait(app: App) -> None:
    """L1: the feed delivers nothing at all. The sweep looks at what is new after a while, so its due time is moved."""
    _, body, _ = await app.call("start", ORDER, name="fulfil")
    id = body["executionId"]
    store = app.module.runtime.store
    execution = await store.read(id)
    await store.replace(execution.model_copy(update={"due_at": execution.created_at}))
    assert await app.functions["sweep"](TimerRequest(past_due=False, schedule_status={}, schedule={}), Hints()) is None
    assert (await app.call("poll", id=id))[1]["suspended"]
    assert app.effects() == [(id, "charge"), (id, "reserve")]


async def test_a_start_that_waits_runs_in_the_request(app: App) -> None:
    """?wait= drives the execution here; what the feed says of it later changes nothing."""
    batch = {"night": "2026-01-01", "documents": ["a-b", "c.broken"]}
    status, body, _ = await app.call("start", batch, {"wait": "20"}, name="digest_documents")
    assert (status, body["result"]["done"], list(body["result"]["unreadable"])) == (200, 1, ["c.broken"])
    effects = app.effects()
    await app.settle()
    assert app.effects() == effects


async def test_every_other_route(app: App) -> None:
    """Interrupt, resume, terminate, list, purge, and a value for a channel that nobody declares."""
    ids = []
    for number in range(2):
        _, body, _ = await app.call("start", ORDER | {"id": f"order-{number}"}, name="fulfil")
        ids.append(body["executionId"])
    await app.settle()
    assert (await app.call("resume", id=ids[0]))[0] == 202
    assert (await app.call("send", 1, id=ids[0], name="nobody"))[0] == 404
    assert (await app.call("purge", id=ids[0]))[0] == 409
    assert (await app.call("interrupt", id=ids[0]))[0] == 202
    assert (await app.call("terminate", id=ids[1]))[0] == 200
    await app.settle()
    _, listed, _ = await app.call("list_executions", None, {"workflow": "fulfil"})
    assert {e["executionId"]: e["outcome"] for e in listed["executions"]} == dict(
        zip(ids, ("interrupted", "terminated"), strict=True)
    )
    for id in ids:
        assert (await app.call("purge", id=id))[:2] == (204, None)
        assert (await app.call("poll", id=id))[0] == 404


def test_what_the_platform_reads_of_the_app(app: App) -> None:
    """Routes, the feed's binding, the timer, the queue: names of settings, never their values."""
    feed = app.triggers["drive_changes"]
    assert feed["connection"] == "COSMOS"
    assert feed["containerName"] == "%COSMOS_CONTAINER%"
    assert feed["startFromBeginning"] is True
    assert app.triggers["sweep"]["schedule"] == "*/10 * * * * *"
    routes = [trigger["route"] for trigger in app.triggers.values() if trigger["type"] == "httpTrigger"]
    assert len(routes) == len(app.triggers) - 3
    assert app.triggers["drive_one"]["queueName"] == "hints"
    levels = {name: str(t["authLevel"]) for name, t in app.triggers.items() if t["type"] == "httpTrigger"}
    open = {name for name, level in levels.items() if "FUNCTION" not in level.upper()}
    assert open == {"resolve_by_token", "show_page", "show_file"}
