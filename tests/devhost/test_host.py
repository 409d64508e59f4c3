"""The host as a whole, in one process: what it starts, and in which order it stops."""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from devhost.host import Host, Options
from devhost.left_out import ALWAYS, left_out
from devhost.loader import load
from devhost.settings import HostSettings, LoadError, load_host_settings
from devhost.user import StandIn
from tests.deploy.infra.code import ROOT
from tests.devhost.support import FakeClock, MemoryBench, load_app, settle

APP = """
import asyncio

class Runtime:
    def __init__(self):
        self.events = []
        self.feed = None
    async def change_feed(self):
        return self.feed
    async def close(self):
        self.events.append("closed")

runtime = Runtime()
entered, gate = asyncio.Event(), asyncio.Event()

@app.route(route="wait", auth_level="anonymous")
async def wait(req: func.HttpRequest) -> str:
    runtime.events.append("request")
    entered.set()
    try:
        await gate.wait()
    finally:
        runtime.events.append("answered")
    return "done"

@app.route(route="locked")
async def locked(req: func.HttpRequest) -> str:
    return req.get_body().hex()

@app.timer_trigger(arg_name="timer", schedule="0 * * * * *")
async def sweep(timer: func.TimerRequest) -> None:
    runtime.events.append("tick")

@app.cosmos_db_trigger(arg_name="docs", connection="C", database_name="d", container_name="c")
async def drive(docs: func.DocumentList) -> None:
    runtime.events.append("batch")
    if docs[0]["id"] == "slow":
        await asyncio.Event().wait()
"""


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def start(app_path: Path, clock: FakeClock, **options: float | str) -> tuple[Host, str, Any]:
    app = load_app(app_path, APP)
    runtime = app.module.runtime
    runtime.feed = MemoryBench(2)
    runtime.feed.put(0, "a")
    host = Host(app, HostSettings(), Options(port=0, **options), clock)  # type: ignore[arg-type]
    return host, await host.start(), runtime


async def test_everything_runs_and_stops_in_order(
    app_path: Path, clock: FakeClock, session: aiohttp.ClientSession
) -> None:
    host, url, runtime = await start(app_path, clock)
    await clock.advance(60)
    assert sorted(runtime.events) == ["batch", "tick"]

    waiting = asyncio.ensure_future(session.get(f"{url}/api/wait"))
    await host._app.module.entered.wait()
    stopping = asyncio.ensure_future(host.stop())
    await settle()
    # Nobody new is let in, and who is inside may finish.
    with pytest.raises(aiohttp.ClientConnectionError):
        await session.get(f"{url}/admin/host/status")
    assert not stopping.done()
    assert "closed" not in runtime.events
    host._app.module.gate.set()
    response = await waiting
    assert (response.status, await response.text()) == (200, "done")
    await stopping
    assert runtime.events[-3:] == ["request", "answered", "closed"]
    assert [lease.owner for lease in await runtime.feed.leases()] == [None, None]

    ticks = len(runtime.events)
    await clock.advance(600)
    assert len(runtime.events) == ticks


async def test_what_outlasts_the_grace_period_is_cancelled(
    app_path: Path, clock: FakeClock, session: aiohttp.ClientSession
) -> None:
    host, url, runtime = await start(app_path, clock, grace_seconds=0.01)
    waiting = asyncio.ensure_future(session.get(f"{url}/api/wait"))
    await host._app.module.entered.wait()
    await host.stop()
    assert runtime.events[-2:] == ["answered", "closed"]
    with pytest.raises(aiohttp.ClientConnectionError):
        await waiting


async def test_a_batch_that_outlasts_the_grace_period_is_left_to_another_host(app_path: Path, clock: FakeClock) -> None:
    host, _, runtime = await start(app_path, clock, grace_seconds=0.01)
    runtime.feed.put(1, "slow")
    await clock.advance(5)
    await host.stop()
    leases = await runtime.feed.leases()
    assert [(lease.owner, lease.continuation) for lease in leases] == [(None, "1"), (None, None)]
    assert runtime.events[-1] == "closed"


async def test_compressed_bodies_are_left_to_the_app(
    app_path: Path, clock: FakeClock, session: aiohttp.ClientSession
) -> None:
    host, url, _ = await start(app_path, clock)
    body = zlib.compress(bytes(100))
    async with session.post(f"{url}/api/locked", data=body, headers={"Content-Encoding": "deflate"}) as response:
        assert await response.text() == body.hex()
    await host.stop()


