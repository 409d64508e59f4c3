"""Batches of the change feed: poison, strangers, repetitions and old versions fail nobody and lose nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import Deferred, Workflow, workflow
from engine.ground.errors import DecodingError, Refused, Unavailable
from engine.store.base import Filter
from engine.store.documents import SCHEMA, Document
from engine.store.sqlite.store import SqliteStore
from engine.testing import Call, Environment
from tests.support.crashes import check_history, echo, ledger
from tests.support.gates import nth
from tests.support.processes import PAST_LEASE, SWEEPS_NEW_AFTER, Process, as_fed, fed, nothing
from tests.support.stored import image, overwrite, store_of

ROOT = Path(__file__).parents[3]

batches_answer = Deferred("batches.answer", str)


@workflow
async def batches_good() -> str:
    return await echo("good")


@workflow(name="batches_good", version="2")
async def batches_good_2() -> str:
    return await echo("better")


@workflow(name="batches_gone")
async def batches_gone() -> str:
    return await echo("came back")


@workflow
async def batches_waits() -> str:
    return await echo("a") + await batches_answer


@workflow(idempotency_key=lambda name: f"batches {name}")
async def batches_child(name: str) -> str:
    return await echo(name)


@workflow
async def batches_parent() -> list[str]:
    return [await echo("first"), *await asyncio.gather(batches_child("a"), batches_child("b"))]


def _future(document: Document) -> Document:
    return {**document, "schema": SCHEMA + 1, "something": "new"}


def _without(document: Document, field: str) -> Document:
    return {name: value for name, value in document.items() if name != field}


BAD: dict[str, Any] = {
    "not ours": lambda d: {"id": "1f0c", "executionId": "someone else's", "total": 3},
    "not even an id": lambda d: {"executionId": d["executionId"]},
    "an id that is no text": lambda d: {**d, "id": 7},
    "a history chunk": lambda d: {"id": "history::00000000", "executionId": d["executionId"], "events": []},
    "a missing field": lambda d: _without(d, "workflow"),
    "no partition": lambda d: _without(d, "executionId"),
    "a wrong type": lambda d: {**d, "createdAt": [1, 2]},
    "a wrong type inside": lambda d: {**d, "parents": [{"step": 3}]},
    "an unknown status": lambda d: {**d, "status": "paused"},
    "an id in another form": lambda d: {**d, "executionId": "../../etc"},
    "a future schema": _future,
    "a future schema, complete": lambda d: {**_future(d), "status": "complete", "outcome": "completed"},
    "1.9 MB": lambda d: {**_without(d, "workflow"), "padding": "x" * 1_900_000},
    "1.9 MB of a good one": lambda d: {**d, "padding": "x" * 1_900_000},
    "nothing": lambda d: {},
    "nesting": lambda d: {**d, "payload": [[[[[[[[]]]]]]]]},
    "numbers that are none": lambda d: {**d, "wake": float("nan"), "claims": "many"},
    "years that don't exist": lambda d: {**d, "dueAt": "99999-01-01T00:00:00Z"},
}
LEFT_ALONE = {kind for kind in BAD if kind != "1.9 MB of a good one"}


@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_document_in_the_feed_changesnothing(kind: str) -> None:
    """L2: alone in a batch: no error that would have the batch given again, and no write where it isn't ours."""
    async with Environment([batches_good]) as env:
        id = (await env.start(batches_good)).execution_id
        before = await image(env, id)
        await env.worker.drive_changes([BAD[kind]((await fed(env, id))[0])])
        if kind in LEFT_ALONE:
            assert await image(env, id) == before
        else:
            assert (await env.status(id)).value() == "good"


@pytest.mark.parametrize("kind", sorted(LEFT_ALONE - {"not ours", "not even an id", "a history chunk", "nothing"}))
async def test_a_bad_document_in_the_store_does_not_stop_the_sweep(kind: str) -> None:
    """L2: what can't be read stands first in the queue of what is due, for ever; those behind it are driven."""
    async with Environment([batches_good]) as env:
        bad = (await env.start(batches_good)).execution_id
        good = [(await env.start(batches_good)).execution_id for _ in range(3)]
        await overwrite(env, bad, "exec", json.dumps(BAD[kind]((await fed(env, bad))[0])))
        query = "UPDATE documents SET due_at = '2000-01-01T00:00:00.000Z' WHERE execution_id = ?"
        await store_of(env)._write(lambda db: db.execute(query, (bad,)))
        before = await image(env, bad)
        env.clock.advance(SWEEPS_NEW_AFTER)
        for _ in range(3):
            await env.worker.sweep()
        assert [(await env.status(id)).value() for id in good] == ["good"] * 3
        assert await image(env, bad) == before


