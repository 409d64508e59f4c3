"""The deterministic loop by itself: order, time, what it refuses, and how it drops what is parked."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from engine.core import loop as loops
from engine.core.loop import DurableLoop, DurableTimer
from engine.core.refusals import CURES
from engine.ground.errors import Fault, NonDeterminism, NotDurable

NOW = 1_000.0


class Owner:
    """Keeps the timers of a loop in the order in which they were opened."""

    def __init__(self) -> None:
        self.timers: list[DurableTimer] = []

    def timer_opened(self, timer: DurableTimer) -> None:
        self.timers.append(timer)

    def timer_closed(self, timer: DurableTimer) -> None:
        if timer in self.timers:
            self.timers.remove(timer)


def new_loop() -> tuple[DurableLoop, Owner]:
    owner = Owner()
    return DurableLoop(NOW, owner), owner  # type: ignore[abstract]


def run(body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """The result of a body that waits for nothing from outside."""
    loop, _ = new_loop()
    task = loop.create_task(body())
    loop.run_until_idle()
    loop.close()
    return task.result()


def test_callbacks_run_in_the_order_of_their_calls() -> None:
    """First in, first out; what a callback adds comes last; a cancelled one never runs."""
    loop, _ = new_loop()
    seen: list[object] = []
    loop.call_soon(seen.append, 1)
    loop.call_soon(lambda: loop.call_soon(seen.append, "added"))
    loop.call_soon(seen.append, "cancelled").cancel()
    loop.call_later(0, seen.append, 2)
    loop.call_later(-5, seen.append, 3)
    loop.call_at(NOW, seen.append, 4)
    assert seen == [], "nothing runs before the turn"
    loop.run_until_idle()
    assert seen == [1, 2, 3, 4, "added"]


def test_time_stands_still_until_the_owner_moves_it() -> None:
    """`time()` is what the owner says; a timer fires when the owner fires it, and not by itself."""
    loop, owner = new_loop()
    seen: list[float] = []
    loop.call_later(10, lambda: seen.append(loop.time()))
    loop.now = NOW + 60
    loop.run_until_idle()
    assert seen == []
    assert [timer.when() for timer in owner.timers] == [NOW + 10]
    loop.fire(owner.timers[0])
    loop.run_until_idle()
    assert seen == [NOW + 60]


def test_a_timer_that_is_cancelled_is_closed() -> None:
    """The owner forgets it; one that was fired and then cancelled doesn't run."""
    loop, owner = new_loop()
    seen: list[str] = []
    timer = loop.call_later(10, seen.append, "never")
    timer.cancel()
    assert owner.timers == []
    late = loop.call_later(10, seen.append, "never")
    loop.fire(owner.timers[0])
    late.cancel()
    loop.run_until_idle()
    assert seen == []


def test_not_a_number_is_no_time() -> None:
    """asyncio compares deadlines: NaN would be neither past nor future."""
    loop, _ = new_loop()
    with pytest.raises(ValueError, match="NaN"):
        loop.call_later(float("nan"), print)


def test_tasks_and_futures_hash_by_their_number() -> None:
    """So that sets of them are walked in the order of their making; two are never equal."""
    loop, _ = new_loop()
    futures = [loop.create_future() for _ in range(5)]
    assert [hash(future) for future in futures] == [1, 2, 3, 4, 5]
    assert list({*reversed(futures)}) == futures
    assert futures[0] == futures[0]
    assert futures[0] != futures[1]

    async def body() -> None:
        return None

    task = loop.create_task(body())
    assert hash(task) == 6
    assert task.get_name() == "task-6"
    loop.run_until_idle()