async def test_a_port_that_is_taken(app_path: Path, clock: FakeClock) -> None:
    host, url, _ = await start(app_path, clock)
    other = Host(host._app, HostSettings(), Options(port=int(url.rpartition(":")[2])), clock)
    with pytest.raises(OSError, match="address already in use"):
        await other.start()
    await other.stop()
    await host.stop()


async def test_the_banner_tells_where_everything_is(app_path: Path, clock: FakeClock) -> None:
    host, url, _ = await start(app_path, clock, key="sesame")
    banner = host.banner(url)
    assert f"http   wait: any {url}/api/wait\n" in banner
    assert f"http   locked: any {url}/api/locked  (key)\n" in banner
    assert "timer  sweep: 0 * * * * *\n" in banner
    assert "feed   drive: up to 100 documents, read every 5 s\n" in banner
    assert "sesame" in banner
    assert banner.endswith("\n".join(f"    {line}" for line in ALWAYS) + "\n")
    await host.stop()


async def test_with_a_user_the_pages_are_opened_with_the_key(app_path: Path, clock: FakeClock) -> None:
    """Every function is anonymous then. What a browser opens without the key, nobody has signed in to."""
    for user, code in ((None, ""), (StandIn("Ada", ("reader",)), "?code=sesame")):
        app = load_app(
            app_path, "@app.route(route='f', methods=['GET'], auth_level='anonymous')\ndef f(req): return 'f'"
        )
        host = Host(app, HostSettings(), Options(port=0, key="sesame", user=user), clock)
        assert f"  open   URL/api/f{code} in a browser\n" in host.banner("URL")


def test_what_an_app_asks_for_and_does_not_get_is_said(app_path: Path) -> None:
    source = """
    @app.route(route="a")
    @app.retry("fixed_delay", "3", delay_interval="00:00:02")
    def a(req: func.HttpRequest) -> str: ...

    @app.timer_trigger("timer", "0 * * * * *")
    @app.retry("fixed_delay", "3", delay_interval="00:00:02")
    def tick(timer: func.TimerRequest) -> None: ...

    @app.blob_trigger(arg_name="blob", path="p", connection="C")
    def listen(blob: func.InputStream) -> None: ...
    """
    asked = left_out(load_app(app_path, source), HostSettings(left_out=("logging", "extensions.cosmosDB")))
    assert asked[: -len(ALWAYS)] == [
        "function listen: this host can't serve a blobTrigger",
        "the retry policy of a: it has no effect on its httpTrigger, in Azure either",
        "in host.json: logging, extensions.cosmosDB",
    ]


def test_every_function_of_the_engine_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local host runs each trigger and binding that the platform gets, and each retry policy has its effect."""
    monkeypatch.chdir(ROOT)
    for name, value in {"COSMOS_DATABASE": "d", "COSMOS_CONTAINER": "c", "COSMOS_LEASE_PREFIX": "p"}.items():
        monkeypatch.setenv(name, value)
    app = load("function_app", os.environ)
    bound = {(function.binding, function.name) for function in app.functions if function.binding != "httpTrigger"}
    assert bound == {("cosmosDBTrigger", "drive_changes"), ("timerTrigger", "sweep"), ("queueTrigger", "drive_one")}
    settings = load_host_settings(ROOT / "host.json")
    unused = ["in host.json: extensionBundle, logging, extensions.cosmosDB"]
    assert left_out(app, settings)[: -len(ALWAYS)] == unused


async def test_a_feed_trigger_needs_a_runtime(app_path: Path, clock: FakeClock) -> None:
    for change in ("del runtime", "runtime = object()"):
        app = load_app(app_path, APP + f"\n{change}\n")
        with pytest.raises(LoadError, match=r"no `runtime\.change_feed\(\)`"):
            Host(app, HostSettings(), Options(port=0), clock)


async def test_a_runtime_that_fails_to_close_does_not_keep_the_host(
    app_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    host, _, runtime = await start(app_path, clock)

    async def close() -> None:
        raise ValueError("can't close")

    runtime.close = close
    await host.stop()
    assert "ValueError: can't close" in caplog.text


async def test_an_app_without_a_runtime_is_fine(app_path: Path, clock: FakeClock) -> None:
    app = load_app(app_path, "@app.route(route='f')\ndef f(req): return 'f'")
    host = Host(app, HostSettings(), Options(port=0), clock)
    await host.start()
    await host.stop()
