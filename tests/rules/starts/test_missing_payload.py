"""A payload that isn't given is the parameter's default; None is a payload like any other."""

from __future__ import annotations

import json

import pytest

from engine import InvalidInput, Runtime, Settings, workflow
from engine.boundary import http
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment


@workflow
async def page(limit: int | None = 50) -> str:
    return str(limit)


@workflow
async def asks_for_pages() -> list[str]:
    return [await page(), await page(None), await page(7)]


@workflow
async def needs(order: dict[str, int]) -> int:
    return len(order)


async def test_none_is_given_on_to_a_child() -> None:
    """N13."""
    async with Environment([page, asks_for_pages]) as env:
        assert (await env.run(asks_for_pages)).value() == ["50", "None", "7"]
        assert (await env.run(page)).value() == "50"
        assert (await env.run(page, None)).value() == "None"


@pytest.mark.parametrize(("body", "result"), [(b"", "50"), (b"null", "None"), (b"7", "7")])
async def test_null_is_a_payload_over_http(body: bytes, result: str) -> None:
    """N13."""
    runtime = Runtime([page], lambda: SqliteStore(":memory:"), Settings())
    try:
        answer = await http.start(runtime, http.Request("http://host/api", body, {"wait": "5"}, {}), "page")
        assert json.loads(answer.body)["result"] == result
    finally:
        await runtime.close()


async def test_a_payload_that_is_needed_and_missing_is_said_to_be() -> None:
    """P10: in the words that HTTP uses."""
    async with Environment([needs]) as env:
        with pytest.raises(InvalidInput, match="workflow needs needs a payload"):
            await env.start(needs)  # type: ignore[arg-type]
