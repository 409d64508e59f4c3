"""What the host sees when something goes wrong: it gives a batch again only if the function raised."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.boundary.hints import to_message
from engine.driving.hand_overs import Hint
from engine.ground.errors import Unavailable
from engine.store.sqlite.store import SqliteStore
from tests.deploy.worker_library.host import InvocationFailed, WorkerHost
from tests.deploy.worker_library.test_worker import ORDER


async def test_a_batch_fails_if_the_store_is_away(host: WorkerHost, monkeypatch: pytest.MonkeyPatch) -> None:
    await host.http("POST", "/workflows/fulfil", ORDER)
    store = sys.modules["function_app"].runtime.store

    async def away(*_: object) -> None:
        raise Unavailable("nobody answers")

    with monkeypatch.context() as broken:
        broken.setattr(store, "replace", away)
        with pytest.raises(InvocationFailed, match="Unavailable: nobody answers"):
            await host.feed()
    await host.sweep()


async def test_a_sweep_fails_if_the_store_is_away(host: WorkerHost, monkeypatch: pytest.MonkeyPatch) -> None:
    store = sys.modules["function_app"].runtime.store

    async def away(*_: object) -> None:
        raise Unavailable("nobody answers")

    monkeypatch.setattr(store, "due", away)
    with pytest.raises(InvocationFailed, match="Unavailable"):
        await host.sweep()


async def test_a_hint_fails_if_the_store_is_away(host: WorkerHost, monkeypatch: pytest.MonkeyPatch) -> None:
    store = sys.modules["function_app"].runtime.store

    async def away(*_: object) -> None:
        raise Unavailable("nobody answers")

    monkeypatch.setattr(store, "read", away)
    with pytest.raises(InvocationFailed, match="Unavailable"):
        await host.message(to_message(Hint("0" * 32)))


async def test_documents_that_are_no_executions_do_not_fail_a_batch(host: WorkerHost) -> None:
    batch = '[{"id": "exec", "executionId": "x"}, {"id": "history::00000000", "executionId": "y"}, {"id": "stranger"}]'
    await host.deliver(batch)


@pytest.mark.parametrize(
    ("setting", "value"), [("ENGINE_LEASE_SECONDS", "soon"), ("ENGINE_SIGNING_KEY", "short"), ("COSMOS_KEY", "a2V5")]
)
async def test_a_setting_that_makes_no_sense_is_named_at_the_start(
    host: WorkerHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    monkeypatch.setenv(setting, value)
    running = sys.modules.pop("function_app")
    try:
        with pytest.raises(RuntimeError, match=setting):
            await WorkerHost(SqliteStore(tmp_path / "other.sqlite")).start()
    finally:
        sys.modules["function_app"] = running
