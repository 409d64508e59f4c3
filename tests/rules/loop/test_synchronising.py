"""What tasks of one workflow use to wait for each other keeps its order through any crash and in every replay."""

import asyncio
import contextvars
from collections.abc import AsyncIterator

from engine import Deferred, Workflow, workflow
from tests.support.recovery import Scenario, Signal, completes, interrupts, survives_crashes
from tests.support.steps import chain, say

answer = Deferred("synchronising.answer", str)
never = Deferred("synchronising.never", str)
color = contextvars.ContextVar("color", default="none")


async def _trace(body: Workflow[[], list[str]], *signals: Signal) -> list[str]:
    whole = await survives_crashes(Scenario(body, signals=signals))
    value: list[str] = whole.value
    return value


@workflow
async def with_event() -> list[str]:
    trace: list[str] = []
    event = asyncio.Event()

    async def waiter(name: str) -> None:
        await event.wait()
        trace.append(await say(name))

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(waiter(name))
        trace.append(await answer)
        event.set()
    return trace


@workflow
async def with_lock() -> list[str]:
    trace: list[str] = []
    lock = asyncio.Lock()

    async def worker(name: str) -> None:
        async with lock:
            await chain(name, 2, trace)

    await asyncio.gather(*(worker(name) for name in "abc"))
    return trace


@workflow
async def with_semaphore() -> list[str]:
    trace: list[str] = []
    places = asyncio.BoundedSemaphore(2)
    inside = 0

    async def worker(name: str) -> None:
        nonlocal inside
        async with places:
            inside += 1
            trace.append(f"{name} beside {inside - 1}")
            await say(name)
            inside -= 1

    await asyncio.gather(*(worker(name) for name in "abcd"))
    return trace


@workflow
async def with_queue() -> list[str]:
    trace: list[str] = []
    queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1)

    async def consume(name: str) -> None:
        while True:
            trace.append(await say(f"{name} took {await queue.get()}"))
            queue.task_done()

    consumers = [asyncio.create_task(consume(name)) for name in ("one", "two")]
    for item in "abcd":
        await queue.put(item)
    await queue.join()
    for consumer in consumers:
        consumer.cancel()
    urgent: asyncio.PriorityQueue[int] = asyncio.PriorityQueue()
    for number in (3, 1, 2):
        urgent.put_nowait(number)
    return [*trace, *[str(await urgent.get()) for _ in range(3)]]


@workflow
async def with_condition() -> list[str]:
    trace: list[str] = []
    condition, ready = asyncio.Condition(), 0

    async def waiter(name: str, least: int) -> None:
        async with condition:
            await condition.wait_for(lambda: ready >= least)
            trace.append(await say(name))

    async with asyncio.TaskGroup() as group:
        for name, least in (("a", 2), ("b", 1), ("c", 2)):
            group.create_task(waiter(name, least))
        for _ in range(2):
            await say("ready")
            async with condition:
                ready += 1
                condition.notify_all()
    return trace


@workflow
async def with_barrier() -> list[str]:
    trace: list[str] = []
    barrier = asyncio.Barrier(3)

    async def worker(name: str, steps: int) -> None:
        await chain(name, steps, trace)
        trace.append(f"{name} passes as {await barrier.wait()}")

    await asyncio.gather(*(worker(name, steps) for name, steps in (("a", 2), ("b", 1), ("c", 3))))
    return trace


@workflow
async def with_tasks() -> list[str]:
    trace: list[str] = []

    async def child(name: str) -> str:
        task = asyncio.current_task()
        assert task is not None
        color.set(name)
        trace.append(f"{task.get_name()} {await say(name)} {color.get()}")
        return name

    named = asyncio.create_task(child("red"), name="named")
    named.add_done_callback(lambda task: trace.append(f"done {task.result()}"))
    other = asyncio.create_task(child("blue"), name="other")
    asyncio.get_running_loop().call_later(60, trace.append, "called later")
    await asyncio.sleep(120)
    return [*trace, await named, await other, color.get()]


