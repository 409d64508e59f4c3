"""Documents that earlier versions stored are read, kept and carried on by this one."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from engine.store.documents import SCHEMA, Execution
from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment
from engine.testing.replayer import export, replay
from tests.replay.stored.golden import SCHEMAS, Golden, goldens, parse, put
from tests.replay.stored.program import PROGRAM

every_golden = pytest.mark.parametrize("golden", goldens(), ids=lambda golden: golden.name)


def test_every_schema_up_to_this_one_has_documents() -> None:
    assert [path.name for path in SCHEMAS] == [f"schema{number}" for number in range(1, SCHEMA + 1)]
    assert all(list(path.glob("*.json")) for path in SCHEMAS)


def test_every_kind_of_document_is_there() -> None:
    kinds = {document["id"].partition("::")[0] for golden in goldens() for document in golden.documents}
    assert kinds == {"exec", "history", "deferred", "child", "channel", "input", "output"}


@every_golden
def test_documents_are_read_and_written_as_they_were(golden: Golden) -> None:
    for document in golden.documents:
        again = parse(document).to_document()
        assert {name: again.get(name) for name in document} == document


@every_golden
async def test_the_execution_is_carried_on_to_its_end(golden: Golden) -> None:
    store = SqliteStore(":memory:")
    async with Environment(PROGRAM, store) as env:
        await put(store, golden.documents)
        env.clock.advance(timedelta(minutes=10))
        await _say_what_is_missing(env, golden)
        status = await env.finish(golden.execution_id)
        assert status.outcome == golden.ends_as, status.cause
        if golden.ends_as == "completed":
            assert status.value() == golden.result


@every_golden
async def test_the_history_replays(golden: Golden) -> None:
    store = SqliteStore(":memory:")
    await put(store, golden.documents)
    try:
        replayed = replay(await export(store, golden.execution_id), PROGRAM)
    finally:
        await store.close()
    outcome = Execution.from_document(golden.exec).outcome
    assert (replayed.outcome.kind if replayed.outcome else None) == outcome


async def _say_what_is_missing(env: Environment, golden: Golden) -> None:
    """A note and an answer, unless the golden execution has them, has ended, or is to be interrupted."""
    ids = {document["id"] for document in golden.documents if document["executionId"] == golden.execution_id}
    if golden.exec["status"] == "complete" or golden.exec["interrupted"]:
        return
    if "channel::compat_notes::first" not in ids:
        await env.client.send(golden.execution_id, "compat_notes", 11)
    if "deferred::compat_answer" not in ids:
        await env.resolve(golden.execution_id, "compat_answer", "yes")


def test_what_is_recorded_is_of_no_machine() -> None:
    for golden in goldens():
        assert "/home/" not in json.dumps(golden.documents)
