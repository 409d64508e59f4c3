"""Random workflows, random deaths: what was recorded decides, and decides the same for whoever carries on."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from engine import ActivityError, AlreadyEnded, Deferred, activity, workflow
from engine.testing import Environment
from tests.support.mortal import Death
from tests.support.recovery import Scenario, Signal, Witness, play, replays_alike
from tests.support.steps import fail, journal, say, stumble

given_value = Deferred("random_programs.value", str)
KEYS = ("a", "b", "c")

Program = list[Any]
"""`[word, …]`, as plain JSON; what each word does is in `_run`."""


@activity
async def dawdle(text: str, turns: int) -> str:
    """Ends some turns of the host's loop later than others."""
    for _ in range(turns):
        await asyncio.sleep(0)
    journal.note()
    return text


@workflow
async def interpret(program: Any) -> list[Any]:
    """What the program comes to, and what it saw on its way, in order."""
    trace: list[str] = []
    return [await _run(program, trace), trace]


@workflow
async def interpret_quietly(program: Any) -> Any:
    """What the program comes to. Without races that doesn't depend on any order."""
    return await _run(program, [])


async def _run(program: Program, trace: list[str]) -> Any:
    word, *rest = program
    value = await _WORDS[word](trace, *rest)
    trace.append(f"{word} {value}")
    return value


async def _say(_: list[str], text: str) -> str:
    return await say(text)


async def _dawdle(_: list[str], text: str, turns: int) -> str:
    return await dawdle(text, turns)


async def _stumble(_: list[str], text: str) -> str:
    return await stumble(text)


async def _fail(_: list[str], text: str) -> str:
    try:
        return await fail(text)
    except ActivityError as error:
        return str(error)


async def _sleep(_: list[str], seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def _receive(_: list[str], key: str) -> str:
    return await given_value[key]


async def _sequence(trace: list[str], *parts: Program) -> list[Any]:
    values = []
    for part in parts:
        value = await _run(part, trace)
        values.append(value)
    return values


async def _gather(trace: list[str], *parts: Program) -> list[Any]:
    return list(await asyncio.gather(*(_run(part, trace) for part in parts)))


async def _group(trace: list[str], *parts: Program) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_run(part, trace)) for part in parts]
    return [task.result() for task in tasks]


async def _spawn(trace: list[str], beside: Program, part: Program) -> list[Any]:
    task = asyncio.create_task(_run(beside, trace))
    return [await _run(part, trace), await asyncio.shield(task)]


async def _race(trace: list[str], *parts: Program) -> list[Any]:
    tasks = [asyncio.create_task(_run(part, trace)) for part in parts]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    lost = await asyncio.gather(*pending, return_exceptions=True)
    return [[task.result() for task in done], [type(loss).__name__ for loss in lost]]


async def _limit(trace: list[str], seconds: float, part: Program) -> Any:
    try:
        async with asyncio.timeout(seconds):
            return await _run(part, trace)
    except TimeoutError:
        return await say("out of time")


_WORDS: dict[str, Callable[..., Awaitable[Any]]] = {
    "say": _say,
    "dawdle": _dawdle,
    "stumble": _stumble,
    "fail": _fail,
    "sleep": _sleep,
    "receive": _receive,
    "sequence": _sequence,
    "gather": _gather,
    "group": _group,
    "spawn": _spawn,
    "race": _race,
    "limit": _limit,
}

_texts = st.sampled_from("xyz")
_seconds = st.sampled_from([0, 0.25, 20, 90, 86_400])
_leaf = st.one_of(
    st.tuples(st.sampled_from(["say", "fail", "stumble"]), _texts),
    st.tuples(st.just("dawdle"), _texts, st.integers(0, 4)),
    st.tuples(st.just("sleep"), _seconds),
    st.tuples(st.just("receive"), st.sampled_from(KEYS)),
).map(list)


def _together(parts: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
    several = st.lists(parts, max_size=4)
    return st.one_of(
        st.tuples(st.sampled_from(["sequence", "gather", "group"]), several).map(lambda two: [two[0], *two[1]]),
        st.tuples(st.just("spawn"), parts, parts).map(list),
    )


def _against_each_other(parts: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
    return st.one_of(
        _together(parts),
        st.lists(parts, min_size=1, max_size=4).map(lambda several: ["race", *several]),
        st.tuples(st.just("limit"), _seconds, parts).map(list),
    )


def _whole(part: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
    several = st.lists(part, min_size=3, max_size=5)
    return st.tuples(st.sampled_from(["sequence", "gather"]), several).map(lambda two: [two[0], *two[1]])


peaceful = _whole(st.recursive(_leaf, _together, max_leaves=6))
racing = _whole(st.recursive(_leaf, _against_each_other, max_leaves=6))
deaths = st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["before", "after"])), min_size=1, max_size=3)
orders = st.permutations(KEYS)

BOUNDED = settings(
    max_examples=100,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


def _offers(key: str) -> Signal:
    async def signal(env: Environment, id: str) -> None:
        with contextlib.suppress(AlreadyEnded):
            await env.resolve(id, given_value[key], f"given {key}")

    return signal


def _count(witness: Witness) -> None:
    event(f"processes that died: {len(witness.deaths)}")
    event(f"events: {len(witness.events) // 5 * 5} or more")


@given(peaceful, deaths, orders)
@BOUNDED
async def test_where_nothing_races_deaths_change_nothing(
    program: Program, deaths: list[Death], order: list[str]
) -> None:
    """The result is that of a run without a death."""
    scenario = Scenario(interpret_quietly, program, [_offers(key) for key in order])
    whole, crashed = await play(scenario), await play(scenario, deaths)
    _count(crashed)
    assert crashed.end == whole.end
    assert whole.status.outcome == "completed"
    assert sorted(map(repr, crashed.order)) == sorted(map(repr, whole.order))
    await replays_alike(crashed)


@given(racing, deaths, orders)
@BOUNDED
async def test_the_recorded_order_decides(program: Program, deaths: list[Death], order: list[str]) -> None:
    """Whatever a crashed run came to and saw on its way, its history alone brings the code there again: the same
    result, the same trace, the same steps asked for at the same events, wherever it is evicted."""
    crashed = await play(Scenario(interpret, program, [_offers(key) for key in order]), deaths)
    _count(crashed)
    assert crashed.status.outcome == "completed"
    await replays_alike(crashed)


@pytest.mark.usefixtures("every_store")
@given(racing, deaths, orders)
@settings(BOUNDED, max_examples=10, suppress_health_check=list(HealthCheck))
async def test_the_recorded_order_decides_on_every_store(
    program: Program, deaths: list[Death], order: list[str]
) -> None:
    """A few of them on Cosmos DB as well. Each has a container of its own."""
    crashed = await play(Scenario(interpret, program, [_offers(key) for key in order]), deaths)
    assert crashed.status.outcome == "completed"
    await replays_alike(crashed)