@workflow
async def with_cancellation() -> list[str]:
    trace: list[str] = []

    async def cleans_up() -> None:
        try:
            await never
        except asyncio.CancelledError as error:
            trace.append(await say(f"cleaned up: {error}"))
            raise

    async def refuses() -> str:
        try:
            return await never
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            return await say("stays")

    async def unstarted() -> None:
        trace.append("never seen")

    cleaning, refusing = asyncio.create_task(cleans_up()), asyncio.create_task(refuses())
    trace.append(await answer)
    too_early = asyncio.create_task(unstarted())
    for task in (cleaning, refusing, too_early):
        task.cancel("enough")
    results = await asyncio.gather(cleaning, refusing, too_early, return_exceptions=True)
    return [*trace, *(type(r).__name__ if isinstance(r, BaseException) else str(r) for r in results)]


@workflow
async def with_generators() -> list[str]:
    trace: list[str] = []

    async def letters(name: str) -> AsyncIterator[str]:
        try:
            for letter in "abc":
                yield await say(f"{name} {letter}")
        finally:
            trace.append(await say(f"{name} closed"))

    trace += [letter async for letter in letters("whole")]
    closed = letters("closed")
    trace.append(await anext(closed))
    await closed.aclose()  # type: ignore[attr-defined]
    async for letter in letters("dropped"):
        trace.append(letter)
        break
    return [*trace, await say("after")]


@workflow
async def ends_tidily() -> list[str]:
    trace: list[str] = []
    try:
        await chain("work", 2, trace)
        await never
    except asyncio.CancelledError:
        trace.append(await say("cleaned up"))
    return trace


async def test_event() -> None:
    """Event: all waiters go on, in the order in which they came."""
    assert await _trace(with_event, completes(answer, "answered")) == ["answered", "a", "b", "c"]


async def test_lock() -> None:
    """Lock: one at a time, first come first served, over steps."""
    assert await _trace(with_lock) == ["a1", "a2", "b1", "b2", "c1", "c2"]


async def test_semaphore() -> None:
    """BoundedSemaphore: no more than its number, in order."""
    assert await _trace(with_semaphore) == ["a beside 0", "b beside 1", "c beside 1", "d beside 1"]


async def test_queue() -> None:
    """Queue and PriorityQueue: each item once, in order; join waits for all."""
    takes = ["one took a", "two took b", "one took c", "two took d"]
    assert await _trace(with_queue) == [*takes, "1", "2", "3"]


async def test_condition() -> None:
    """Condition: only those whose predicate holds go on."""
    assert await _trace(with_condition) == ["b", "a", "c"]


async def test_barrier() -> None:
    """Barrier: nobody passes before the last has come, and each knows its place."""
    assert await _trace(with_barrier) == [
        *("a1", "b1", "c1", "a2", "c2", "c3"),
        *("c passes as 2", "b passes as 0", "a passes as 1"),
    ]


async def test_tasks() -> None:
    """create_task: names, callbacks, a context of its own, and call_later as a durable timer."""
    assert await _trace(with_tasks) == [
        *("named red red", "done red", "other blue blue", "called later"),
        *("red", "blue", "none"),
    ]


async def test_cancellation() -> None:
    """cancel: with cleanup by steps, refused with uncancel, and before the task has begun."""
    assert await _trace(with_cancellation, completes(answer, "answered")) == [
        *("answered", "cleaned up: enough"),
        *("CancelledError", "stays", "CancelledError"),
    ]


async def test_async_generators() -> None:
    """Async generators: run to their end, closed, and dropped unfinished, which runs nothing of theirs."""
    assert await _trace(with_generators) == [
        *("whole closed", "whole a", "whole b", "whole c"),
        *("closed a", "closed closed", "dropped a", "after"),
    ]


async def test_an_interrupt_is_an_event_like_any_other() -> None:
    """It comes as a cancellation, at its place in the history, and cleanup by steps survives any crash."""
    whole = await survives_crashes(Scenario(ends_tidily, signals=[interrupts]))
    assert whole.status.outcome == "interrupted"
    assert [what[0] for what in whole.order] == ["activity", "activity", "interrupted", "activity"]
