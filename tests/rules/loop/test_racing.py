"""Races: who came first is recorded, so whatever is made of it stays true after any crash and in every replay."""

import asyncio

from engine import ActivityError, Deferred, workflow
from engine.testing import Environment
from tests.support.recovery import Scenario, completes, survives_crashes
from tests.support.steps import chain, fail, hang, lag, say

answer = Deferred("racing.answer", str)
never = Deferred("racing.never", str)


@workflow
async def first_completed() -> list[str]:
    late, early = asyncio.create_task(lag("late", "say#3")), asyncio.create_task(say("early"))
    done, pending = await asyncio.wait({late, early}, return_when=asyncio.FIRST_COMPLETED)
    trace = [task.result() for task in done] + [str(pending == {late})]
    return [*trace, await say("second"), await say("third"), await late]


@workflow
async def loser_is_cancelled() -> list[str]:
    tasks = [asyncio.create_task(hang("never")), asyncio.create_task(say("early")), asyncio.create_task(never.wait())]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    results = await asyncio.gather(*pending, return_exceptions=True)
    return [*(task.result() for task in done), *(type(result).__name__ for result in results), await say("after")]


@workflow
async def first_exception() -> list[str]:
    tasks = [asyncio.create_task(never.wait()), asyncio.create_task(say("ok")), asyncio.create_task(fail("bad"))]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    return [str(task.exception()) if task.exception() else task.result() for task in done] + [str(len(pending))]


@workflow
async def all_completed() -> list[str]:
    trace: list[str] = []
    done, pending = await asyncio.wait([asyncio.create_task(chain(name, 2, trace)) for name in "abcdefgh"])
    assert not pending
    return [*trace, *(task.result() for task in done)]


@workflow
async def bare_deferreds() -> list[str]:
    """A deferred is no coroutine, and goes where any awaitable does."""
    try:
        await asyncio.wait_for(never, 5)
    except TimeoutError:
        return [*await asyncio.gather(answer, say("beside")), await asyncio.shield(answer)]
    return []


@workflow
async def wait_with_timeout() -> list[str]:
    tasks = [asyncio.create_task(asyncio.sleep(60, "slept")), asyncio.create_task(never.wait())]
    done, pending = await asyncio.wait(tasks, timeout=600)
    return [*(task.result() for task in done), str(len(pending)), await say("after")]


@workflow
async def tasks_as_completed() -> list[str]:
    tasks = [asyncio.create_task(lag("x", "say#2")), asyncio.create_task(say("y"))]
    return [await say(f"then {await first}") for first in asyncio.as_completed(tasks)]


@workflow
async def coroutines_as_completed() -> list[str]:
    first = workflow.as_completed([chain("x", 3, []), chain("y", 1, []), never.wait()], timeout=3_600)
    trace = []
    try:
        for result in first:
            name = await result
            trace.append(await say(f"then {name}"))
    except TimeoutError:
        trace.append("TimeoutError")
    return trace


@workflow
async def as_completed_over_coroutines() -> list[str]:
    coroutines = [say("x"), say("y")]
    try:
        return [await first for first in asyncio.as_completed(coroutines)]
    finally:
        for coroutine in coroutines:
            coroutine.close()


@workflow
async def waited_for() -> list[str]:
    async def patient() -> str:
        try:
            return await never
        except asyncio.CancelledError:
            trace.append(await say("cleaned up"))
            raise

    trace = [await asyncio.wait_for(say("in time"), 600), await asyncio.wait_for(answer.wait(), None)]
    for seconds in (600, 0):
        try:
            await asyncio.wait_for(patient(), seconds)
        except TimeoutError:
            trace.append(await say(f"TimeoutError after {seconds}"))
    try:
        await asyncio.wait_for(fail("bad"), 600)
    except ActivityError as error:
        trace.append(str(error))
    return trace


