"""The HTTP face under bad and odd input: each route answers with a problem that says what is wrong, stores nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from engine import Channel, Deferred, Failure, Runtime, Settings, Workflow, compensate, workflow
from engine.boundary import http
from engine.ground.errors import Unavailable
from engine.store.base import Filter
from engine.store.sqlite.store import SqliteStore
from engine.store.wrapper import Call, WatchedStore

KEY = "k" * 32
UNKNOWN = "0" * 32


class Refused(Failure):
    by: str


verdict = Deferred("http.verdict", bool)
nothing = Deferred("http.nothing", None)
words = Channel("http.words", str)


@workflow
async def asks(keys: list[str]) -> list[bool]:
    return [await verdict[key] for key in keys]


@workflow
async def asks_one() -> bool:
    return await verdict


@workflow
async def plain(payload) -> Any:  # type: ignore[no-untyped-def]
    return payload


@workflow
async def fails_at_undoing() -> None:
    async def cannot() -> None:
        raise Refused(by="the undoing")

    compensate(cannot)
    raise Refused(by="the body") from ValueError("a cause")


class Down:
    """Whether the store answers."""

    is_down = False


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async def before(_: Call) -> None:
        if Down.is_down:
            raise Unavailable("no answer")

    Down.is_down = False
    store = WatchedStore(SqliteStore(":memory:"), before)
    workflows: list[Workflow[Any, Any]] = [asks, asks_one, plain, fails_at_undoing]
    runtime = Runtime(workflows, lambda: store, Settings(signing_keys=(KEY,), hold=timedelta(0)))
    yield runtime
    Down.is_down = False
    await runtime.close(timedelta(0))


def request(body: Any = b"", query: Mapping[str, str] | None = None, key: str | None = None) -> http.Request:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.Request("https://host/api/x", data, query or {}, {"idempotency-key": key} if key else {})


async def started(runtime: Runtime, name: str, body: Any = b"") -> str:
    answer = await http.start(runtime, request(body), name)
    assert answer.status == 202, answer.body
    id: str = json.loads(answer.body)["executionId"]
    return id


async def ran(runtime: Runtime, name: str, body: Any = b"") -> dict[str, Any]:
    answer = await http.start(runtime, request(body, {"wait": "20"}), name)
    described: dict[str, Any] = json.loads(answer.body)
    return described


def problem(answer: http.Response, status: int) -> dict[str, Any]:
    """The problem details of an answer, which is one."""
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    details: dict[str, Any] = json.loads(answer.body)
    assert details["status"] == status
    assert details["title"]
    assert details["detail"]
    return details


ROUTES: dict[str, Callable[[Runtime, str], Awaitable[http.Response]]] = {
    "poll": lambda runtime, id: http.poll(runtime, request(), id),
    "poll and wait": lambda runtime, id: http.poll(runtime, request(query={"wait": "1"}), id),
    "interrupt": lambda runtime, id: http.interrupt(runtime, request(), id),
    "resume": lambda runtime, id: http.resume(runtime, request(), id),
    "terminate": lambda runtime, id: http.terminate(runtime, request(), id),
    "purge": http.purge,
    "send": lambda runtime, id: http.send(runtime, request("x"), id, "http.words"),
    "deferred": lambda runtime, id: http.resolve_deferred(runtime, request(True), id, "http.verdict"),
    "token": lambda runtime, id: http.deferred_token(runtime, request(), id, "http.verdict"),
}


@pytest.mark.parametrize("route", ROUTES)
async def test_no_route_finds_what_is_not_there(runtime: Runtime, route: str) -> None:
    """404 for an id that nobody has; nothing comes into being by it."""
    problem(await ROUTES[route](runtime, UNKNOWN), 404)
    loaded = await runtime.store.load(UNKNOWN)
    assert (loaded.chunks, loaded.inbox) == ([], [])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "id", ["x", "0" * 31, "0" * 33, "G" * 32, "..", "a/b", "", "０" * 32, "\n" + "0" * 32, "é" * 600]
)
async def test_no_route_takes_a_malformed_id(runtime: Runtime, route: str, id: str) -> None:
    """H1: 400, and the field is named."""
    details = problem(await ROUTES[route](runtime, id), 400)
    assert [field["field"] for field in details["fields"]] == ["executionId"]


@pytest.mark.parametrize("route", [*ROUTES, "start", "list", "health"])
async def test_a_store_that_is_away_is_503_everywhere(runtime: Runtime, route: str) -> None:
    """With a Retry-After, and without a word of the inside."""
    id = await started(runtime, "asks_one")
    Down.is_down = True
    routes = {
        **ROUTES,
        "start": lambda runtime, _: http.start(runtime, request([]), "asks"),
        "list": lambda runtime, _: http.list_executions(runtime, request()),
        "health": lambda runtime, _: http.health(runtime),
    }
    answer = await routes[route](runtime, id)  # type: ignore[no-untyped-call]
    problem(answer, 503)
    assert answer.headers["Retry-After"] == "2"
    assert "no answer" not in answer.body


@pytest.mark.parametrize("name", ["http.verdict]", "http.verdict[\n]", "http.verdict[" + "x" * 300 + "]", "\ud800", ""])
async def test_a_name_that_no_deferred_may_have(runtime: Runtime, name: str) -> None:
    """404 like any other unknown name, for a value and for a token."""
    id = await started(runtime, "asks_one")
    problem(await http.resolve_deferred(runtime, request(True), id, name), 404)
    problem(await http.deferred_token(runtime, request(), id, name), 404)
    problem(await http.send(runtime, request("x"), id, name), 404)
    assert (await runtime.store.load(id)).inbox == []


async def test_keyed_deferreds_by_their_names(runtime: Runtime) -> None:
    """H1: any key that a workflow may use, each to its own."""
    keys = ["a/b", "a#b", "[x]", "%2F", "ü", "🙂", " "]
    id = await started(runtime, "asks", keys)
    for key in keys:
        named = request(key != "ü", {"name": f"http.verdict[{key}]"})
        answer = await http.resolve_deferred(runtime, named, id, "-")
        assert answer.status == 200
    await runtime.client.drive(id)
    polled = json.loads((await http.poll(runtime, request(), id)).body)
    assert polled["result"] == [key != "ü" for key in keys]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"limit": "x"}, "limit"),
        ({"limit": "501"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": ""}, "limit"),
        ({"limit": "9" * 5_000}, "limit"),
        ({"limit": "٣"}, "limit"),
        ({"status": "done"}, "running or complete"),
        ({"outcome": "failure"}, "terminated"),
        ({"stuck": "yes"}, "stuck"),
        ({"state": "running"}, "state"),
        ({"continuation": "x"}, "continuation"),
        ({"continuation": "[]"}, "continuation"),
        ({"continuation": "\ud800"}, "continuation"),
        ({"workflow": "\ud800"}, "workflow"),
        *(
            ({"continuation": base64.urlsafe_b64encode(text.encode()).decode()}, "continuation")
            for text in ("[]", "{}", "1", "[1, 2, 3]", '["\\ud800", "b"]', "[" * 100_000)
        ),
    ],
)
async def test_a_list_that_is_asked_for_wrongly(runtime: Runtime, query: dict[str, str], word: str) -> None:
    """4xx with the parameter's name; never an error of ours."""
    answer = await http.list_executions(runtime, request(query=query))
    assert answer.status in (400, 422)
    assert word in problem(answer, answer.status)["detail"]


