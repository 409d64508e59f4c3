"""What runs now is replayed against the code here, before it is deployed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.boundary.runtime import Runtime
from engine.cli.check_deploy import replay_live
from engine.store.base import Loaded
from engine.store.sqlite.store import SqliteStore
from engine.store.wrapper import WatchedStore
from engine.testing import Environment
from tests.cli import changed, same
from tests.cli.conftest import run
from tests.page.served import asks, part, stuck, waits


async def live(file: Path) -> dict[str, str]:
    """A store with executions that wait; their ids by workflow."""
    async with Environment([waits, part, asks, stuck], SqliteStore(file)) as env:
        ids = {flow.name: (await env.start(flow, "a")).execution_id for flow in (waits, asks, stuck)}
        await env.settle()
    return ids


async def test_code_that_carries_on_breaks_nothing(tmp_path: Path) -> None:
    await live(tmp_path / "s.sqlite")
    ran = run("check-deploy", "--module", "tests.cli.same", "--store", str(tmp_path / "s.sqlite"))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "3 of 3 live executions replayed, 0 would break\n"


async def test_it_says_which_execution_breaks_and_why(tmp_path: Path) -> None:
    """A step that is another one, and a workflow that is gone."""
    ids = await live(tmp_path / "s.sqlite")
    store = ("--store", str(tmp_path / "s.sqlite"))
    ran = run("check-deploy", "--module", "tests.cli.changed", *store, "--all")
    assert ran.code == 1
    *broken, total = ran.out.splitlines()
    gone, other = sorted(broken)
    assert gone.startswith(f"breaks: stuck 1 {ids['stuck']}: UnknownWorkflow: no workflow is named 'stuck'")
    assert other.startswith(f"breaks: waits 1 {ids['waits']}: NonDeterminism: event 1 of the history records")
    assert total == "3 of 3 live executions replayed, 2 would break"
    one = run("check-deploy", "--module", "tests.cli.changed", *store, "--filter", "workflow:waits", "--json")
    assert (one.code, one.json["live"]) == (1, 1)
    assert [found["executionId"] for found in one.json["breaks"]] == [ids["waits"]]
    assert run("check-deploy", "--module", "tests.cli.changed", *store, "--filter", "workflow:asks").code == 0
    assert run("check-deploy", "--module", "tests.cli.changed", *store, "--filter", "a:b").code == 2


async def test_what_is_broken_today_is_told_and_not_counted(tmp_path: Path) -> None:
    """And what the code here would cure."""
    file = tmp_path / "s.sqlite"
    ids = await live(file)
    async with Environment(changed.WORKFLOWS, SqliteStore(file)) as env:
        await env.client.resume(ids["waits"])
        await env.settle()
        assert (await env.status(ids["waits"])).cause is not None
    runtime = Runtime.from_environment([], {"ENGINE_SQLITE_FILE": str(file)})
    found = await replay_live(runtime, changed.WORKFLOWS, "workflow:waits", None)
    assert (found.breaks, [one["executionId"] for one in found.already]) == ([], [ids["waits"]])
    found = await replay_live(runtime, same.WORKFLOWS, "workflow:waits", None)
    assert (found.breaks, [one["executionId"] for one in found.cured]) == ([], [ids["waits"]])
    await runtime.close()


class Halved(WatchedStore):
    """The first history that it reads lacks its beginning, as if the execution had begun anew meanwhile."""

    async def load(self, execution_id: str, from_chunk: int = 0) -> Loaded:
        loaded = await super().load(execution_id, from_chunk)
        return replace(loaded, chunks=loaded.chunks[1:]) if self.count("load") == 1 else loaded


async def test_what_was_read_in_halves_breaks_nothing(tmp_path: Path) -> None:
    await live(tmp_path / "s.sqlite")
    store = Halved(SqliteStore(tmp_path / "s.sqlite"))
    runtime = Runtime([], lambda: store)
    found = await replay_live(runtime, same.WORKFLOWS, "workflow:waits", None)
    assert (found.replayed, found.breaks) == (1, [])
    assert store.count("load") == 2
    await runtime.close()


async def test_a_sample_has_some_of_each_workflow(tmp_path: Path) -> None:
    file = tmp_path / "s.sqlite"
    async with Environment([waits, part, asks], SqliteStore(file)) as env:
        for number in range(5):
            await env.start(asks, str(number))
        await env.start(waits, "a")
        await env.settle()
    runtime = Runtime.from_environment([], {"ENGINE_SQLITE_FILE": str(file)})
    found = await replay_live(runtime, same.WORKFLOWS, "", 2)
    assert (found.live, found.replayed, found.breaks) == (6, 3, [])
    await runtime.close()
