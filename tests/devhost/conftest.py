from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.devhost.feed_site import Site
from tests.devhost.support import Bench, FakeClock, MemoryBench, SqliteBench, settle


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def app_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory from which modules are imported, and forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("app_"):
            del sys.modules[name]


@pytest.fixture(params=["memory", "sqlite"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "memory":
        yield MemoryBench(4)
    else:
        bench = SqliteBench(tmp_path / "feed.sqlite", 4)
        yield bench
        bench.db.close()


@pytest.fixture
async def site(bench: Bench, clock: FakeClock) -> AsyncIterator[Site]:
    site = Site(bench, clock)
    yield site
    bench.down = False
    for listener, task in site.hosts:
        listener.stop()
        task.cancel()
    await settle()
    assert all(task.done() for _, task in site.hosts)
    site.invoker.close()
