"""SIGTERM stops the runtime, once it was opened, and only where nobody else handles the signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from engine.boundary.stopping import stop_on_sigterm
from tests.support.processes import until


class Stopped:
    """Stands in for a runtime, and notes what happens to it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.notes: list[str] = []
        self.closed = asyncio.Event()
        self._error = error

    def drain(self) -> None:
        self.notes.append("drained")

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.notes.append("closed")
        self.closed.set()
        if self._error is not None:
            raise self._error


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The signals that this process would have sent to itself, from a default action on."""
    signals: list[int] = []
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr("engine.boundary.stopping.os.kill", lambda _, number: signals.append(number))
    yield signals
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("error", [None, RuntimeError("the store hangs")])
async def test_sigterm_drains_closes_and_ends(error: Exception | None, sent: list[int]) -> None:
    """Whatever goes wrong meanwhile, the process ends. A second signal has its default action."""
    runtime = Stopped(error)
    stop_on_sigterm(runtime, asyncio.get_running_loop())
    signal.raise_signal(signal.SIGTERM)
    await until(lambda: bool(runtime.notes))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    await until(lambda: bool(sent))
    assert (runtime.notes, sent) == (["drained", "closed"], [signal.SIGTERM])


async def test_a_handler_of_the_host_stays(sent: list[int]) -> None:
    runtime, heard = Stopped(), list[int]()
    signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    stop_on_sigterm(runtime, asyncio.get_running_loop())
    signal.raise_signal(signal.SIGTERM)
    await asyncio.sleep(0)
    assert (heard, runtime.notes, sent) == ([signal.SIGTERM], [], [])


async def test_outside_of_the_main_thread_nothing_is_set(sent: list[int]) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.to_thread(stop_on_sigterm, Stopped(), loop)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
