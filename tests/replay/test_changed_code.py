"""Code that no longer asks for what its history records: the execution is suspended with a message that says which
event, what is recorded and what the code does now; nothing recorded changes, and the old code carries on."""

import asyncio

import pytest

from engine import Deferred, Workflow, activity, workflow
from engine.testing import Environment
from tests.support.steps import journal

gate = Deferred("changed_code.gate", str)
other_gate = Deferred("changed_code.other_gate", str)

Changed = Workflow[[], list[str]]


@activity
async def alpha(text: str = "") -> str:
    journal.note()
    return f"alpha {text}".strip()


@activity
async def beta(text: str = "") -> str:
    journal.note()
    return f"beta {text}".strip()


@activity
async def gamma() -> str:
    journal.note()
    return "gamma"


@activity
async def omega() -> str:
    journal.note()
    return "omega"


@workflow(name="changed_code")
async def original() -> list[str]:
    return [await alpha(), await beta("1"), await gate, await gamma()]


@workflow(name="changed_code")
async def first_renamed() -> list[str]:
    return [await omega(), await beta("1"), await gate, await gamma()]


@workflow(name="changed_code")
async def one_inserted_before() -> list[str]:
    return [await omega(), await alpha(), await beta("1"), await gate, await gamma()]


@workflow(name="changed_code")
async def the_same_inserted_before() -> list[str]:
    return [await beta("0"), await alpha(), await beta("1"), await gate, await gamma()]


@workflow(name="changed_code")
async def one_inserted_between() -> list[str]:
    return [await alpha(), await omega(), await beta("1"), await gate, await gamma()]


@workflow(name="changed_code")
async def two_swapped() -> list[str]:
    return [await beta("1"), await alpha(), await gate, await gamma()]


@workflow(name="changed_code")
async def one_removed() -> list[str]:
    return [await alpha(), await gate, await gamma()]


@workflow(name="changed_code")
async def sleep_for_activity() -> list[str]:
    await asyncio.sleep(60)
    return [await beta("1"), await gate, await gamma()]


@workflow(name="changed_code")
async def changed_input() -> list[str]:
    return [await alpha(), await beta("2"), await gate, await gamma()]


@workflow(name="changed_code")
async def ends_early() -> list[str]:
    return [await alpha()]


@workflow(name="changed_code")
async def fails_early() -> list[str]:
    raise ValueError(await alpha())


@workflow(name="changed_code")
async def waits_for_nothing() -> list[str]:
    await asyncio.Event().wait()
    return []


@workflow(name="changed_code")
async def swallows_everything() -> list[str]:
    while True:
        try:
            await omega()
        except BaseException:
            await asyncio.sleep(1)


CHANGES: dict[Changed, tuple[int, str, str]] = {
    first_renamed: (1, "the end of activity 'alpha'", "now waits for activity 'omega'"),
    one_inserted_before: (1, "the end of activity 'alpha'", "now waits for activity 'omega'"),
    the_same_inserted_before: (1, "the end of activity 'alpha'", "now waits for activity 'beta'"),
    one_inserted_between: (2, "the end of activity 'beta'", "now waits for activity 'omega'"),
    two_swapped: (1, "the end of activity 'alpha'", "now waits for activity 'beta'"),
    one_removed: (2, "the end of activity 'beta'", "now waits for deferred 'changed_code.gate'"),
    sleep_for_activity: (1, "the end of activity 'alpha'", "now waits for timer 'timer'"),
    changed_input: (2, "the end of activity 'beta'", "now asks activity 'beta' with another input"),
    ends_early: (2, "the end of activity 'beta'", "has ended by then (completed)"),
    fails_early: (2, "the end of activity 'beta'", "has ended by then (failed)"),
    waits_for_nothing: (1, "the end of activity 'alpha'", "now waits for nothing"),
    swallows_everything: (1, "the end of activity 'alpha'", "now waits for activity 'omega'"),
}


@workflow(name="changed_timers")
async def sleeps_a_minute() -> list[str]:
    await asyncio.sleep(60)
    return [await gate]


@workflow(name="changed_timers")
async def sleeps_two_minutes() -> list[str]:
    await asyncio.sleep(120)
    return [await gate]


@workflow(name="changed_timers")
async def no_longer_sleeps() -> list[str]:
    return [await alpha(), await gate]


@workflow(name="changed_calls")
async def calls_in_order() -> list[str]:
    return [*await asyncio.gather(beta("1"), beta("2")), await gate]