def test_the_host_gets_its_place_back() -> None:
    """Running loop and generator hooks are the host's again after a turn, also after one that raised."""

    async def host() -> None:
        outer, hooks = asyncio.get_running_loop(), sys.get_asyncgen_hooks()
        loop, _ = new_loop()
        seen: list[object] = []
        loop.call_soon(lambda: seen.append(asyncio.get_running_loop()))
        loop.call_soon(lambda: loop.declare(NotDurable("it")))
        with pytest.raises(NotDurable):
            loop.run_until_idle()
        assert seen == [loop]
        assert asyncio.get_running_loop() is outer
        assert sys.get_asyncgen_hooks() == hooks
        loop.close()
        assert asyncio.get_running_loop() is outer

    asyncio.run(host())


def test_the_first_fault_is_the_one_that_counts() -> None:
    """It is raised at the end of the turn, and of every turn after it."""
    loop, _ = new_loop()
    first, second = NonDeterminism("first"), NotDurable("second")
    assert loop.declare(first) is first
    assert loop.declare(second) is second
    for _ in range(2):
        with pytest.raises(Fault) as raised:
            loop.run_until_idle()
        assert raised.value is first


def test_a_loop_that_spins_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that goes on and on would hold the host for ever."""
    monkeypatch.setattr(loops, "MAX_CALLBACKS_PER_TURN", 100)

    async def spins() -> None:
        while True:  # noqa: ASYNC110 - the fault under test
            await asyncio.sleep(0)

    loop, _ = new_loop()
    loop.create_task(spins())
    with pytest.raises(NotDurable, match="spins"):
        loop.run_until_idle()
    loop.close()


REFUSED = sorted(
    name
    for name in dir(asyncio.AbstractEventLoop)
    if not name.startswith("_") and getattr(DurableLoop, name).__qualname__.endswith("refuse")
)


@pytest.mark.parametrize("name", REFUSED)
def test_what_touches_the_machine_is_refused_at_the_call(name: str) -> None:
    """Whatever the arguments, before anything is done; the message names it, and the loop remembers."""
    loop, _ = new_loop()
    with pytest.raises(NotDurable) as refused:
        getattr(loop, name)()
    assert name in str(refused.value) or CURES[name] in str(refused.value)
    assert loop.fault is refused.value


def test_nothing_of_a_loop_is_left_open() -> None:
    """Each method of asyncio's loops is either the durable loop's own or refused, also those of later CPythons."""
    own = {name for name in vars(DurableLoop) if not name.startswith("_")} - set(REFUSED)
    methods = {name for name in dir(asyncio.AbstractEventLoop) if not name.startswith("_")}
    assert methods - own == set(REFUSED)
    assert {"run_in_executor", "sock_recv", "create_connection", "subprocess_exec", "add_reader"} <= set(REFUSED)
    assert {"call_soon", "call_later", "call_at", "time", "create_task", "create_future"} <= own


def test_what_is_no_coroutine_makes_no_task() -> None:
    loop, _ = new_loop()
    with pytest.raises(TypeError, match="a coroutine was expected"):
        loop.create_task(3)  # type: ignore[arg-type]


def test_a_result_is_the_bodys_own() -> None:
    """Results, exceptions and cancellation pass through the guard around a task unchanged."""

    async def body() -> str:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, KeyError("it"))
        try:
            await future
        except KeyError as error:
            return f"caught {error}"
        return "not caught"

    assert run(body) == "caught 'it'"


def test_close_drops_what_is_parked_at_once() -> None:
    """On this thread, without a callback, a timer or a task of theirs coming to anything."""
    loop, owner = new_loop()
    seen: list[tuple[str, bool]] = []

    async def parked() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            seen.append(("left", threading.current_thread() is threading.main_thread()))
            loop.call_soon(seen.append, ("never", False))
            loop.call_later(5, seen.append, ("never", False))
            loop.create_task(parked())
            await asyncio.sleep(0)
            seen.append(("never", False))

    for _ in range(3):
        loop.create_task(parked())
    loop.run_until_idle()
    gc.collect()
    assert seen == [], "the loop itself holds what is parked"
    loop.close()
    assert loop.is_closed()
    assert seen == [("left", True)] * 3
    assert owner.timers == []
    gc.collect()
    assert seen == [("left", True)] * 3