@workflow
async def nested_timeouts() -> list[str]:
    trace: list[str] = []
    try:
        async with asyncio.timeout(3_600) as outer:
            try:
                async with asyncio.timeout(600):
                    await never
            except TimeoutError:
                trace.append(await say("inner"))
            outer.reschedule(asyncio.get_running_loop().time() + 60)
            await asyncio.sleep(61)
    except TimeoutError:
        trace.append(await say("outer"))
    async with asyncio.timeout(None):
        trace.append(await say("no limit"))
    return trace


@workflow
async def shielded() -> list[str]:
    trace: list[str] = []
    inner = asyncio.create_task(chain("inner", 2, trace))
    try:
        async with asyncio.timeout(0):
            await asyncio.shield(inner)
    except TimeoutError:
        trace.append("gave up")
    return [*trace, str(inner.done()), await inner]


async def test_the_first_to_end_is_the_first_ever_after() -> None:
    """C8: wait(FIRST_COMPLETED) finds the same winner, and the loser's later result is its own."""
    whole = await survives_crashes(Scenario(first_completed, ordered=False))
    assert whole.value == ["early", "True", "second", "third", "late"]


async def test_a_cancelled_loser_is_over() -> None:
    """A loser that is cancelled, an activity or a deferred, doesn't keep the execution open."""
    whole = await survives_crashes(Scenario(loser_is_cancelled))
    assert whole.value == ["early", "CancelledError", "CancelledError", "after"]


async def test_waiting_for_the_first_exception() -> None:
    """wait(FIRST_EXCEPTION) returns with the failure, in the order in which the tasks were made."""
    assert (await survives_crashes(Scenario(first_exception))).value == ["ok", "ValueError: bad", "1"]


async def test_waiting_for_all_gives_them_in_order() -> None:
    """C5: wait's sets hold the tasks in the order in which they were made."""
    whole = await survives_crashes(Scenario(all_completed))
    assert whole.value == [*(f"{name}{n}" for n in (1, 2) for name in "abcdefgh"), *"abcdefgh"]


async def test_deferreds_without_a_task() -> None:
    """gather, wait_for and shield of a Deferred itself."""
    scenario = Scenario(bare_deferreds, signals=[completes(answer, "yes")], ordered=False)
    assert (await survives_crashes(scenario)).value == ["yes", "beside", "yes"]


async def test_wait_has_a_timeout() -> None:
    """wait(timeout=) returns what is done by then, and cancels nothing."""
    assert (await survives_crashes(Scenario(wait_with_timeout))).value == ["slept", "1", "after"]


async def test_as_completed_over_tasks() -> None:
    """C8: the slow one was asked first, the fast one came first: what follows is done for y, then for x."""
    whole = await survives_crashes(Scenario(tasks_as_completed, ordered=False))
    assert whole.value == ["then y", "then x"]


async def test_as_completed_over_coroutines() -> None:
    """C5: workflow.as_completed starts coroutines in the order given; its timeout is durable."""
    assert (await survives_crashes(Scenario(coroutines_as_completed))).value == ["then y", "then x", "TimeoutError"]


async def test_stock_as_completed_over_coroutines_is_refused() -> None:
    """C5: it would start them in the order of their addresses; the message names both ways out."""
    async with Environment([as_completed_over_coroutines]) as env:
        status = await env.run(as_completed_over_coroutines)
    assert status.suspended
    assert status.cause is not None
    assert status.cause.type == "NotDurable"
    assert "workflow.as_completed" in status.cause.message
    assert "make tasks of them first" in status.cause.message


async def test_wait_for() -> None:
    """wait_for cancels what is late, waits for its cleanup, and passes failures on."""
    assert (await survives_crashes(Scenario(waited_for, signals=[completes(answer, "yes")]))).value == [
        "in time",
        "yes",
        "cleaned up",
        "TimeoutError after 600",
        "TimeoutError after 0",
        "ValueError: bad",
    ]


async def test_timeouts() -> None:
    """timeout: nested, rescheduled, none."""
    assert (await survives_crashes(Scenario(nested_timeouts))).value == ["inner", "outer", "no limit"]


async def test_shield() -> None:
    """What is shielded goes on when its waiter gives up."""
    whole = await survives_crashes(Scenario(shielded))
    assert whole.value == ["gave up", "False", "inner"]
