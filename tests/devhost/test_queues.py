"""Queue triggers and outputs: messages come until their function has ended well, and hosts share a queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest

from devhost.functions import Function, QueueOutput
from devhost.invoke import InvocationError, Invoker
from devhost.listener import INVISIBLE_SECONDS, QueueListener
from devhost.queues import KEPT_SECONDS, MAX_BYTES, Queues
from devhost.settings import QueueSettings
from engine import Runtime
from engine.boundary.functions import blueprint
from engine.boundary.hints import to_message
from engine.driving.hand_overs import Hint
from engine.driving.notices import Notice
from engine.ground.errors import Unavailable
from engine.store.sqlite.store import SqliteStore
from tests.devhost.support import FakeClock, queue_function, settle

SETTINGS = QueueSettings(batch_size=4, new_batch_threshold=2, poll_seconds=1, retry_seconds=10, max_dequeues=3)


class Site:
    """Hosts on one queue file, and what they were given."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        self.queues = Queues(path)
        self.given: list[str] = []
        self.fails = 0
        self.gate: asyncio.Event | None = None
        self.hosts: list[tuple[QueueListener, asyncio.Task[None]]] = []
        self._opened = [self.queues]
        self._path = path

    async def listen(self, message: func.QueueMessage) -> None:
        self.given.append(message.get_body().decode())
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            self.fails -= 1
            raise ValueError("not today")

    def start(self, call: Any = None) -> asyncio.Task[None]:
        invoker = Invoker(self.clock, None)
        queues = Queues(self._path)
        self._opened.append(queues)
        listener = QueueListener(queues, queue_function(call or self.listen), SETTINGS, invoker, self.clock)
        task = asyncio.create_task(listener.run())
        self.hosts.append((listener, task))
        return task

    async def send(self, *bodies: str) -> None:
        await self.queues.send("q", [body.encode() for body in bodies], self.clock.time())

    async def stop(self) -> None:
        for listener, _ in self.hosts:
            listener.stop()
        if self.gate is not None:
            self.gate.set()
        await asyncio.gather(*(task for _, task in self.hosts), return_exceptions=True)
        for queues in self._opened:
            queues.close()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path / "queues.sqlite")
    yield site
    await site.stop()


async def test_a_message_comes_once_and_is_gone(site: Site) -> None:
    await site.send("a", "b")
    site.start()
    await site.clock.advance(1)
    assert site.given == ["a", "b"]
    await site.clock.advance(10 * INVISIBLE_SECONDS)
    assert site.given == ["a", "b"]
    assert await site.queues.count("q") == 0


async def test_hosts_share_a_queue(site: Site) -> None:
    site.gate = asyncio.Event()
    site.start()
    site.start()
    await site.send(*map(str, range(20)))
    await site.clock.advance(1)
    assert len(site.given) == len(set(site.given)) == 2 * SETTINGS.batch_size
    site.gate.set()
    await site.clock.advance(5)
    assert sorted(site.given, key=int) == [str(n) for n in range(20)]


