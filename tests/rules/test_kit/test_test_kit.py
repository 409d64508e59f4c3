"""The kit for authors' tests: stand-ins, failures and deaths by step, evictions, several workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from engine import Activity, ActivityError, Deferred, Failure, NonDeterminism, Retry, Workflow, activity, workflow
from engine.testing import Environment, survives

go = Deferred("kit.go", bool)
effects: list[str] = []
turns: list[int] = []


class Declined(Failure):
    code: str


@activity(retry=Retry(max_attempts=3, first_delay=timedelta(seconds=1)))
async def kit_charge(order: str) -> str:
    effects.append(f"charge {order}")
    return f"paid {order}"


@activity
def kit_ship(item: str) -> str:
    """In a thread."""
    effects.append(f"ship {item}")
    return f"shipped {item}"


@workflow
async def sells(order: str) -> list[str]:
    paid = await kit_charge(order)
    parcels = await asyncio.gather(kit_ship("lamp"), kit_ship("rug"))
    await go
    await asyncio.sleep(3_600)
    return [paid, *parcels]


@workflow
async def counts_its_turns() -> list[int]:
    """What it gives to its steps isn't the same in every replay."""
    turns.append(1)
    mine = len(turns)
    await kit_ship(f"{mine}")
    await kit_ship("again")
    return [mine]


@workflow
async def counts_effects() -> int:
    """Its result depends on how often its step really ran."""
    return await kit_total()


@activity
async def kit_total() -> int:
    effects.append("total")
    return len(effects)


RESULT = ["paid a", "shipped lamp", "shipped rug"]
STEPS = ["kit_charge", "kit_ship", "kit_ship#2"]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    effects.clear()
    turns.clear()


async def play(env: Environment) -> Any:
    """From start to end, and the outside in between."""
    execution = await env.start(sells, "a")
    await env.settle()
    await env.resolve(execution, go, True)
    return (await env.finish(execution)).value()


def fake(value: str) -> str:
    return f"fake {value}"


async def async_fake(value: str) -> str:
    await asyncio.sleep(0)
    return fake(value)


@pytest.mark.parametrize("stand_in", [fake, async_fake, activity(name="kit_fake")(fake)])
@pytest.mark.parametrize("replaced", [kit_charge, kit_ship])
async def test_activities_are_replaced_by_name(replaced: Activity[Any, Any], stand_in: Callable[..., Any]) -> None:
    """Async by sync and the other way round, by a plain function or an activity; the real one doesn't run."""
    async with Environment([sells], activities={replaced.name: stand_in}) as env:
        result = await play(env)
        assert sorted(env.ran()) == STEPS
    assert ("fake a" in result) == (replaced is kit_charge)
    assert ("fake rug" in result) == (replaced is kit_ship)
    assert not any(effect.startswith(replaced.name.removeprefix("kit_")) for effect in effects)


async def test_a_stand_in_is_held_to_the_types_of_what_it_replaces() -> None:
    """A fake that gives what the activity can't fails as the activity would."""
    async with Environment([sells], activities={"kit_charge": lambda order: 5}) as env:
        status = await env.run(sells, "a")
        assert status.error is not None
        assert "the result of activity kit_charge" in status.error.message


async def test_outside_of_the_environment_nothing_is_replaced() -> None:
    """Two environments side by side have each their own."""
    async with Environment([sells], activities={"kit_charge": fake}) as one, Environment([sells]) as other:
        results = await asyncio.gather(play(one), play(other))
        assert [result[0] for result in results] == ["fake a", "paid a"]
        assert await kit_charge("b") == "paid b"


async def test_steps_fail_as_planned() -> None:
    """So many attempts of the one step that is named; retried as its policy says."""
    async with Environment([sells]) as env:
        env.fail("kit_charge", ConnectionError("away"), times=2)
        assert await play(env) == RESULT
        assert sorted(env.ran()) == ["kit_charge", "kit_charge", *STEPS]
    async with Environment([sells]) as env:
        env.fail("kit_ship#2", Declined(code="rug"))
        with pytest.raises(Declined, match="rug"):
            (await env.run(sells, "a")).value()
    async with Environment([sells]) as env:
        env.fail("kit_charge", ConnectionError("away"), times=None)
        with pytest.raises(ActivityError, match="away"):
            (await env.run(sells, "a")).value()
        assert env.ran() == ["kit_charge"] * 3


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
async def test_the_worker_dies_in_a_step(step: str, after: bool) -> None:
    """On the loop and in a thread. What had run and wasn't recorded runs again; what was recorded doesn't."""
    async with Environment([sells]) as env:
        first = env.worker
        env.crash_at(step, after=after)
        assert await play(env) == RESULT
        assert first.is_dead
        assert env.worker is not first
        assert env.ran().count(step) == (2 if after else 1)
        assert env.ran().count("kit_charge") == (2 if after and step == "kit_charge" else 1)


