"""A declared exception keeps its class where an execution ends: for the parent, in groups and causes, for a handle."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine import ActivityError, Workflow, activity, workflow
from engine.testing import Environment
from engine.values.error_records import rebuild, record

pytestmark = pytest.mark.usefixtures("every_store")


class Declined(Exception):
    def __init__(self, code: str, *, card: str = "") -> None:
        super().__init__(code)
        self.card = card


class Expired(Declined):
    pass


class Undeclared(Exception):
    pass


@activity(raises=[Declined])
async def pay(how: str) -> None:
    raise Expired(how, card="4") if how == "expired" else Declined(how)


@activity(raises=[Exception])
async def raises_anything() -> None:
    raise Undeclared("as it came")


@workflow
async def child(how: str) -> None:
    match how:
        case "own":
            raise Declined("by the workflow's own code")
        case "group":
            paid = await asyncio.gather(pay("expired"), pay("also"), return_exceptions=True)
            raise ExceptionGroup("two", [error for error in paid if isinstance(error, Exception)])
        case "cause":
            try:
                await pay("expired")
            except Declined as declined:
                raise RuntimeError("not booked") from declined
        case "undeclared":
            await raises_anything()
        case _:
            await pay(how)


@workflow
async def between(how: str) -> None:
    await child(how)


@workflow
async def parent(how: str) -> list[Any]:
    seen = list[Any]()
    try:
        await between(how)
    except* Declined as declined:
        seen = [[type(one).__name__, str(one), one.card] for one in declined.exceptions if isinstance(one, Declined)]
    except* ActivityError as failed:
        seen = [type(failed.exceptions[0].__cause__).__name__, str(failed.exceptions[0])]
    return seen


@workflow(suspend_on_failure=True)
async def holds(how: str) -> None:
    if how == "its own":
        raise Declined("by a mistake")
    await child(how)


ALL: list[Workflow[Any, Any]] = [child, between, parent, holds]


@pytest.mark.parametrize(
    ("how", "seen"),
    [
        ("expired", [["Expired", "expired", "4"]]),
        ("own", [["Declined", "by the workflow's own code", ""]]),
        ("group", [["Expired", "expired", "4"], ["Declined", "also", ""]]),
        ("cause", ["Expired", "RuntimeError: not booked"]),
        ("undeclared", ["NoneType", "Undeclared: as it came"]),
    ],
)
async def test_a_declared_exception_crosses_two_generations(how: str, seen: list[Any]) -> None:
    """N2, N7: with its subclass and attributes, alone, in a group, and as the cause of another; live and in replay.
    `raises=[Exception]` says nothing about children."""
    async with Environment(ALL) as env:
        assert (await env.run(parent, how)).value() == seen


async def test_a_handle_has_the_declared_class() -> None:
    """N2: `handle.result()`, `client.execute` and `status.value()` raise the class."""
    async with Environment(ALL) as env:
        handle = await env.start(between, "expired")
        status = await env.finish(handle)
        with pytest.raises(Expired) as raised:
            await handle.result()
        assert raised.value.card == "4"
        with pytest.raises(Expired):
            status.value()


async def test_a_childs_declared_exception_is_an_answer() -> None:
    """P4: so it fails a parent with `suspend_on_failure`, and doesn't hold it as a mistake of its code would."""
    async with Environment(ALL) as env:
        assert (await env.run(holds, "expired")).outcome == "failed"
        assert (await env.drive(await env.start(holds, "its own"))).suspended


def test_an_app_that_does_not_know_the_class_has_an_activity_error() -> None:
    """N2: nor is an exception itself again that was recorded before the app declared its class."""
    unknown = rebuild(record(Expired("x"), [Declined]))
    before = rebuild(record(Expired("x")), [Declined])
    assert (type(unknown), str(unknown)) == (type(before), str(before)) == (ActivityError, "Expired: x")
