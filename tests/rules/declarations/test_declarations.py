"""What an author gets wrong where something is declared or called is an error there, which says what is wanted."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from engine import Retry, activity, workflow
from engine.testing import Environment


async def plain(value: int) -> int:
    return value


async def two(one: int, other: int) -> int:
    return one + other


class NoFunction:
    pass


slips: Any = (activity, workflow)  # mypy would find most of these
activity_slip, workflow_slip = slips


async def generates() -> AsyncIterator[int]:
    yield 1


DECLARATIONS: dict[str, tuple[Callable[[], Any], str]] = {
    "retry by number": (
        lambda: activity_slip(retry=3)(plain),
        r"takes a Retry, such as Retry\(max_attempts=3\), not 3",
    ),
    "timeout in seconds": (lambda: activity_slip(timeout=30)(plain), "must be a timedelta, not 30"),
    "one exception": (lambda: activity_slip(raises=ValueError)(plain), "a list of exception classes, not <class"),
    "an exception's name": (
        lambda: activity_slip(raises=["ValueError"])(plain),
        "exception classes .* not 'ValueError'",
    ),
    "a class": (lambda: activity_slip(NoFunction), "takes a function or an async function, not <class"),
    "a name": (lambda: activity_slip("charge"), "takes a function or an async function, not 'charge'"),
    "a workflow": (lambda: activity_slip(workflow(plain)), "not <workflow plain version 1>"),
    "an activity": (lambda: workflow_slip(activity(plain)), "takes an async function, not <activity plain>"),
    "a generator": (lambda: workflow_slip(generates), "takes an async function, .* it has a yield"),
    "an activity that generates": (lambda: activity_slip(generates), "an async function, .* it has a yield"),
    "two payloads": (lambda: workflow_slip(two), "workflow two takes one payload or none: put several values in one"),
    "a version by number": (
        lambda: workflow_slip(version=2)(plain),
        "version of workflow plain must be text that isn't empty",
    ),
    "no version": (
        lambda: workflow_slip(version="")(plain),
        "version of workflow plain must be text that isn.t empty, not ''",
    ),
    "a field's name": (lambda: workflow_slip(idempotency_key="id")(plain), "a function of the payload, .* not 'id'"),
    "a flag as text": (lambda: workflow_slip(suspend_on_failure="no")(plain), "must be True or False, not 'no'"),
    "a list of tags": (lambda: workflow_slip(tags=["post"])(plain), r"tags must be texts by name, .* not \['post'\]"),
}


@pytest.mark.parametrize("slip", DECLARATIONS)
def test_a_slip_in_a_declaration(slip: str) -> None:
    """TypeError as the app is imported, not a driver that fails later."""
    declare, words = DECLARATIONS[slip]
    with pytest.raises(TypeError, match=words):
        declare()


def test_tags_are_the_workflows_own() -> None:
    """What the author's dictionary becomes afterwards changes nothing."""
    tags = {"team": "post"}
    declared = workflow(tags=tags)(plain)
    tags["team"] = "sales"
    assert declared.options.tags == {"team": "post"}


@activity(retry=Retry(max_attempts=2, first_delay=timedelta(seconds=1)))
async def declared_step(value: int = 0) -> int:
    return value


@workflow
async def declared_child(value: int) -> int:
    return value


@workflow
async def forgets_to_await(how: str) -> str:
    wrong: Any = {"activity": declared_step, "child": declared_child}[how]
    wrong(1)
    return "done"


@workflow
async def calls_wrongly(how: str) -> str:
    wrong: Any = {"activity": declared_step, "child": declared_child}[how]
    try:
        await wrong(1, 2, 3)
    except TypeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("how", "name"), [("activity", "<activity declared_step>"), ("child", "<workflow declared_child version 1>")]
)
async def test_a_call_that_nobody_awaits_is_named(how: str, name: str) -> None:
    """Python's own warning says which step it was."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        async with Environment([forgets_to_await, declared_child]) as env:
            assert (await env.run(forgets_to_await, how)).value() == "done"
    assert f"coroutine '{name}' was never awaited" in {str(warning.message) for warning in warned}


@pytest.mark.parametrize(
    ("how", "name"), [("activity", "activity declared_step"), ("child", "workflow declared_child")]
)
async def test_a_call_with_wrong_arguments_is_named(how: str, name: str) -> None:
    """As Python would put it, and whose arguments they are."""
    async with Environment([calls_wrongly, declared_child]) as env:
        assert (await env.run(calls_wrongly, how)).value() == f"{name}: too many positional arguments"
