"""HTTP triggers over a real server on loopback."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from devhost.http import MAX_BODY_BYTES, HttpFront
from devhost.invoke import Invoker
from tests.devhost.support import FakeClock, load_app

Client = TestClient[web.Request, web.Application]
Serve = Callable[..., Awaitable[Client]]

ECHO = """
import json
@app.route(route="echo/{name?}", auth_level="anonymous")
async def echo(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse(json.dumps({
        "method": req.method,
        "url": req.url,
        "headers": dict(req.headers),
        "params": dict(req.params),
        "route_params": dict(req.route_params),
        "body": req.get_body().decode("latin-1"),
    }), mimetype="application/json")
"""


@pytest.fixture
async def serve(app_path: Path, clock: FakeClock) -> AsyncIterator[Serve]:
    """Serves the app of a source text, by default without asking for keys."""
    clients: list[Client] = []
    invoker = Invoker(clock, 60)

    async def serve(source: str, prefix: str = "api", key: str | None = None) -> Client:
        front = HttpFront(load_app(app_path, source).functions, prefix, key, invoker)
        client: Client = TestClient(TestServer(front.application()))
        client.front = front  # type: ignore[attr-defined]
        await client.start_server()
        clients.append(client)
        return client

    yield serve
    for client in clients:
        await client.close()
    invoker.close()


async def echo(client: Client, method: str, path: str, **options: object) -> dict[str, object]:
    response = await client.request(method, path, **options)  # type: ignore[arg-type]
    assert response.status == 200
    answer: dict[str, object] = await response.json()
    return answer


async def test_what_a_function_is_given(serve: Serve) -> None:
    client = await serve(ECHO)
    url = "/api/echo/a%20b?x=1&y=2&x=3&X=4&empty=&z=%C3%A9"
    headers = [("X-Some", "one"), ("X-Some", "two"), ("Content-Type", "text/plain")]
    seen = await echo(client, "POST", url, data=b"\x00\xff", headers=headers)
    assert seen["method"] == "POST"
    assert str(seen["url"]).endswith(url)
    assert str(seen["url"]).startswith("http://127.0.0.1:")
    assert seen["params"] == {"x": "1,3,4", "y": "2", "z": "é"}
    assert seen["route_params"] == {"name": "a b"}
    assert seen["body"] == "\x00\xff"
    got = seen["headers"]
    assert isinstance(got, dict)
    assert got["x-some"] == "one,two"
    assert all(name == name.lower() for name in got)


async def test_no_body_is_no_bytes(serve: Serve) -> None:
    seen = await echo(await serve(ECHO), "GET", "/api/echo")
    assert (seen["body"], seen["params"], seen["route_params"]) == ("", {}, {})


async def test_an_escaped_slash_in_a_path_stays_escaped(serve: Serve) -> None:
    client = await serve(ECHO)
    server = client.server
    assert isinstance(server, TestServer)
    # Sent by hand: clients like to normalise paths.
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /api/echo/a%2Fb%C3%A9%7E HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert b'"name": "a%2Fb\\u00e9~"' in answer
    assert b'"url": "http://here/api/echo/a%2Fb%C3%A9%7E"' in answer


@pytest.mark.parametrize(
    ("expression", "status", "content_type", "body"),
    [
        ("'text'", 200, "text/plain; charset=utf-8", b"text"),
        ("func.HttpResponse('é')", 200, "text/plain; charset=utf-8", "é".encode()),
        ("func.HttpResponse('é', charset='latin-1')", 200, "text/plain; charset=latin-1", b"\xe9"),
        ("func.HttpResponse('{}', status_code=202, mimetype='application/json')", 202, "application/json", b"{}"),
        ("func.HttpResponse(b'x', headers={'Content-Type': 'image/x'})", 200, "image/x", b"x"),
        ("func.HttpResponse(status_code=404)", 404, "text/plain; charset=utf-8", b""),
        ("func.HttpResponse('x', status_code=204)", 204, "text/plain; charset=utf-8", b""),
        ("func.HttpResponse('x', headers={'Content-Length': '99'})", 200, "text/plain; charset=utf-8", b"x"),
        ("None", 500, None, b""),
        ("{'a': 1}", 500, None, b""),
        ("b'bytes'", 500, None, b""),
        ("1 / 0", 500, None, b""),
        ("func.HttpResponse('x', headers={'a': 'b\\r\\nc: d'})", 500, None, b""),
        ("func.HttpResponse(status_code='odd')", 500, None, b""),
    ],
)
@pytest.mark.parametrize("kind", ["async def", "def"])
async def test_what_a_function_returns(
    serve: Serve, kind: str, expression: str, status: int, content_type: str | None, body: bytes
) -> None:
    client = await serve(f"@app.route(route='f')\n{kind} f(req: func.HttpRequest):\n    return {expression}")
    response = await client.get("/api/f")
    assert (response.status, await response.read()) == (status, body)
    if content_type is not None:
        assert response.headers["Content-Type"] == content_type


async def test_a_failure_is_logged_with_its_traceback(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    client = await serve("@app.route(route='f')\ndef f(req):\n    raise ValueError('bad request')")
    assert (await client.get("/api/f?x=1")).status == 500
    assert "HTTP function f failed: GET /api/f" in caplog.text
    assert "ValueError: bad request" in caplog.text
    assert "Traceback" in caplog.text


async def test_headers_and_cookies_of_a_response(serve: Serve) -> None:
    source = """
    @app.route(route='f')
    def f(req):
        response = func.HttpResponse('x', headers={'Location': '/here', 'X-Odd': 'é'})
        response.headers.add('Set-Cookie', 'a=1; Path=/')
        response.headers.add('Set-Cookie', 'b=2')
        return response
    """
    response = await (await serve(source)).get("/api/f")
    assert response.headers["Location"] == "/here"
    assert response.headers["X-Odd"] == "é"
    assert response.headers.getall("Set-Cookie") == ["a=1; Path=/", "b=2"]


async def test_a_function_without_a_return_binding_answers_with_no_content(serve: Serve) -> None:
    source = """
    @app.generic_trigger(arg_name='req', type='httpTrigger', route='f', authLevel='anonymous')
    def f(req) -> None: ...
    """
    assert (await (await serve(source)).get("/api/f")).status == 204


async def test_routes_and_methods(serve: Serve) -> None:
    source = """
    @app.route(route='things/{id}', methods=['GET'])
    def one(req): return 'one ' + req.route_params['id']
    @app.route(route='things/all', methods=['GET'])
    def all(req): return 'all'
    @app.route(methods=['POST'])
    def Named(req): return 'named'
    """
    client = await serve(source)

    async def get(method: str, path: str) -> tuple[int, str]:
        response = await client.request(method, path)
        return response.status, await response.text()

    assert await get("GET", "/api/things/7") == (200, "one 7")
    assert await get("GET", "/api/things/all") == (200, "all")
    assert await get("GET", "/API/Things/7/") == (200, "one 7")
    assert await get("POST", "/api/named") == (200, "named")
    for method, path in (("POST", "/api/things/7"), ("GET", "/things/7"), ("GET", "/api/nothing"), ("GET", "/")):
        assert await get(method, path) == (404, "")


async def test_a_prefix_of_ones_own_and_none(serve: Serve) -> None:
    source = "@app.route(route='f')\ndef f(req): return 'f'"
    assert (await (await serve(source, prefix="v1/x")).get("/v1/x/f")).status == 200
    assert (await (await serve(source, prefix="")).get("/f")).status == 200


async def test_keys(serve: Serve) -> None:
    source = """
    @app.route(route='open', auth_level='anonymous')
    def open(req): return 'open'
    @app.route(route='closed', auth_level='function')
    def closed(req): return 'closed'
    @app.route(route='admin', auth_level='admin')
    def admin(req): return 'admin'
    """
    client = await serve(source, key="sesame")
    assert (await client.get("/api/open")).status == 200
    for path in ("/api/closed", "/api/admin"):
        assert (await client.get(path)).status == 401
        assert (await client.get(path + "?code=wrong")).status == 401
        assert (await client.get(path + "?code=%C3%A9")).status == 401
        assert (await client.get(path, headers={"x-functions-key": "wrong"})).status == 401
        assert (await client.get(path + "?code=sesame")).status == 200
        assert (await client.get(path, headers={"X-Functions-Key": "sesame"})).status == 200
    assert (await client.get("/api/nothing")).status == 404

    unlocked = await serve(source, key=None)
    assert (await unlocked.get("/api/closed")).status == 200


async def test_large_bodies_reach_the_app_and_too_large_ones_do_not(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_BODY_BYTES == 100 * 1024 * 1024
    source = "@app.route(route='f')\ndef f(req): return str(len(req.get_body()))"
    client = await serve(source)
    response = await client.post("/api/f", data=io.BytesIO(bytes(3_000_000)))
    assert (response.status, await response.text()) == (200, "3000000")

    monkeypatch.setattr("devhost.http.MAX_BODY_BYTES", 1000)
    client = await serve(source)
    assert (await client.post("/api/f", data=bytes(1000))).status == 200
    assert (await client.post("/api/f", data=bytes(1001))).status == 413


async def test_the_status_is_there_and_ends_with_the_host(serve: Serve) -> None:
    client = await serve("@app.route(route='f')\ndef f(req): return 'f'", key="k")
    response = await client.get("/admin/host/status")
    assert (response.status, await response.json()) == (200, {"state": "Running"})
    client.front.stop()  # type: ignore[attr-defined]
    assert (await client.get("/admin/host/status")).status == 503
    assert (await client.get("/api/f?code=k")).status == 503


async def test_requests_are_served_beside_each_other(serve: Serve) -> None:
    source = """
    import asyncio
    gate = asyncio.Event()
    @app.route(route='wait')
    async def wait(req):
        await gate.wait()
        return 'waited'
    @app.route(route='open')
    async def open(req):
        gate.set()
        return 'opened'
    """
    client = await serve(source)
    waiting = asyncio.ensure_future(client.get("/api/wait"))
    opened = await client.get("/api/open")
    waited = await waiting
    assert (await opened.text(), await waited.text()) == ("opened", "waited")