@pytest.mark.parametrize("wait", ["", "x", "nan", "inf", "-1", "201", "1e9", "0x1"])
async def test_a_wait_that_is_no_number_of_seconds(runtime: Runtime, wait: str) -> None:
    """400 for polling as for starting, before anything is stored."""
    id = await started(runtime, "asks_one")
    assert "wait" in problem(await http.poll(runtime, request(query={"wait": wait}), id), 400)["detail"]
    problem(await http.start(runtime, request([], {"wait": wait}), "asks"), 400)
    assert len((await runtime.store.list(Filter(), 10)).executions) == 1


async def test_waits_that_are(runtime: Runtime) -> None:
    """None at all, and up to the end; a poll is 200 whether it has ended or not."""
    id = await started(runtime, "asks_one")
    for wait in ("0", "0.0", "1e-3"):
        answer = await http.poll(runtime, request(query={"wait": wait}), id)
        assert (answer.status, json.loads(answer.body)["status"]) == (200, "running")
    await http.resolve_deferred(runtime, request(True), id, "http.verdict")
    task = runtime.worker.start(await runtime.store.read(id))
    answer = await http.poll(runtime, request(query={"wait": "20"}), id)
    assert json.loads(answer.body)["result"] is True
    await task


@pytest.mark.parametrize(
    "body", [b"{", b"NaN", b"[Infinity]", b'{"a": -Infinity}', b"\xff", b"\xef\xbb\xbf1", b"1 2", b"'x'", b"undefined"]
)
async def test_what_is_not_json(runtime: Runtime, body: bytes) -> None:
    """400 on every route that takes a body; nothing stored."""
    id = await started(runtime, "asks_one")
    problem(await http.start(runtime, request(body), "plain"), 400)
    problem(await http.resolve_deferred(runtime, request(body), id, "http.verdict"), 400)
    problem(await http.send(runtime, request(body), id, "http.words"), 400)
    assert (await runtime.store.load(id)).inbox == []
    assert len((await runtime.store.list(Filter(), 10)).executions) == 1


@pytest.mark.parametrize("body", [b"1e400", b"-1e400", b"[1e999]", b'"\\ud800"', b'{"a": "\\udfff"}'])
async def test_json_that_would_come_back_changed_is_refused(runtime: Runtime, body: bytes) -> None:
    """K4: numbers that no float holds, halves of surrogate pairs."""
    answer = await http.start(runtime, request(body, {"wait": "20"}), "plain")
    assert answer.status in (400, 422), answer.body
    assert (await runtime.store.list(Filter(), 10)).executions == []


