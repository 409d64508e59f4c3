"""Documents that can't be read: the execution says at once which and why. Mending and `resume` cure it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, cast

import pytest

from engine import Deferred, UnreadableExecution, workflow
from engine.boundary.answers import answered
from engine.ground.errors import Unreadable
from engine.store.base import Filter
from engine.testing import Environment
from tests.support.crashes import echo, ledger
from tests.support.processes import fed
from tests.support.stored import overwrite, store_of

answer = Deferred("unreadable.answer", str)
other_answer = Deferred("unreadable.other", str)
LARGE = "x" * 5_000


@workflow
async def unreadable_waits(payload: str) -> str:
    first = await echo("a")
    return first + await answer + await other_answer


@workflow
async def unreadable_large(payload: str) -> str:
    return payload


@workflow
async def unreadable_parent() -> int:
    return len(await unreadable_large(LARGE))


def _event(body: str, **changes: Any) -> str:
    document = json.loads(body)
    return json.dumps({**document, "events": [{**document["events"][0], **changes}, *document["events"][1:]]})


ANY: Mapping[str, Callable[[str], str]] = {
    "cut off": lambda body: body[: len(body) // 2],
    "empty": lambda body: "",
    "no object": lambda body: json.dumps([body]),
    "null": lambda body: "null",
    "no fields": lambda body: "{}",
    "too deep": lambda body: "[" * 100_000,
}
"""What may become of the text of any document."""

OF_VALUE: Mapping[str, Callable[[str], str]] = {
    "value cut off": lambda body: json.dumps({**json.loads(body), "value": '"ab'}),
    "value empty": lambda body: json.dumps({**json.loads(body), "value": ""}),
    "value no text": lambda body: json.dumps({**json.loads(body), "value": {"a": 1}}),
}
OF_ITEM = {
    "a moment before all": lambda body: json.dumps({**json.loads(body), "at": "0001-01-01T00:00:00+14:00"}),
    "a moment without a zone": lambda body: json.dumps({**json.loads(body), "at": "2026-01-01T00:00:00"}),
    "no name": lambda body: json.dumps({**json.loads(body), "name": None}),
}
OF_CHUNK: Mapping[str, Callable[[str], str]] = {
    "events no list": lambda body: json.dumps({**json.loads(body), "events": "x"}),
    "an event no object": lambda body: json.dumps({**json.loads(body), "events": [7]}),
    "an unknown event": lambda body: _event(body, kind="teleported"),
    "an event's moment": lambda body: _event(body, at="0001-01-01T00:00:00+14:00"),
    "an event's value cut off": lambda body: _event(body, value='"ab'),
}
KINDS = {
    "history::00000000": {**ANY, **OF_CHUNK},
    "deferred::unreadable.answer": {**ANY, **OF_VALUE, **OF_ITEM},
    "input": {**ANY, **OF_VALUE},
}
CASES = [(document, how) for document, kinds in KINDS.items() for how in kinds]


async def _body(env: Environment, id: str, document: str) -> str:
    query = "SELECT body FROM documents WHERE execution_id = ? AND id = ?"
    body: str = await store_of(env)._read(lambda db: db.execute(query, (id, document)).fetchone()[0])
    return body


async def _waiting(env: Environment) -> str:
    """An execution with an input document, a chunk of history, and a value that nobody has seen yet."""
    id = (await env.start(unreadable_waits, LARGE)).execution_id
    await env.drive(id)
    await env.client.resolve(id, answer, "b")
    return id


@pytest.mark.parametrize(("document", "how"), CASES)
async def test_a_document_that_cannot_be_read_suspends_at_once_and_is_mended(
    document: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Q3, L2: at once, with the document's id and one line in the log. No claim counts. Mended, it goes on."""
    async with Environment([unreadable_waits]) as env:
        id = await _waiting(env)
        before = await _body(env, id, document)
        await overwrite(env, id, document, KINDS[document][how](before))
        with caplog.at_level(logging.WARNING, "engine"):
            await env.worker.drive_changes(await fed(env, id))
        execution = await env.store.inner.read(id)
        assert (execution.suspended, execution.claims, execution.due_at) == (True, 0, None)
        assert execution.cause is not None
        assert execution.cause.type == "DecodingError"
        assert f"document {document} " in execution.cause.message
        assert [record.exc_info for record in caplog.records] == [None], caplog.text
        assert document in caplog.text
        env.clock.advance(timedelta(days=1))
        assert await env.worker.sweep() == 0
        assert (await env.status(id)).cause is not None
        assert [one.execution_id for one in (await env.client.list(Filter())).executions] == [id]
        await overwrite(env, id, document, before)
        await env.client.resume(id)
        await env.resolve(id, other_answer, "c")
        assert (await env.finish(id)).value() == "abc"
        assert ledger.ran == ["echo"]


@pytest.mark.parametrize(
    "odd", ["history::x", "history::1", "history::000000001", "history::0000000x", "history::٠٠٠٠٠٠٠٠"]
)
async def test_an_odd_id_suspends_at_once(odd: str) -> None:
    """Q3: a chunk whose number can't be read is named, and terminating and purging get rid of it."""
    async with Environment([unreadable_waits]) as env:
        id = await _waiting(env)
        query = "UPDATE documents SET id = ? WHERE execution_id = ? AND id = 'history::00000000'"
        await store_of(env)._write(lambda db: db.execute(query, (odd, id)))
        await env.drive(id)
        execution = await env.store.inner.read(id)
        assert execution.suspended
        assert execution.cause is not None
        assert odd in execution.cause.message
        await env.client.terminate(id)
        await env.client.purge(id)
        assert await store_of(env)._read(lambda db: db.execute("SELECT count(*) FROM documents").fetchone()[0]) == 0


