"""What is wrong with an app, and what to do: one check for each thing, told even if another one fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine.store.sqlite.store import SqliteStore
from engine.testing import Environment
from tests.cli.conftest import Site, run
from tests.cosmos_double import CosmosDouble
from tests.page.served import stuck
from tests.stores.cosmos.support import set_up


def test_all_is_well(site: Site) -> None:
    ran = site.ok("doctor", "--store", str(site.store), "--json")
    assert {check["name"]: check["result"] for check in ran.json["checks"]} == dict.fromkeys(
        ("settings", "store", "executions", "change feed", "host"), "ok"
    )
    assert "ok       host: it answers, and the key is right\n" in site.ok("doctor").out


async def test_each_thing_that_is_wrong_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "s.sqlite"
    async with Environment([stuck], SqliteStore(file)) as env:
        await env.start(stuck, "a")
        await env.settle()
    ran = run("doctor", "--store", str(file), "--url", "http://127.0.0.1:1")
    assert (ran.code, ran.err) == (1, "")
    assert "problem  executions: 1 suspended with Stuck\n         durable list 'is:stuck error:Stuck'" in ran.out
    assert "problem  change feed: no host reads 4 of 4 ranges\n         start a host" in ran.out
    assert "problem  host: no answer from http://127.0.0.1:1/api" in ran.out
    ran = run("doctor", "--store", str(tmp_path / "none"), ENGINE_LEASE_SECONDS="x")
    assert "problem  settings: setting ENGINE_LEASE_SECONDS must be a number" in ran.out
    assert f"there is no file {tmp_path / 'none'}" in ran.out
    assert "skipped  host: no address" in ran.out


async def test_an_account_and_its_containers() -> None:
    """A container that is indexed otherwise is a problem; so is an account that isn't named whole."""
    async with CosmosDouble() as double:
        settings = {"COSMOS__accountEndpoint": double.endpoint, "COSMOS_KEY": double.key}
        container = set_up(double)
        ran = await asyncio.to_thread(run, "doctor", **settings)
        assert (ran.code, f"ok       store: Cosmos DB {double.endpoint}" in ran.out) == (0, True), ran
        assert "ok       containers: as the engine needs them" in ran.out
        assert double.key not in ran.out
        del double.account.database("workflows").containers[container.rules.definition["id"]]
        double.add_container("workflows", "executions", "/executionId")
        ran = await asyncio.to_thread(run, "doctor", **settings)
        assert ran.code == 1
        assert "problem  containers: container executions indexes ['/*']" in ran.out
    ran = run("doctor", COSMOS_KEY="a2V5")
    assert "problem  settings: setting COSMOS_KEY is set, but COSMOS__accountEndpoint isn't" in ran.out