async def test_a_crash_now() -> None:
    """Between two steps: nothing is lost, and nothing runs again."""
    async with Environment([sells], workers=2) as env:
        execution = await env.start(sells, "a")
        await env.settle()
        await env.crash()
        await env.resolve(execution, go, True)
        assert (await env.finish(execution)).value() == RESULT
        assert sorted(env.ran(execution)) == STEPS
        assert env.ran("another") == []


async def test_three_workers_do_everything_once() -> None:
    """Each of them would like to have it."""
    async with Environment([sells], workers=3) as env:
        assert await play(env) == RESULT
        assert sorted(env.ran()) == STEPS
        assert sorted(effects) == ["charge a", "ship lamp", "ship rug"]


async def test_evicted_after_every_step() -> None:
    """Each step is replayed by a driver that knows nothing: the same result, each step once."""
    async with Environment([sells]) as env:
        assert await play(env) == RESULT
        at_once = env.store.count("load")
    async with Environment([sells], evict=True) as env:
        assert await play(env) == RESULT
        assert sorted(env.ran()) == STEPS
        assert env.store.count("load") > at_once


async def test_what_does_not_replay_is_found() -> None:
    """At the end by `finish`; evicted, at the first step that was given something else."""
    async with Environment([counts_its_turns]) as env:
        with pytest.raises(NonDeterminism, match="another input") as found:
            await env.run(counts_its_turns)
        assert "engine.guard" in found.value.__notes__[0]
    async with Environment([counts_its_turns], replays=False) as env:
        assert (await env.run(counts_its_turns)).is_complete
    async with Environment([counts_its_turns], evict=True) as env:
        cause = (await env.run(counts_its_turns)).cause
        assert cause is not None
        assert cause.type == "NonDeterminism"


async def test_a_play_survives_a_death_at_every_store_call() -> None:
    """It comes to the same each time, with the activities that it was given."""
    assert await survives([sells], play, {"kit_charge": fake}) == ["fake a", *RESULT[1:]]


async def test_a_play_that_does_not_survive_says_where() -> None:
    """A result that a repeated step changes; and an assertion of the play's own keeps its words."""

    async def counting(env: Environment) -> Any:
        effects.clear()
        return (await env.run(counts_effects)).value()

    with pytest.raises(AssertionError, match=r"the worker died before its store call \d+, commit: 2, .* 1"):
        await survives([counts_effects], counting)

    async def asserting(env: Environment) -> None:
        assert await counting(env) == 1, "in my own words"

    with pytest.raises(AssertionError, match="in my own words") as failed:
        await survives([counts_effects], asserting)
    assert "store call" in failed.value.__notes__[0]


def _plan(what: str) -> None:
    env = Environment([sells])
    match what:
        case "fail":
            env.fail("kit_shp", OSError())
        case "crash":
            env.crash_at("kit_shp#2")
        case "replace":
            Environment([sells], activities={"kit_shp": fake})


@pytest.mark.parametrize("what", ["fail", "crash", "replace"])
def test_a_name_that_is_misspelt_is_an_error(what: str) -> None:
    """And the right one is proposed: a plan for nobody would pass for a success."""
    with pytest.raises(ValueError, match=r"no activity is named 'kit_shp'; there is .*kit_ship"):
        _plan(what)


def test_a_stand_in_is_a_function() -> None:
    """Not its result."""
    with pytest.raises(TypeError, match="takes a function, not 'paid'"):
        Environment([sells], activities={"kit_charge": "paid"})  # type: ignore[dict-item]


def test_a_list_of_workflows_is_asked_for() -> None:
    """One alone is the commonest slip."""
    alone: Any = sells
    assert isinstance(alone, Workflow)
    with pytest.raises(TypeError, match=r"a list of workflows: \[sells\]"):
        Environment(alone)  # type: ignore[arg-type]