OF_EXEC: Mapping[str, Callable[[str], str]] = {
    **ANY,
    "dueAt before all": lambda body: json.dumps({**json.loads(body), "dueAt": "0001-01-01T00:00:00+14:00"}),
    "an unknown status": lambda body: json.dumps({**json.loads(body), "status": "paused"}),
    "a payload cut off": lambda body: json.dumps({**json.loads(body), "payload": '{"a'}),
    "a number as workflow": lambda body: json.dumps({**json.loads(body), "workflow": 7}),
    "parents no list": lambda body: json.dumps({**json.loads(body), "parents": "x"}),
    "an odd executionId": lambda body: json.dumps({**json.loads(body), "executionId": "x", "wake": -1.5}),
}


@pytest.mark.parametrize("how", OF_EXEC)
async def test_an_exec_document_that_cannot_be_read_is_passed_over_everywhere(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Q3: the feed, the sweep and lists go on to the others, and health names it. Each request about it says what is
    wrong. Mended, it goes on by itself."""
    async with Environment([unreadable_waits, unreadable_large]) as env:
        id = (await env.start(unreadable_waits, "small")).execution_id
        feed = env.store.inner.change_feed()
        before = await _body(env, id, "exec")
        await overwrite(env, id, "exec", OF_EXEC[how](before))
        other, third = (
            (await env.start(unreadable_large, "a")).execution_id,
            (await env.start(unreadable_large, "b")).execution_id,
        )
        changed = [d for one in await feed.leases() for d in (await feed.read(one.range, None, 100))[0]]
        await env.worker.drive_changes([d for d in changed if d["executionId"] != third])
        assert (await env.status(other)).is_complete
        env.clock.advance(timedelta(minutes=10))
        for _ in range(3):
            await env.worker.sweep()
        assert (await env.status(third)).is_complete
        assert len([record for record in caplog.records if id in record.getMessage()]) == 1, caplog.text
        assert {one.execution_id for one in (await env.client.list(Filter())).executions} == {
            other,
            third,
        }
        health = await env.client.health()
        assert list(health.unreadable) == [id]
        assert not health.is_well
        client = env.client
        for ask in (
            lambda: client.status(id),
            lambda: client.interrupt(id),
            lambda: client.terminate(id),
            lambda: client.resume(id),
            lambda: client.resolve(id, answer, "b"),
            lambda: client.purge(id),
        ):
            with pytest.raises(UnreadableExecution, match=id):
                await ask()
        found = await answered(lambda: cast(Any, client.status(id)))
        assert (found.status, json.loads(found.body)["title"]) == (500, "The execution can't be read")
        await overwrite(env, id, "exec", before)
        await env.resolve(id, answer, "b")
        await env.resolve(id, other_answer, "c")
        assert (await env.finish(id)).value() == "abc"


async def test_an_exec_document_cut_off_under_its_driver_ends_the_drive(caplog: pytest.LogCaptureFixture) -> None:
    """Q3: the driver meets it at its next look, stops without a traceback, and nothing is driven until it is mended."""
    async with Environment([unreadable_waits]) as env:
        id = (await env.start(unreadable_waits, "small")).execution_id
        broken = list[str]()

        async def cut(call: Any) -> None:
            if call.method == "commit" and not broken:
                broken.append(await _body(env, id, "exec"))
                await overwrite(env, id, "exec", broken[0][:100])

        env.store.before = cut
        await env.worker.drive(await env.store.inner.read(id))
        assert all(record.exc_info is None for record in caplog.records), caplog.text
        with pytest.raises(Unreadable):
            await env.store.inner.read(id)
        await overwrite(env, id, "exec", broken[0])
        env.clock.advance(timedelta(minutes=10))
        await env.resolve(id, answer, "b")
        await env.resolve(id, other_answer, "c")
        assert (await env.finish(id)).value() == "abc"


async def test_a_result_that_cannot_be_read_is_a_clear_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Q3: the status says which document; a parent that would get it is suspended with it as the cause, and mended."""
    async with Environment([unreadable_large, unreadable_parent]) as env:
        child = (await env.start(unreadable_large, LARGE)).execution_id
        await env.finish(child)
        before = await _body(env, child, "output")
        await overwrite(env, child, "output", before[:50])
        with pytest.raises(UnreadableExecution, match="document output"):
            await env.status(child)
        await overwrite(env, child, "output", before)
        assert (await env.status(child)).value() == LARGE


async def test_a_child_whose_result_cannot_be_read_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Q3: each sweep tries to notify its parent; one line says why it can't; mended, the parent gets the result."""
    async with Environment([unreadable_large, unreadable_parent]) as env:
        parent = await env.start(unreadable_parent)
        await env.drive(parent)
        (child,) = [one for one in (await env.client.list(Filter())).executions if one.workflow == "unreadable_large"]
        broken = list[str]()

        async def cut(call: Any) -> None:
            if call.method != "load" or call.arguments[0] != child.execution_id or broken:
                return
            if (await env.store.inner.read(child.execution_id)).is_complete:
                broken.append(await _body(env, child.execution_id, "output"))
                await overwrite(env, child.execution_id, "output", "")

        env.store.before = cut
        await env.worker.drive(await env.store.inner.read(child.execution_id))
        for _ in range(3):
            env.clock.advance(timedelta(minutes=10))
            await env.worker.sweep()
        errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert [record.exc_info for record in errors] == [None], caplog.text
        await overwrite(env, child.execution_id, "output", broken[0])
        assert (await env.finish(parent)).value() == len(LARGE)