@workflow(name="changed_calls")
async def calls_swapped() -> list[str]:
    return [*await asyncio.gather(beta("2"), beta("1")), await gate]


@workflow(name="changed_deferred")
async def waits_for_one() -> list[str]:
    return [await gate, await other_gate]


@workflow(name="changed_deferred")
async def waits_for_the_other() -> list[str]:
    return [await other_gate, await gate]


OTHER_CHANGES: list[tuple[Changed, Changed, tuple[int, str, str]]] = [
    (sleeps_a_minute, sleeps_two_minutes, (1, "the end of timer 'timer'", "now asks timer 'timer' with another input")),
    (sleeps_a_minute, no_longer_sleeps, (1, "the end of timer 'timer'", "now waits for activity 'alpha'")),
    (calls_in_order, calls_swapped, (1, "the end of activity 'beta'", "now asks activity 'beta' with another input")),
]


async def _is_noticed_then_restored(old: Changed, new: Changed, event: int, recorded: str, now: str) -> None:
    journal.reset()
    async with Environment([old]) as env:
        id = (await env.start(old)).execution_id
        await env.finish(id)
        history = (await env.store.load(id)).chunks
        env.deploy([new])
        await env.resolve(id, gate, "opened")
        await env.finish(id)
        execution = await env.store.inner.read(id)
        assert not execution.is_complete
        assert execution.suspended
        assert execution.worker is None
        assert execution.cause is not None
        assert execution.cause.type == "NonDeterminism"
        assert execution.cause.message.startswith(f"event {event} of the history records {recorded}, but")
        assert now in execution.cause.message
        assert "Deploy the code that wrote this history" in execution.cause.message
        assert (await env.store.load(id)).chunks == history, "nothing that was recorded changes"
        ran = list(journal.ran)
        env.deploy([old])
        await env.client.resume(id)
        status = await env.finish(id)
        assert status.outcome == "completed"
        async with Environment([old]) as unchanged:
            whole = await unchanged.start(old)
            await unchanged.resolve(whole, gate, "opened")
            assert status.value() == (await unchanged.finish(whole)).value()
        assert (await env.store.load(id)).chunks[: len(history)] == history
    assert "omega" not in journal.ran
    assert ran == [step for step in ("alpha", "beta", "beta#2") if step in ran]


@pytest.mark.parametrize("new", CHANGES, ids=lambda w: w.__name__)
async def test_a_change_is_noticed_and_the_old_code_carries_on(new: Changed) -> None:
    """I1 a–e: renamed, inserted, swapped, removed, a sleep for an activity; also another input, and an end that comes
    too early. No step of the new code runs, and no value reaches the wrong call."""
    await _is_noticed_then_restored(original, new, *CHANGES[new])


@pytest.mark.parametrize(("old", "new", "message"), OTHER_CHANGES, ids=lambda w: getattr(w, "__name__", ""))
async def test_other_changes_are_noticed(old: Changed, new: Changed, message: tuple[int, str, str]) -> None:
    """A timer of another length, none at all, and two calls of one activity that changed places."""
    await _is_noticed_then_restored(old, new, *message)


async def test_deferreds_that_change_places_are_noticed() -> None:
    """The one that was resolved is not the one that the code waits for now."""
    async with Environment([waits_for_one]) as env:
        id = await env.start(waits_for_one)
        await env.resolve(id, gate, "one")
        await env.settle()
        env.deploy([waits_for_the_other])
        await env.resolve(id, other_gate, "other")
        await env.settle()
        cause = (await env.status(id)).cause
        assert cause is not None
        assert "the end of deferred 'changed_code.gate'" in cause.message
        assert "now waits for deferred 'changed_code.other_gate'" in cause.message
        env.deploy([waits_for_one])
        await env.client.resume(id)
        assert (await env.finish(id)).value() == ["one", "other"]


async def test_new_code_behind_what_is_recorded_is_welcome() -> None:
    """Only what has happened is fixed: what comes after the last event may change."""

    @workflow(name="changed_code")
    async def longer() -> list[str]:
        return [await alpha(), await beta("1"), await gate, await omega(), await gamma()]

    async with Environment([original]) as env:
        id = await env.start(original)
        await env.settle()
        env.deploy([longer])
        await env.resolve(id, gate, "opened")
        assert (await env.finish(id)).value() == ["alpha", "beta 1", "opened", "omega", "gamma"]
