"""Options of one call, and calls of activities outside of workflows."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from engine import ActivityError, Retry, Workflow, activity, workflow
from engine.testing import Environment, export, replay

TWICE = Retry(max_attempts=2, first_delay=timedelta(seconds=1), jitter=False)


@activity
async def call(number: str) -> str:
    """Makes a telephone call."""
    return f"called {number}"


@activity(retry=Retry(max_attempts=5))
def print_page(text: str) -> str:
    return f"printed {text} in {'a thread' if threading.current_thread() is not threading.main_thread() else 'place'}"


def _workflow(body: Any) -> Workflow[[], str]:
    made: Workflow[[], str] = workflow(name="options_of_a_call")(body)
    return made


async def once() -> str:
    return await call("1")


async def twice() -> str:
    return await call.with_options(retry=TWICE)("1")


async def test_options_hold_for_their_call_alone() -> None:
    async def both() -> str:
        first = await call.with_options(retry=TWICE)("1")
        try:
            await call("2")
        except ActivityError:
            return f"{first}, once"
        return "never"

    async with Environment([_workflow(both)]) as env:
        env.fail("call", ConnectionError("engaged"))
        env.fail("call#2", ConnectionError("engaged"))
        assert (await env.run(_workflow(both))).value() == "called 1, once"
        assert env.ran() == ["call", "call", "call#2"]


async def test_none_takes_a_declared_option_away() -> None:
    async def gives_up() -> str:
        return await print_page.with_options(retry=None)("a")

    async with Environment([_workflow(gives_up)]) as env:
        env.fail("print_page", ConnectionError("no paper"))
        assert (await env.run(_workflow(gives_up))).outcome == "failed"
        assert env.ran() == ["print_page"]


@pytest.mark.parametrize(("before", "after"), [(twice, once), (once, twice)])
async def test_a_history_is_replayed_with_other_options(before: Any, after: Any) -> None:
    """Options are no part of what is recorded: adding them or taking them away changes no step."""
    async with Environment([_workflow(before)], evict=True) as env:
        if before is twice:
            env.fail("call", ConnectionError("engaged"))
        execution = (await env.start(_workflow(before))).execution_id
        await env.finish(execution)
        recording = await export(env.store, execution)
    assert replay(recording, [_workflow(after)]).outcome.value == '"called 1"'  # type: ignore[union-attr]


def test_an_option_of_the_wrong_shape_is_refused_with_the_right_one() -> None:
    """O7: as in `@activity`."""
    wrong: Any = call.with_options
    with pytest.raises(TypeError, match="the timeout of an activity must be a timedelta, not 30"):
        wrong(timeout=30)
    with pytest.raises(TypeError, match=r"retry= takes a Retry, such as Retry\(max_attempts=3\), not 3"):
        wrong(retry=3)
    with pytest.raises(ValueError, match="more than zero"):
        call.with_options(timeout=timedelta(0))


async def test_a_sync_activity_is_awaited_everywhere_and_has_its_plain_function() -> None:
    """The types say the same: `tests/types/expected.py`."""
    assert await print_page("a") == "printed a in place"
    assert print_page.function("a") == "printed a in place"
    assert await print_page.with_options(timeout=timedelta(seconds=5))("a") == "printed a in place"
    assert await call("1") == "called 1"

    async def in_a_workflow() -> str:
        return await print_page("a")

    async with Environment([_workflow(in_a_workflow)]) as env:
        assert (await env.run(_workflow(in_a_workflow))).value() == "printed a in a thread"
