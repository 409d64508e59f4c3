"""The HTTP face: every route, and bad input refused with a problem that names it, with nothing stored."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, Field

from engine import Channel, Deferred, Failure, Runtime, Settings, workflow
from engine.boundary import http
from engine.store.base import Filter
from engine.store.sqlite.store import SqliteStore
from tests.support.crashes import echo

KEY = "k" * 32


class Size(BaseModel):
    width: int = Field(ge=1)


class Refused(Failure):
    reason: str


yes = Deferred("face.yes", bool)
words = Channel("face.words", str)


@workflow(idempotency_key=lambda size: str(size.width))
async def measure(size: Size) -> list[str]:
    if size.width == 13:
        raise Refused(reason="unlucky")
    return [await echo(str(size.width))]


@workflow
async def asks() -> bool:
    return await yes


@workflow
async def listens() -> str:
    return await words.receive() + await words.receive()


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    store = SqliteStore(":memory:")
    runtime = Runtime([measure, asks, listens], lambda: store, Settings(signing_keys=(KEY,)))
    yield runtime
    await runtime.close(timedelta(0))


def request(
    path: str, body: Any = b"", query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> http.Request:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.Request(f"https://host/api/{path}", data, query or {}, headers or {})


async def begun(runtime: Runtime, name: str, body: Any = b"") -> str:
    answer = await http.start(runtime, request(f"workflows/{name}", body), name)
    assert answer.status == 202, answer.body
    id: str = json.loads(answer.body)["executionId"]
    return id


async def test_start_and_poll(runtime: Runtime) -> None:
    """202 with the place to ask at; driven by whoever drives; then the result."""
    answer = await http.start(runtime, request("workflows/measure", {"width": 3}), "measure")
    body = json.loads(answer.body)
    assert answer.status == 202
    assert answer.headers["Location"] == body["links"]["self"] == f"https://host/api/executions/{body['executionId']}"
    assert "Retry-After" in answer.headers
    await runtime.worker.sweep()
    await runtime.client.drive(body["executionId"])
    polled = await http.poll(runtime, request(f"executions/{body['executionId']}"), body["executionId"])
    assert polled.status == 200
    assert json.loads(polled.body)["result"] == ["3"]


async def test_start_that_waits_drives_it_and_answers_with_the_result(runtime: Runtime) -> None:
    """?wait=: 200 with the result; the same start again answers at once, and runs nothing."""
    for _ in range(2):
        answer = await http.start(runtime, request("workflows/measure", {"width": 4}, {"wait": "5"}), "measure")
        assert answer.status == 200
        assert json.loads(answer.body)["result"] == ["4"]
    failed = await http.start(runtime, request("workflows/measure", {"width": 13}, {"wait": "5"}), "measure")
    body = json.loads(failed.body)
    assert body["outcome"] == "failed"
    assert body["error"]["type"] == "Refused"
    assert body["error"]["data"] == {"reason": "unlucky"}


@pytest.mark.parametrize(
    ("name", "body", "query", "status", "says"),
    [
        ("nobody", {"width": 1}, {}, 404, "measure"),
        ("measure", {"width": 0}, {}, 422, "width"),
        ("measure", {"height": 1}, {}, 422, "width"),
        ("measure", b"", {}, 422, "payload"),
        ("measure", b"[" * 100_000, {}, 400, "JSON"),
        ("measure", b'"' + b"x" * 2_000_000 + b'"', {}, 413, "2,000,002"),
        ("asks", {"width": 1}, {}, 422, "no payload"),
    ],
)
async def test_a_bad_start_is_refused_and_stores_nothing(
    runtime: Runtime, name: str, body: Any, query: dict[str, str], status: int, says: str
) -> None:
    answer = await http.start(runtime, request(f"workflows/{name}", body, query), name)
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert says in answer.body
    assert (await runtime.store.list(Filter(), 10)).executions == []


@pytest.mark.parametrize("key", ["a/b", "a%2Fb", "a\\b", "?#", "..", " a b+|", "😀", "\u00e9", "e\u0301", "x" * 5_000])
async def test_any_idempotency_key_will_do(runtime: Runtime, key: str) -> None:
    """H1: keys are hashed; all verbs work on what they name, and two keys are two executions."""
    headers = {"idempotency-key": key}
    first = await http.start(runtime, request("workflows/asks", b"", None, headers), "asks")
    again = await http.start(runtime, request("workflows/asks", b"", None, headers), "asks")
    other = await http.start(runtime, request("workflows/asks", b"", None, {"idempotency-key": f"{key}!"}), "asks")
    ids = [json.loads(answer.body)["executionId"] for answer in (first, again, other)]
    assert ids[0] == ids[1] != ids[2]


async def test_a_deferred_is_completed_once(runtime: Runtime) -> None:
    """200; the same again 200; another value 409 with the first; after the end 409 or the same."""
    id = await begun(runtime, "asks")
    path = f"executions/{id}/deferreds/face.yes"
    for body, status in ((True, 200), (True, 200), (False, 409)):
        answer = await http.resolve_deferred(runtime, request(path, body), id, "face.yes")
        assert answer.status == status, answer.body
    assert json.loads(answer.body)["first"] is True
    await runtime.client.drive(id)
    assert json.loads((await http.poll(runtime, request(path), id)).body)["result"] is True


async def test_bad_values_for_a_deferred(runtime: Runtime) -> None:
    """Wrong type 422, unknown name 404, unknown execution 404, malformed id 400: nothing stored."""
    id = await begun(runtime, "asks")
    for body, target, name, status in (
        ("maybe", id, "face.yes", 422),
        (True, id, "face.no", 404),
        (True, "0" * 32, "face.yes", 404),
        (True, "no id", "face.yes", 400),
        (b"{", id, "face.yes", 400),
    ):
        answer = await http.resolve_deferred(
            runtime, request(f"executions/{target}/deferreds/{name}", body), target, name
        )
        assert answer.status == status, answer.body
    assert (await runtime.store.load(id)).inbox == []


async def test_a_finished_execution_takes_no_more(runtime: Runtime) -> None:
    """409 for a deferred, a channel's value, an interrupt, resume and terminate; purge makes it 404."""
    done = await http.start(runtime, request("workflows/measure", {"width": 5}, {"wait": "5"}), "measure")
    id = json.loads(done.body)["executionId"]
    to = request(f"executions/{id}", True)
    assert (await http.resolve_deferred(runtime, to, id, "face.yes")).status == 409
    assert (await http.send(runtime, request(f"executions/{id}", "x"), id, "face.words")).status == 409
    assert (await http.interrupt(runtime, request(f"executions/{id}"), id)).status == 409
    assert (await http.resume(runtime, to, id)).status == 409
    assert (await http.terminate(runtime, to, id)).status == 409
    assert (await http.purge(runtime, id)).status == 204
    assert (await http.poll(runtime, to, id)).status == 404


