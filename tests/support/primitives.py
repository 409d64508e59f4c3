"""One workflow for each asyncio primitive. Each returns the trace of what it saw, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from engine import ActivityError, Deferred, Workflow, workflow
from tests.support.crashes import echo, fail

answer = Deferred("primitives.answer", str)


async def chain(name: str, trace: list[str], steps: int = 2) -> str:
    for number in range(steps):
        said = await echo(f"{name}{number}")
        trace.append(said)
    return name


@workflow
async def gather_() -> list[str]:
    trace: list[str] = []
    assert await asyncio.gather() == []
    trace += await asyncio.gather(chain("a", trace), chain("b", trace, 3), echo("c"))
    return trace


@workflow
async def gather_exceptions() -> list[str]:
    trace: list[str] = []
    results = await asyncio.gather(echo("ok"), fail("bad"), echo("ok2"), return_exceptions=True)
    trace += [str(result) for result in results]
    try:
        await asyncio.gather(echo("ok3"), fail("bad2"), echo("ok4"))
    except ActivityError as error:
        trace.append(await echo(f"undo {error.message}"))
    return trace


@workflow
async def task_group() -> list[str]:
    trace: list[str] = []
    async with asyncio.TaskGroup() as group:
        pass
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(chain(name, trace)) for name in "abc"]
    trace += [task.result() for task in tasks]
    return trace


@workflow
async def task_group_abort() -> list[str]:
    trace: list[str] = []

    async def sibling(name: str) -> None:
        try:
            await answer
        finally:
            trace.append(f"{name} cancelled")

    try:
        async with asyncio.TaskGroup() as group:
            for name in "abcdef":
                group.create_task(sibling(name))
            group.create_task(fail("the group"))  # type: ignore[arg-type]
    except* ActivityError as errors:
        trace += [str(error) for error in errors.exceptions]
    return trace


@workflow
async def wait_first() -> list[str]:
    slow = asyncio.create_task(asyncio.sleep(60, "slow"))
    fast = asyncio.create_task(chain("fast", []))
    done, pending = await asyncio.wait({slow, fast}, return_when=asyncio.FIRST_COMPLETED)
    trace = [await task for task in done]
    for task in pending:
        task.cancel()
    return [*trace, str(len(pending)), await echo("after")]


@workflow
async def wait_all() -> list[str]:
    trace: list[str] = []
    try:
        await asyncio.wait([])
    except ValueError:
        trace.append("nothing to wait for")
    tasks = [asyncio.create_task(chain(str(number), trace)) for number in range(8)]
    done, _ = await asyncio.wait(tasks)
    return trace + [task.result() for task in done]


@workflow
async def as_completed_tasks() -> list[str]:
    tasks = [asyncio.create_task(chain(name, [], steps)) for name, steps in (("x", 3), ("y", 1), ("z", 2))]
    return [await echo(await next_done) for next_done in asyncio.as_completed(tasks)]


@workflow
async def as_completed_coroutines() -> list[str]:
    coroutines = [chain(name, [], steps) for name, steps in (("x", 3), ("y", 1), ("z", 2))]
    return [await echo(await next_done) for next_done in workflow.as_completed(coroutines)]


@workflow
async def wait_for() -> list[str]:
    trace = [await asyncio.wait_for(echo("in time"), 60)]
    try:
        await asyncio.wait_for(answer.wait(), 60)
    except TimeoutError:
        trace.append("timeout")
    return trace


@workflow
async def timeout() -> list[str]:
    trace: list[str] = []
    try:
        async with asyncio.timeout(3_600):
            trace.append(await echo("in time"))
            async with asyncio.timeout(600):
                await asyncio.sleep(1_200)
    except TimeoutError:
        trace.append(await echo("timeout"))
    return trace


@workflow
async def sleeps() -> list[str]:
    trace: list[str] = []
    loop = asyncio.get_running_loop()
    for seconds in (0, -5, 0.25, 60 * 86_400):
        before = loop.time()
        await asyncio.sleep(seconds)
        trace.append(f"{seconds}: {'at once' if loop.time() == before else loop.time() - before >= seconds}")
    for wrong in (None, "1"):
        try:
            await asyncio.sleep(wrong)  # type: ignore[arg-type]
        except TypeError:
            trace.append(f"{wrong!r} refused")
    return trace


@workflow
async def shield() -> list[str]:
    trace: list[str] = []
    inner = asyncio.create_task(chain("inner", trace))
    try:
        async with asyncio.timeout(0):
            await asyncio.shield(inner)
    except TimeoutError:
        trace.append("gave up")
    last = await inner
    return [*trace, last]


@workflow
async def event_lock_semaphore() -> list[str]:
    trace: list[str] = []
    event, lock, two = asyncio.Event(), asyncio.Lock(), asyncio.Semaphore(2)

    async def worker(name: str) -> None:
        await event.wait()
        async with two:
            trace.append(await echo(f"{name} first"))
        async with lock:
            trace.append(await echo(f"{name} second"))

    tasks = [asyncio.create_task(worker(name)) for name in "abc"]
    trace.append(await echo("go"))
    event.set()
    await asyncio.gather(*tasks)
    return trace


@workflow
async def queue_condition() -> list[str]:
    trace: list[str] = []
    queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=2)
    condition = asyncio.Condition()

    async def produce() -> None:
        for number in range(4):
            await queue.put(await echo(str(number)))
        await queue.put(None)

    async def consume() -> None:
        while (item := await queue.get()) is not None:
            trace.append(await echo(f"got {item}"))
        async with condition:
            condition.notify_all()

    async with asyncio.TaskGroup() as group, condition:
        group.create_task(produce())
        group.create_task(consume())
        await condition.wait()
    return trace


@workflow
async def cancellation() -> list[str]:
    trace: list[str] = []

    async def patient() -> None:
        try:
            await answer
        except asyncio.CancelledError:
            trace.append(await echo("cleaned up"))
            raise

    task = asyncio.create_task(patient())
    await echo("meanwhile")
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        trace.append("cancelled")
    return trace


@workflow
async def async_generator() -> list[str]:
    async def letters() -> AsyncIterator[str]:
        for letter in "abc":
            yield await echo(letter)

    trace = [letter async for letter in letters()]
    async for letter in letters():
        trace.append(letter)
        break
    return trace


@workflow
async def swallows_everything() -> list[str]:
    trace: list[str] = []
    for number in range(3):
        try:
            trace.append(await echo(str(number)))
            await asyncio.sleep(60)
        except BaseException as error:  # no signal of the engine's may arrive here
            trace.append(f"caught {error!r}")
    return trace


@workflow
async def values_of_chance() -> list[str]:
    trace = []
    for _ in range(3):
        trace += [str(workflow.uuid4()), str(workflow.random().random()), workflow.now().isoformat()]
        await echo("next")
    return [*trace, str(len(set(trace)))]


PRIMITIVES: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]
