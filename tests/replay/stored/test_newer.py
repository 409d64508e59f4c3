"""What a later version wrote: fields that this one doesn't know survive it, and what it can't read it leaves alone."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine import Deferred, workflow
from engine.boundary.answers import answered
from engine.ground.errors import DecodingError, LaterEngine
from engine.store import transitions
from engine.store.documents import SCHEMA, Chunk, Document, Execution, InboxItem, Large, Parent
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment
from tests.replay.stored.golden import HERE, load, put, take
from tests.replay.stored.program import PROGRAM
from tests.support import documents

WAITING = load(HERE / "schema1/waiting.json")
OWING = load(HERE / "schema1/owing.json")
NEWS = {"kind": "of a later version", "list": [1, {"deep": True}]}


def _newer(document: Document) -> Document:
    return {**document, "fromLater": NEWS}


def _changes(execution: Execution) -> list[Execution]:
    now = execution.updated_at + timedelta(hours=1)
    claimed = documents.claimed(execution.model_copy(update={"due_at": now}), now)
    return [
        claimed,
        documents.extended(claimed, now),
        documents.suspended(claimed, now, now),
        documents.released(claimed, now),
        documents.completed(claimed, now),
        transitions.uncount_claim(documents.DRIVER, now).apply(claimed),
        transitions.resume(now).apply(execution),
        transitions.terminate(now).apply(execution),
        transitions.attach(Parent(execution_id="0" * 32, step="s"), now).apply(execution),
        transitions.add_inbox_item(now).apply(execution),
        transitions.interrupt(now).apply(execution),
    ]


def test_unknown_fields_survive_every_change_of_the_exec_document() -> None:
    for changed in _changes(Execution.from_document(_newer(WAITING.exec))):
        assert changed.to_document()["fromLater"] == NEWS


@pytest.mark.parametrize("place", ["parents", "error", "compensationErrors", "cause"])
def test_unknown_fields_inside_of_fields_survive(place: str) -> None:
    error = {"type": "Boom", "message": "bang", "fromLater": NEWS}
    values: dict[str, Any] = {
        "parents": [{"executionId": "0" * 32, "step": "a", "fromLater": NEWS}],
        "error": error,
        "compensationErrors": [error],
        "cause": error,
    }
    document = {**WAITING.exec, place: values[place]}
    changed = documents.extended(Execution.from_document(document), datetime(2026, 1, 2, tzinfo=UTC))
    found = changed.to_document()[place]
    assert (found[0] if isinstance(found, list) else found)["fromLater"] == NEWS


@pytest.mark.parametrize("type", [Chunk, InboxItem, Large])
def test_unknown_fields_of_other_documents_survive(type: Any) -> None:
    document = {"id": "history::00000000", "executionId": "x", "events": [], "name": "n", "value": "1", "writeId": ""}
    document["at"] = "2026-01-01T00:00:00.000Z"
    assert type.from_document(_newer(document)).to_document()["fromLater"] == NEWS


async def test_unknown_fields_survive_in_the_store_to_the_end() -> None:
    store = SqliteStore(":memory:")
    async with Environment(PROGRAM, store) as env:
        await put(store, [_newer(document) for document in OWING.documents])
        env.clock.advance(timedelta(minutes=10))
        await env.client.send(OWING.execution_id, "compat_notes", 11)
        await env.resolve(OWING.execution_id, "compat_answer", "yes")
        status = await env.finish(OWING.execution_id)
        assert status.outcome == "completed"
        before = {(document["executionId"], document["id"]) for document in OWING.documents}
        after = {(d["executionId"], d["id"]): d for d in await take(store)}
        assert all(after[place]["fromLater"] == NEWS for place in before)


def test_unknown_fields_of_an_event_are_passed_over() -> None:
    for document in OWING.documents:
        if document["id"].startswith("history::"):
            newer = {**document, "events": [_newer(event) for event in document["events"]]}
            assert Chunk.from_document(newer).decoded() == Chunk.from_document(document).decoded()


def test_an_unknown_kind_of_event_is_not_guessed_at() -> None:
    chunk = Chunk.from_document(
        {"id": "history::00000000", "executionId": "x", "events": [{"kind": "teleport", "at": "2026-01-01T00:00:00Z"}]}
    )
    with pytest.raises(DecodingError, match="history::00000000"):
        chunk.decoded()


async def test_an_execution_with_an_unknown_event_is_suspended_and_kept() -> None:
    """An older version that meets it during a deployment harms nothing: the later one resumes it."""
    strange = {"kind": "teleport", "at": "2026-01-01T00:00:40.000Z"}
    documents = [dict(document) for document in WAITING.documents]
    for document in documents:
        if document["id"] == "history::00000003":
            document["events"] = [*document["events"], strange]
    store = SqliteStore(":memory:")
    async with Environment(PROGRAM, store) as env:
        await put(store, documents)
        env.clock.advance(timedelta(minutes=10))
        await env.client.send(WAITING.execution_id, "compat_notes", 11)
        execution = await env.drive(WAITING.execution_id)
        assert execution.suspended
        assert execution.cause is not None
        assert execution.cause.type == "DecodingError"
        history = [document for document in await take(store) if document["id"].startswith("history::")]
        assert [d["events"] for d in history if d["id"] == "history::00000003"] == [documents[5]["events"]]


async def test_an_execution_of_a_later_schema_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    newer = {**WAITING.exec, "schema": SCHEMA + 1, "suspended": False}
    store = SqliteStore(":memory:")
    async with Environment(PROGRAM, store) as env:
        await put(store, [newer])
        env.clock.advance(timedelta(days=2))
        await env.drive(WAITING.execution_id)
        await env.worker.sweep()
        assert await take(store) == [newer]
    assert "is left alone" in caplog.text


@pytest.mark.parametrize("ended", [False, True])
async def test_what_would_rewrite_an_execution_of_a_later_schema_is_refused(ended: bool) -> None:
    """It says so, and changes nothing. Signals only add, and an interrupt is heard by the version that drives it."""
    how = {"status": "complete", "outcome": "failed", "endedAt": 1} if ended else {"suspended": True}
    newer = {**WAITING.exec, "schema": SCHEMA + 1, **how}
    store = SqliteStore(":memory:")
    async with Environment(PROGRAM, store) as env:
        await put(store, [newer])
        for request in (env.client.terminate, env.client.resume, env.client.retry):
            with pytest.raises(LaterEngine, match=rf"schema {SCHEMA + 1}.*Nothing was changed"):
                await request(WAITING.execution_id)
            assert (await answered(lambda ask=request: ask(WAITING.execution_id))).status == 409  # type: ignore[misc]
        assert await take(store) == [newer]
        assert (await env.client.interrupt(WAITING.execution_id)).interrupted is not ended


@workflow(idempotency_key=lambda key: key)
async def newer_child(key: str) -> str:
    return await newer_answer


@workflow
async def waits_for_newer(how: str) -> str:
    if how == "gives up":
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                return await newer_child("k")
        return "gave up"
    return await newer_child("k")


newer_answer = Deferred("newer.answer", str)


async def _make_newer(env: Environment, execution_id: str) -> Execution:
    execution = await env.store.inner.read(execution_id)
    return await env.store.inner.replace(execution.model_copy(update={"schema_version": SCHEMA + 1}))


async def test_a_parent_changes_no_child_of_a_later_schema(caplog: pytest.LogCaptureFixture) -> None:
    """It lets go, and no claim is counted. Where the child is of a known schema again, it goes on."""
    async with Environment([newer_child, waits_for_newer]) as env:
        child = await env.start(newer_child, "k")
        await env.drive(child)
        newer = await _make_newer(env, child.execution_id)
        parent = await env.start(waits_for_newer, "")
        for _ in range(12):
            await env.drive(parent)
            env.clock.advance(timedelta(minutes=2))
        assert await env.store.inner.read(child.execution_id) == newer
        waiting = await env.store.inner.read(parent.execution_id)
        assert (waiting.status, waiting.suspended, waiting.cause) == ("running", False, None)
        assert f"a later version of the engine wrote execution {child.execution_id}" in caplog.text
        await env.store.inner.replace(newer.model_copy(update={"schema_version": SCHEMA}))
        await env.resolve(child, newer_answer, "yes")
        assert (await env.finish(parent)).value() == "yes"


async def test_a_parent_that_gives_up_leaves_its_wait_in_a_child_of_a_later_schema() -> None:
    """And ends without it."""
    async with Environment([newer_child, waits_for_newer]) as env:
        child = await env.start(newer_child, "k")
        parent = await env.start(waits_for_newer, "gives up")
        await env.drive(parent)
        newer = await _make_newer(env, child.execution_id)
        assert [each.execution_id for each in newer.parents] == [parent.execution_id]
        env.clock.advance(timedelta(minutes=2))
        assert (await env.drive(parent)).value() == "gave up"
        assert await env.store.inner.read(child.execution_id) == newer


async def test_the_exit_of_a_child_of_a_later_schema_is_left_to_that_version() -> None:
    """Nobody marks it as delivered."""
    newer = {**OWING.exec, "schema": SCHEMA + 1}
    store = SqliteStore(":memory:")
    async with Environment(PROGRAM, store) as env:
        await put(store, [newer])
        env.clock.advance(timedelta(days=2))
        await env.drive(OWING.execution_id)
        await env.worker.sweep()
        assert await take(store) == [newer]