async def test_an_execution_of_a_workflow_that_is_gone_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """I4: unknown names and versions: reported once, nothing is written, others go on; a deployment brings it back."""
    async with Environment([batches_good, batches_gone, batches_good_2]) as env:
        gone, newer = (await env.start(batches_gone)).execution_id, (await env.start(batches_good_2)).execution_id
        env.deploy([batches_good])
        good = (await env.start(batches_good)).execution_id
        before = [await image(env, id) for id in (gone, newer)]
        with caplog.at_level(logging.WARNING, "engine"):
            for _ in range(3):
                await env.worker.drive_changes(await fed(env, gone, newer, good))
                env.clock.advance(SWEEPS_NEW_AFTER)
                await env.worker.sweep()
        assert (await env.status(good)).value() == "good"
        assert [await image(env, id) for id in (gone, newer)] == before
        assert [record.getMessage().count("is left alone") for record in caplog.records] == [1, 1]
        env.deploy([batches_good, batches_good_2, batches_gone])
        await env.worker.sweep()
        assert (await env.status(gone)).value() == "came back"
        assert (await env.status(newer)).value() == "better"


async def test_a_workflow_removed_in_mid_run_waits_for_its_return() -> None:
    """I4: what it has recorded stays, a value that comes meanwhile is kept."""
    async with Environment([batches_waits]) as env:
        id = await env.start(batches_waits)
        await env.drive(id)
        env.deploy([batches_good])
        await Process(env).client.resolve(id, batches_answer, "b")
        await env.worker.sweep()
        assert not (await env.status(id)).is_complete
        env.deploy([batches_waits])
        await env.worker.sweep()
        assert (await env.status(id)).value() == "ab"
        assert ledger.ran == ["echo"]


async def test_a_batch_given_twice_is_driven_once() -> None:
    """L1, L4: at the same time or one after the other, each step is recorded and run once."""
    async with Environment([batches_good]) as env:
        ids = [(await env.start(batches_good)).execution_id for _ in range(20)]
        batch = await fed(env, *ids)
        await asyncio.gather(*(env.worker.drive_changes(batch) for _ in range(5)))
        assert env.store.count("commit") == 20
        images = [await image(env, id) for id in ids]
        await env.worker.drive_changes(batch)
        assert [await image(env, id) for id in ids] == images
        assert ledger.ran == ["echo"] * 20


async def test_old_versions_in_any_order_are_no_wrong_claims() -> None:
    """A stale version costs a conflict at most: after all versions of two runs in every order, nothing is doubled."""
    async with Environment([batches_waits]) as env:
        versions: list[Document] = []

        async def keep(call: Call) -> None:
            if call.method in ("create", "replace", "commit", "signal"):
                execution = await env.store.inner.read(id)  # type: ignore[arg-type]
                versions.append(as_fed(execution))

        id = (await env.start(batches_waits)).execution_id
        versions += await fed(env, id)
        env.store.after = keep
        await env.drive(id)
        await env.resolve(id, batches_answer, "b")
        half = list(versions)
        for batch in (half[::-1], half[1:] + half[:1], half, half[:1] * 3):
            await Process(env).worker.drive_changes(batch)
        assert (await env.status(id)).value() == "ab"
        before = await image(env, id)
        for batch in (versions[::-1], versions, *([version] for version in versions)):
            await Process(env).worker.drive_changes(batch)
        assert await image(env, id) == before
        assert ledger.ran == ["echo"]
        await check_history(env, id)


async def test_a_version_from_before_a_purge_is_no_claim_of_the_new_run() -> None:
    """The feed hands over the last state of an execution that was purged, or purged and started again."""
    async with Environment([batches_good]) as env:
        id = (await env.start(batches_good, key="k")).execution_id
        running = await fed(env, id)
        await env.drive(id)
        ended = await fed(env, id)
        await env.client.purge(id)
        await env.worker.drive_changes([*running, *ended])
        await env.worker.drive_changes(running)
        assert await image(env, id) == []
        await env.start(batches_good, key="k")
        await env.worker.drive_changes(running)
        await env.worker.drive_changes(ended)
        assert (await env.status(id)).value() == "good"
        assert ledger.ran == ["echo", "echo"]
        await check_history(env, id)


async def test_a_batch_is_given_again_only_when_the_store_is_away() -> None:
    """L1: Unavailable reaches the host, which then repeats the batch; the repetition finds what is left to do."""
    async with Environment([batches_good]) as env:
        ids = [(await env.start(batches_good)).execution_id for _ in range(5)]
        batch = await fed(env, *ids)

        async def fail(call: Call) -> None:
            if call.method == "replace" and call.of_method in (1, 3):
                raise Unavailable("no answer")

        env.store.before = fail
        with pytest.raises(Unavailable):
            await env.worker.drive_changes(batch)
        assert sum([(await env.status(id)).is_complete for id in ids]) == 3
        await env.worker.drive_changes(batch)
        assert [(await env.status(id)).value() for id in ids] == ["good"] * 5


