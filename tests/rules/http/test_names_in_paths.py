"""Names that a path can't carry: sent in the query, or refused with the way to send them."""

from __future__ import annotations

import json

import pytest

from engine import Channel, Deferred, Runtime, Settings, workflow
from engine.boundary import http
from engine.store.sqlite.store import SqliteStore

vote = Deferred("paths.vote", str)
notes = Channel("paths/notes", str)


@workflow
async def votes() -> list[str]:
    return [await vote["a/b"], await notes.receive()]


@pytest.mark.parametrize("in_path", ["paths.vote[a%2Fb]", "paths.vote[a%2fb]", "paths.vote[a/b]"])
async def test_a_name_with_a_slash_arrives_or_is_refused(in_path: str) -> None:
    """N12: the platform hands a path over with its `%2F` as it is."""
    runtime = Runtime([votes], lambda: SqliteStore(":memory:"), Settings())

    def request(body: bytes = b"", **query: str) -> http.Request:
        return http.Request("http://host/api", body, query, {})

    try:
        started = await http.start(runtime, request(), "votes")
        id = json.loads(started.body)["executionId"]
        refused = await http.resolve_deferred(runtime, request(b'"yes"'), id, in_path)
        assert refused.status == 400
        assert "?name=" in json.loads(refused.body)["detail"]
        taken = await http.resolve_deferred(runtime, request(b'"yes"', name="paths.vote[a/b]"), id, "-")
        assert taken.status == 200
        assert (await http.send(runtime, request(b'"n"', name="paths/notes"), id, "-")).status == 202
        await runtime.worker.drive(await runtime.store.read(id))
        assert json.loads((await http.poll(runtime, request(), id)).body)["result"] == ["yes", "n"]
    finally:
        await runtime.close()