async def test_a_failed_message_comes_again_later_and_is_poison_in_the_end(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.fails = 100
    await site.send("bad")
    site.start()
    await site.clock.advance(1)
    assert site.given == ["bad"]
    await site.clock.advance(SETTINGS.retry_seconds - 2)
    assert site.given == ["bad"]
    await site.clock.advance(4)
    assert site.given == ["bad"] * 2
    await site.clock.advance(100)
    assert site.given == ["bad"] * SETTINGS.max_dequeues
    assert (await site.queues.count("q"), await site.queues.count("q-poison")) == (0, 1)
    assert "moves to q-poison" in caplog.text


async def test_the_engine_gives_notice_when_a_hint_becomes_poison(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The store is away at each delivery. The message says which delivery it is, as in Azure."""
    monkeypatch.setenv("AZURE_FUNCTIONS_ENVIRONMENT", "Development")
    monkeypatch.setattr("engine.boundary.hints.MAX_DELIVERIES", SETTINGS.max_dequeues)
    runtime = Runtime([], lambda: SqliteStore(":memory:"))
    app = func.FunctionApp()
    app.register_functions(blueprint(runtime))
    drive_one = next(f.get_user_function() for f in app.get_functions() if f.get_function_name() == "drive_one")

    async def away(*_: object) -> None:
        site.given.append("away")
        raise Unavailable("nobody answers")

    async def listen(message: func.QueueMessage) -> None:
        await drive_one(message, None)

    monkeypatch.setattr(runtime.worker, "drive_one", away)
    await site.send(to_message(Hint("0" * 32)))
    site.start(listen)
    await site.clock.advance(100)
    assert site.given == ["away"] * SETTINGS.max_dequeues
    assert await site.queues.count("q-poison") == 1
    (notice,) = (record for record in caplog.records if hasattr(record, "notice"))
    assert (notice.__dict__["notice"], notice.__dict__["execution_id"]) == (Notice.POISONED, "0" * 32)
    await runtime.close()


async def test_a_message_stays_invisible_while_its_function_runs(site: Site) -> None:
    site.gate = asyncio.Event()
    await site.send("long")
    site.start()
    await site.clock.advance(1)
    site.start()
    await site.clock.advance(10 * INVISIBLE_SECONDS)
    assert site.given == ["long"]
    site.gate.set()
    await site.clock.advance(1)
    assert await site.queues.count("q") == 0


async def test_another_host_gets_the_message_of_one_that_died(site: Site) -> None:
    site.gate = asyncio.Event()
    await site.send("one")
    dead = site.start()
    await site.clock.advance(1)
    dead.cancel()
    await settle()
    seen: list[int | None] = []

    async def note(message: func.QueueMessage) -> None:
        seen.append(message.dequeue_count)

    site.start(note)
    await site.clock.advance(INVISIBLE_SECONDS - 5)
    assert seen == []
    await site.clock.advance(10)
    assert seen == [2]


async def test_who_lost_a_message_neither_deletes_nor_hides_it(site: Site) -> None:
    await site.send("one")
    (first,) = await site.queues.receive("q", 1, site.clock.time(), 5)
    (second,) = await site.queues.receive("q", 1, site.clock.time() + 6, 5)
    assert not await site.queues.delete(first)
    assert not await site.queues.hide(first, 0)
    assert await site.queues.delete(second)


async def test_a_message_that_nobody_receives_is_dropped(site: Site) -> None:
    await site.send("old")
    assert await site.queues.receive("q", 1, site.clock.time() + KEPT_SECONDS, 5) == []
    assert await site.queues.count("q") == 0


async def test_a_host_that_stops_takes_no_further_message(site: Site) -> None:
    site.gate = asyncio.Event()
    await site.send("running")
    running = site.start()
    await site.clock.advance(1)
    site.hosts[0][0].stop()
    await site.send("late")
    await site.clock.advance(5)
    assert not running.done()
    site.gate.set()
    await running
    assert (site.given, await site.queues.count("q")) == (["running"], 1)


async def test_a_queue_that_is_away_is_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.send("a")
    with monkeypatch.context() as away:
        away.setattr(Queues, "_open", lambda _: 1 / 0)
        site.start()
        await site.clock.advance(5)
        assert site.given == []
    await site.clock.advance(5)
    assert site.given == ["a"]


def _sender(value: object, error: Exception | None = None) -> Function:
    def send(message: object, out: func.Out[Any]) -> None:
        out.set(value)
        if error is not None:
            raise error

    function = queue_function(send)
    return Function(**{**vars(function), "outputs": (QueueOutput("out", "sent"),)})


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("text", [b"text"]),
        (b"bytes", [b"bytes"]),
        (["a", "b"], [b"a", b"b"]),
        ([], []),
        (None, []),
        (func.QueueMessage(body="body"), [b"body"]),
    ],
)
async def test_what_a_function_sets_is_sent(site: Site, value: object, messages: list[bytes]) -> None:
    invoker = Invoker(site.clock, None, None, site.queues)
    await invoker.call(_sender(value), None)
    received = await site.queues.receive("sent", 32, site.clock.time(), 5)
    assert sorted(message.body for message in received) == messages


async def test_a_function_that_fails_sends_nothing(site: Site) -> None:
    invoker = Invoker(site.clock, None, None, site.queues)
    with pytest.raises(InvocationError):
        await invoker.call(_sender("text", InvocationError("no")), None)
    assert await site.queues.count("sent") == 0


async def test_a_message_that_cannot_be_sent_fails_the_invocation(site: Site) -> None:
    invoker = Invoker(site.clock, None, None, site.queues)
    with pytest.raises(ValueError, match="more than 49,152 bytes"):
        await invoker.call(_sender(["ok", "x" * (MAX_BYTES + 1)]), None)
    assert await site.queues.count("sent") == 0