async def test_interrupt_terminate_list_and_purge(runtime: Runtime) -> None:
    """Accepted is 202; a running execution isn't purged; the list shows what there is."""
    first, second = await begun(runtime, "asks"), await begun(runtime, "listens")
    to = request(f"executions/{first}")
    assert (await http.interrupt(runtime, to, first)).status == 202
    assert (await http.purge(runtime, first)).status == 409
    await runtime.client.drive(first)
    assert json.loads((await http.poll(runtime, to, first)).body)["outcome"] == "interrupted"
    assert (await http.terminate(runtime, to, second)).status == 200
    listed = json.loads((await http.list_executions(runtime, request("executions", query={"limit": "1"}))).body)
    assert re.fullmatch("[A-Za-z0-9_-]+", listed["continuation"]), "it has to be quoted in an URL"
    rest = {"limit": "1", "continuation": listed["continuation"]}
    more = json.loads((await http.list_executions(runtime, request("executions", query=rest))).body)
    outcomes = {e["executionId"]: e["outcome"] for e in listed["executions"] + more["executions"]}
    assert outcomes == {first: "interrupted", second: "terminated"}
    assert (await http.list_executions(runtime, request("executions", query={"limit": "0"}))).status == 400


async def test_channel_values_are_sent_once_each(runtime: Runtime) -> None:
    id = await begun(runtime, "listens")
    for word, key in (("a", "1"), ("a", "1"), ("b", "2")):
        answer = await http.send(
            runtime, request(f"executions/{id}", word, None, {"idempotency-key": key}), id, "face.words"
        )
        assert answer.status == 202
    await runtime.client.drive(id)
    assert (await runtime.client.status(id)).value() == "ab"


async def test_a_signed_token_completes_its_deferred_alone(runtime: Runtime) -> None:
    """The address answers without a key of the app; a forged token is refused."""
    id = await begun(runtime, "asks")
    given = await http.deferred_token(runtime, request(f"executions/{id}/deferreds/face.yes/token"), id, "face.yes")
    token = json.loads(given.body)["token"]
    assert json.loads(given.body)["url"] == f"https://host/api/deferreds/{token}"
    forged = await http.resolve_by_token(runtime, request("deferreds/x", True), token[:-2] + "xx")
    assert forged.status == 400
    assert (await http.resolve_by_token(runtime, request("deferreds/x", True), token)).status == 204
    await runtime.client.drive(id)
    assert (await runtime.client.status(id)).value() is True