@pytest.mark.parametrize(
    "body", [b"null", b"0", b'""', b"[]", b"-0.0", b"123456789012345678901234567890", b'"\\u0000"']
)
async def test_json_that_is_odd_comes_back_as_it_was(runtime: Runtime, body: bytes) -> None:
    """K1, K4: null, numbers beyond 64 bits, NUL: through the store and back."""
    described = await ran(runtime, "plain", body)
    assert described["outcome"] == "completed"
    assert described["result"] == json.loads(body)


async def test_a_body_that_is_too_large_is_413_everywhere(runtime: Runtime) -> None:
    """G1: it is refused by its size, unread."""
    id, body = await started(runtime, "asks_one"), b'"' + b"x" * 1_900_000 + b'"'
    problem(await http.start(runtime, request(body), "plain"), 413)
    problem(await http.resolve_deferred(runtime, request(body), id, "http.verdict"), 413)
    problem(await http.send(runtime, request(body), id, "http.words"), 413)


async def test_a_value_that_grows_too_large_in_the_store_is_refused(runtime: Runtime) -> None:
    """G1: each quote takes two bytes more as text in a document: a 4xx with the limit, nothing stored."""
    body = json.dumps(['"' * 600_000]).encode()
    assert "1,800,000" in problem(await http.start(runtime, request(body), "plain"), 422)["detail"]
    assert (await runtime.store.list(Filter(), 10)).executions == []


async def test_a_deferreds_first_exit_is_shown_and_kept(runtime: Runtime) -> None:
    """A6: a failure that came first is shown as such; the value that came first counts after the end as well."""
    id = await started(runtime, "asks_one")
    await runtime.client.reject(id, verdict, Refused(by="Ada"))
    first = problem(await http.resolve_deferred(runtime, request(True), id, "http.verdict"), 409)["first"]
    assert (first["type"], json.loads(first["data"])) == ("Refused", {"by": "Ada"})
    id = await started(runtime, "asks_one")
    await http.resolve_deferred(runtime, request(False), id, "http.verdict")
    await runtime.client.drive(id)
    assert (await http.resolve_deferred(runtime, request(False), id, "http.verdict")).status == 200
    assert problem(await http.resolve_deferred(runtime, request(True), id, "http.verdict"), 409)["first"] is False
    problem(await http.resolve_deferred(runtime, request(True), id, "http.verdict[late]"), 409)
    assert json.loads((await http.poll(runtime, request(), id)).body)["result"] is False


async def test_a_sent_value_is_a_success_again_after_the_end(runtime: Runtime) -> None:
    """A5: who lost the answer asks again, however late; a value of its own is refused by then."""
    id = await started(runtime, "asks_one")
    assert (await http.send(runtime, request("x", key="1"), id, "http.words")).status == 202
    await http.terminate(runtime, request(), id)
    assert (await http.send(runtime, request("x", key="1"), id, "http.words")).status == 202
    problem(await http.send(runtime, request("x", key="2"), id, "http.words"), 409)
    problem(await http.send(runtime, request("x"), id, "http.words"), 409)


async def test_answers_that_repeat(runtime: Runtime) -> None:
    """A second interrupt, terminate or resume says the same; after the end interrupt and resume are too late."""
    id = await started(runtime, "asks_one")
    for route, status in (("interrupt", 202), ("resume", 202), ("terminate", 200)):
        for _ in range(2):
            answer = await ROUTES[route](runtime, id)
            assert answer.status == status, answer.body
    problem(await ROUTES["resume"](runtime, id), 409)
    assert json.loads((await http.poll(runtime, request(), id)).body)["outcome"] == "terminated"


async def test_a_failure_is_shown_with_its_cause_and_what_could_not_be_undone(runtime: Runtime) -> None:
    """Type, fields and cause; the compensation's own failure beside it; no traceback."""
    described = await ran(runtime, "fails_at_undoing")
    assert described["outcome"] == "failed"
    assert described["error"]["data"] == {"by": "the body"}
    assert described["error"]["cause"] == {"type": "ValueError", "message": "a cause"}
    assert [error["data"] for error in described["compensationErrors"]] == [{"by": "the undoing"}]
    assert "File " not in json.dumps(described)


class Change(BaseModel):
    name: str | None = None
    age: int | None = None


@workflow
async def keeps_what_was_given(change: Change) -> Change:
    assert change.model_fields_set == {"name"}
    return change


async def test_a_field_that_was_not_sent_stays_unset() -> None:
    """N4: a payload over HTTP; the answer is plain JSON."""
    runtime = Runtime([keeps_what_was_given], lambda: SqliteStore(":memory:"), Settings())
    try:
        request = http.Request("http://host/api", b'{"name": "Ann"}', {"wait": "5"}, {})
        answer = await http.start(runtime, request, "keeps_what_was_given")
        assert json.loads(answer.body)["result"] == {"name": "Ann", "age": None}
    finally:
        await runtime.close()
