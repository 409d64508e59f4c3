"""Fan-out and fan-in: gather and TaskGroup keep their results, their order and their failures through any crash."""

import asyncio

from engine import ActivityError, Deferred, workflow
from tests.support.recovery import Scenario, completes, survives_crashes
from tests.support.steps import chain, fail, lag, say, stumble

never = Deferred("gathering.never", str)
late = Deferred("gathering.late", str)


@workflow
async def empty_fan_in() -> list[str]:
    trace = [str(await asyncio.gather()), str(await asyncio.gather(*[]))]
    async with asyncio.TaskGroup():
        pass
    try:
        await asyncio.wait([])
    except ValueError:
        trace.append("ValueError")
    return [*trace, await say("after")]


@workflow
async def two_chains() -> list[str]:
    trace: list[str] = []
    return [*await asyncio.gather(chain("a", 3, trace), late.wait(), chain("b", 2, trace)), *trace]


@workflow
async def shuffled() -> list[str]:
    return await asyncio.gather(lag("a", "lag#3"), lag("b", "lag"), say("c"), lag("d", "say"))  # type: ignore[return-value]


@workflow
async def caught_failure() -> list[str]:
    trace: list[str] = []
    ok, ok2 = asyncio.ensure_future(say("ok")), asyncio.ensure_future(say("ok2"))
    try:
        await asyncio.gather(ok, fail("bad"), ok2)
    except ActivityError as error:
        trace.append(await say(f"undo after {error.message}"))
    return [*trace, await ok, await ok2]


@workflow
async def returned_failures() -> list[str]:
    results = await asyncio.gather(say("ok"), fail("bad"), say("ok2"), return_exceptions=True)
    return [str(result) for result in results]


@workflow
async def retries_then_fan_out() -> list[str]:
    first = await asyncio.gather(*(stumble(f"first {n}") if n % 2 else say(f"first {n}") for n in range(5)))
    return [*first, *await asyncio.gather(*(say(f"second {n}") for n in range(5)))]


@workflow
async def group() -> list[str]:
    trace: list[str] = []
    async with asyncio.TaskGroup() as tasks:
        done = [tasks.create_task(chain(name, 2, trace)) for name in "abc"]
    return [*trace, *(task.result() for task in done)]


@workflow
async def aborted_group() -> list[str]:
    trace: list[str] = []

    async def sibling(name: str) -> None:
        try:
            await never
        except asyncio.CancelledError:
            trace.append(await say(f"{name} cleaned up"))
            raise

    try:
        async with asyncio.TaskGroup() as tasks:
            for name in "abcdef":
                tasks.create_task(sibling(name))
            await fail("the body")
    except* ActivityError as errors:
        trace += [str(error) for error in errors.exceptions]
    return trace


async def test_fan_in_over_nothing() -> None:
    """C1: over nothing, gather gives [], a TaskGroup ends, and wait raises ValueError."""
    whole = await survives_crashes(Scenario(empty_fan_in))
    assert whole.value == ["[]", "[]", "ValueError", "after"]


async def test_results_keep_the_order_of_the_calls() -> None:
    """C6, C7: results stand where their calls do, and both chains go on in the order in which they first did."""
    whole = await survives_crashes(Scenario(two_chains, signals=[completes(late, "late")]))
    assert whole.value == ["a", "late", "b", "a1", "b1", "a2", "b2", "a3"]
    assert sorted(whole.ran) == ["say", "say#2", "say#3", "say#4", "say#5"]


async def test_results_that_come_in_another_order_find_their_calls() -> None:
    """C6: the last of four ends second, the first third: whoever takes over gives each call its own result."""
    whole = await survives_crashes(Scenario(shuffled, ordered=False))
    assert whole.value == ["a", "b", "c", "d"]
    assert whole.ran == ["say", "lag#3", "lag", "lag#2"]
    assert len(whole.events) == 4


async def test_a_failure_is_caught_once_and_siblings_go_on() -> None:
    """C3: gather cancels nobody: what it was given besides the failing call still runs, once, and can be read."""
    whole = await survives_crashes(Scenario(caught_failure))
    assert whole.value == ["undo after bad", "ok", "ok2"]
    assert sorted(whole.ran) == ["fail", "say", "say#2", "say#3"]


async def test_failures_can_be_results() -> None:
    """C3: with return_exceptions a failure stands in the place of the result."""
    assert (await survives_crashes(Scenario(returned_failures))).value == ["ok", "ValueError: bad", "ok2"]


async def test_steps_after_retries_have_steps_of_their_own() -> None:
    """C9: some of a fan-in are tried twice; the next fan-out isn't taken for them."""
    whole = await survives_crashes(Scenario(retries_then_fan_out))
    assert whole.value == [f"first {n}" for n in range(5)] + [f"second {n}" for n in range(5)]
    assert len(whole.ran) == 12
    assert len(set(whole.ran)) == 10


async def test_a_group_waits_for_all_of_its_tasks() -> None:
    """TaskGroup: each task runs, interleaved as first recorded."""
    assert (await survives_crashes(Scenario(group))).value == ["a1", "b1", "c1", "a2", "b2", "c2", "a", "b", "c"]


async def test_a_failing_group_cancels_its_tasks_in_order() -> None:
    """TaskGroup's abort walks a set of tasks: it does so in the order in which they were made, and each may clean up
    durably."""
    whole = await survives_crashes(Scenario(aborted_group))
    assert whole.value == [*(f"{name} cleaned up" for name in "abcdef"), "ValueError: the body"]
