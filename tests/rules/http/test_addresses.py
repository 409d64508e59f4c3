"""N19: the addresses in `Location`, links and token URLs are those that callers reach, and only settings say which."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from engine import Deferred, Runtime, Settings, workflow
from engine.boundary import http, openapi
from engine.boundary.addresses import api_address
from engine.boundary.answers import Request
from engine.store.sqlite.store import SqliteStore

addressed_answer = Deferred("addressed.answer", bool)

ID = "0" * 32
KEY = "k" * 32
FORGED = {
    "x-forwarded-host": "evil.example",
    "x-forwarded-proto": "http",
    "x-forwarded-port": "8443",
    "x-forwarded-prefix": "/evil",
    "forwarded": "host=evil.example;proto=http",
    "x-original-host": "evil.example",
    "host": "evil.example",
}


@workflow
async def addressed() -> bool:
    return await addressed_answer


async def addresses(settings: Settings, headers: dict[str, str]) -> set[str]:
    """Where every address that a caller is given begins."""
    runtime = Runtime([addressed], lambda: SqliteStore(":memory:"), settings)
    try:
        place = "https://inner.azurewebsites.net/api"
        answer = await http.start(runtime, Request(f"{place}/workflows/addressed", headers=headers), "addressed")
        body = json.loads(answer.body)
        id = body["executionId"]
        one = f"{place}/executions/{id}"
        found = {answer.headers["Location"], *body["links"].values()}
        found |= set(json.loads((await http.poll(runtime, Request(one, headers=headers), id)).body)["links"].values())
        token = Request(f"{one}/deferreds/addressed.answer/token", headers=headers)
        found.add(json.loads((await http.deferred_token(runtime, token, id, "addressed.answer")).body)["url"])
        described = await openapi.openapi(runtime, Request(f"{place}/openapi.json", headers=headers))
        found.add(json.loads(described.body)["servers"][0]["url"] + "/executions")
        return {address.partition("/executions")[0].partition("/deferreds/")[0] for address in found}
    finally:
        await runtime.close(timedelta(0))


async def test_nobody_else_names_the_address() -> None:
    """N19: without a setting it is the request's own, whatever its headers say."""
    settings = Settings(signing_keys=(KEY,))
    assert await addresses(settings, FORGED) == {"https://inner.azurewebsites.net/api"}


@pytest.mark.parametrize("trusts", [False, True])
async def test_the_public_address_stands_everywhere(trusts: bool) -> None:
    """N19: in each address of each answer, and before what a header says."""
    environment = {"ENGINE_PUBLIC_URL": "https://orders.example.com/flows/", "ENGINE_SIGNING_KEY": KEY}
    environment |= {"ENGINE_TRUST_FORWARDED": "true"} if trusts else {}
    assert await addresses(Settings.from_environment(environment), FORGED) == {"https://orders.example.com/flows"}


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        ({}, "http://inner:7071/api"),
        ({"host": "orders.example.com"}, "https://orders.example.com/api"),
        ({"host": "orders.example.com", "proto": "http"}, "http://orders.example.com/api"),
        ({"host": "orders.example.com:8443"}, "https://orders.example.com:8443/api"),
        ({"host": "orders.example.com", "port": "8443"}, "https://orders.example.com:8443/api"),
        ({"host": "orders.example.com", "port": "443"}, "https://orders.example.com/api"),
        ({"host": "orders.example.com", "prefix": "/flows/"}, "https://orders.example.com/flows/api"),
        ({"host": "orders.example.com, inner, other"}, "https://orders.example.com/api"),
        ({"host": "[::1]:80"}, "https://[::1]:80/api"),
        ({"host": "evil.example/x?"}, "https://inner:7071/api"),
        ({"host": "a@evil.example"}, "https://inner:7071/api"),
        ({"host": 'x"><script>'}, "https://inner:7071/api"),
        ({"host": ""}, "https://inner:7071/api"),
        ({"host": "orders.example.com", "proto": "javascript"}, "http://orders.example.com/api"),
        ({"host": "orders.example.com", "prefix": "//evil.example"}, "https://orders.example.com/api"),
    ],
)
def test_trusted_headers_tell_the_address(headers: dict[str, str], address: str) -> None:
    """N19: scheme, host, port and prefix, the first of several; what makes no sense is passed over."""
    sent = {"proto": "https"} | headers if headers else {}
    request = Request(
        f"http://inner:7071/api/executions/{ID}?wait=1", headers={f"x-forwarded-{k}": v for k, v in sent.items()}
    )
    assert api_address(request, Settings(trust_forwarded=True)) == address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (f"https://executions/api/executions/{ID}", "https://executions/api"),
        (f"https://x/workflows/api/executions/{ID}/deferreds/a/token", "https://x/workflows/api"),
        ("https://x/executions/api/workflows/sell?wait=3", "https://x/executions/api"),
        ("https://x/api/workflows/sell/executions?key=a/executions/b", "https://x/api"),
        ("https://x/workflows/workflows", "https://x"),
        (f"https://x/executions/{ID}/interrupt", "https://x"),
    ],
)
def test_a_host_or_prefix_may_be_named_as_a_route(url: str, address: str) -> None:
    """N19: the address ends where the route begins."""
    assert api_address(Request(url), Settings()) == address


@pytest.mark.parametrize(
    "text",
    [
        "orders.example.com/api",
        "ftp://x/api",
        "https://",
        "https://x/api?a=b",
        "https://x/#a",
        "https://u:p@x/api",
        "/api",
        "https://x:port/api",
        "https://x y/api",
    ],
)
def test_a_public_address_that_is_none_is_refused(text: str) -> None:
    """N19: where the app starts, with an example of one."""
    with pytest.raises(ValueError, match=r"ENGINE_PUBLIC_URL .* such as https://orders\.example\.com/api"):
        Settings.from_environment({"ENGINE_PUBLIC_URL": text})


@pytest.mark.parametrize(("text", "trusts"), [("", False), ("true", True), ("True", True), ("false", False)])
def test_trust_is_said_in_a_word(text: str, trusts: bool) -> None:
    """N19: true or false; anything else is refused."""
    assert Settings.from_environment({"ENGINE_TRUST_FORWARDED": text}).trust_forwarded is trusts
    with pytest.raises(ValueError, match="ENGINE_TRUST_FORWARDED must be true, false or empty, not 'yes'"):
        Settings.from_environment({"ENGINE_TRUST_FORWARDED": "yes"})