@pytest.mark.parametrize(
    "error",
    [
        Refused("not like this"),
        DecodingError("unreadable"),
        OverflowError("year 0"),
        RuntimeError("a bug"),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("method", ["replace", "load", "append", "commit"])
async def test_no_error_but_an_unreachable_store_fails_a_batch(
    method: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """L1, L2: whatever a store call raises for one execution, the batch ends well, and the other one is driven; so does
    a sweep, and the next one is driven."""
    async with Environment([batches_good]) as env:
        ids = [(await env.start(batches_good)).execution_id for _ in range(3)]

        async def fail(call: Call) -> None:
            if call.method == method and ids[0] in repr(call.arguments):
                raise error

        env.store.before = fail
        with caplog.at_level(logging.CRITICAL, "engine"):
            await env.worker.drive_changes(await fed(env, *ids[:2]))
            assert (await env.status(ids[1])).value() == "good"
            env.clock.advance(PAST_LEASE)
            await env.worker.sweep()
        env.store.before = nothing
        assert (await env.status(ids[2])).value() == "good"
        env.clock.advance(PAST_LEASE)
        await env.worker.sweep()
        assert (await env.status(ids[0])).is_complete


@pytest.mark.parametrize("deployed", [[batches_good], []], ids=["others", "nothing"])
async def test_what_is_left_alone_is_not_asked_about_again(deployed: list[Workflow[Any, Any]]) -> None:
    """I4: a workflow or version that this deployment hasn't costs a batch no request, and a sweep none but its page."""
    async with Environment([batches_gone, batches_good_2]) as env:
        ids = [(await env.start(batches_gone)).execution_id, (await env.start(batches_good_2)).execution_id]
        env.deploy(deployed)
        process = Process(env)
        await process.worker.drive_changes(await fed(env, *ids))
        assert process.store.calls == []
        env.clock.advance(SWEEPS_NEW_AFTER)
        assert await process.worker.sweep() == 2
        assert [call.method for call in process.store.calls] == ["due"]


async def test_a_childs_changes_may_come_before_its_parents() -> None:
    """Every version of the children, the newest first, and only then those of the parent, each given to two workers."""
    async with Environment([batches_parent, batches_child]) as env:
        parent = (await env.start(batches_parent)).execution_id
        versions: dict[str, list[Document]] = {}

        async def keep(call: Call) -> None:
            if call.method in ("create", "replace", "commit", "signal"):
                for execution in (await env.store.inner.list(Filter(), 10)).executions:
                    versions.setdefault(execution.workflow, []).append(as_fed(execution))

        env.store.after = keep
        await env.drive(parent)
        for kind in ("batches_child", "batches_parent", "batches_child", "batches_parent"):
            for version in versions[kind][::-1]:
                first, second = Process(env, store=env.store), Process(env, store=env.store)
                await asyncio.gather(first.worker.drive_changes([version]), second.worker.drive_changes([version]))
        assert (await env.status(parent)).value() == ["first", "a", "b"]
        assert sorted(ledger.ran) == ["echo"] * 3
        await check_history(env, parent)


async def test_a_childs_end_may_come_before_its_parent_knows_that_it_began() -> None:
    """The feed hands over the child while the parent's driver has not yet recorded its start, and then the parent,
    which that driver still holds."""
    async with Environment([batches_parent, batches_child]) as env:
        parent = (await env.start(batches_parent)).execution_id
        old = Process(env)
        async with old.stopped(parent, "after", nth("create", 1)):
            other = Process(env)
            children = (await env.store.inner.list(Filter(workflow="batches_child"), 10)).executions
            await other.worker.drive_changes([as_fed(child) for child in children])
            children = (await env.store.inner.list(Filter(workflow="batches_child"), 10)).executions
            assert children
            assert all(child.is_complete for child in children)
            await other.worker.drive_changes(await fed(env, parent))
            assert not (await env.status(parent)).is_complete
        await env.finish(parent)
        assert (await env.status(parent)).value() == ["first", "a", "b"]
        assert sorted(ledger.ran) == ["echo"] * 3
        await check_history(env, parent)


def test_an_app_whose_workflows_cannot_be_imported_never_starts(tmp_path: Path) -> None:
    """M3: the host says why, with the traceback, and ends; what is running in the store isn't touched."""
    for name in ("engine", "devhost", "function_app.py"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "__init__.py").write_text("from .orders import fulfil\n\nWORKFLOWS = [fulfil]\n")
    (tmp_path / "workflows" / "orders.py").write_text("import a_library_that_nobody_installed\n")
    file = tmp_path / "workflows.sqlite"

    async def start() -> None:
        async with Environment([batches_waits], SqliteStore(str(file))) as env:
            id = await env.start(batches_waits)
            await env.drive(id)
            await env.client.resume(id)

    asyncio.run(start())
    before = file.read_bytes()
    others = ("COSMOS", "ENGINE_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    ended = subprocess.run(
        [sys.executable, "-m", "devhost", "--port", "0"],
        cwd=tmp_path,
        env={**kept, "ENGINE_SQLITE_FILE": str(file)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "Traceback" in ended.stderr
    assert "orders.py" in ended.stderr
    assert "No module named 'a_library_that_nobody_installed'" in ended.stderr
    assert ended.stdout == ""
    assert file.read_bytes() == before
