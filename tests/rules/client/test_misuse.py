"""What a caller of the client gets wrong is an error there, which says what is wanted; nothing is stored."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine import Channel, Deferred, Failure, InvalidInput, UnknownDeferred, activity, workflow
from engine.ground.errors import EncodingError
from engine.testing import Environment

answer = Deferred("misuse.answer", str)
notes = Channel("misuse.notes", str)


forgotten: list[Any] = []


class Refused(Failure):
    """No."""


@activity
async def misuse_step() -> str:
    return "done"


@workflow
async def misuse_waits() -> str:
    return await answer


@workflow
async def misuse_forgets() -> Any:
    forgotten.append(misuse_step())
    return forgotten[-1]


@workflow
async def misuse_breaks() -> None:
    raise LookupError("no such shelf")


ALL = [misuse_waits, misuse_forgets, misuse_breaks]

SLIPS: dict[str, tuple[Callable[[Any, str], Awaitable[Any]], type[Exception], str]] = {
    "a deferred is sent to": (lambda c, id: c.send(id, answer, "x"), TypeError, "takes a Channel or its name, not"),
    "a channel is resolved": (lambda c, id: c.resolve(id, notes, "x"), TypeError, "take a Deferred or its name, not"),
    "a channel fails": (lambda c, id: c.reject(id, notes, Refused()), TypeError, "take a Deferred or its name, not"),
    "an unknown deferred": (
        lambda c, id: c.resolve(id, "misuse.anwser"),
        UnknownDeferred,
        r"did you mean misuse\.answer\b",
    ),
    "an unknown channel": (
        lambda c, id: c.send(id, "misuse.answer", 1),
        UnknownDeferred,
        "no channel is named 'misuse.answer': ",
    ),
    "a payload too many": (
        lambda c, _: c.start(misuse_waits, {"a": 1}),
        EncodingError,
        "takes no payload, but got",
    ),
    "an empty key": (lambda c, _: c.start(misuse_waits, key=""), InvalidInput, "text that isn't empty, not ''"),
    "a key that is a number": (lambda c, _: c.start(misuse_waits, key=7), InvalidInput, "text that isn't empty, not 7"),
}


@pytest.mark.parametrize("slip", SLIPS)
async def test_a_slip_in_a_call(slip: str) -> None:
    call, error, words = SLIPS[slip]
    async with Environment(ALL) as env:
        id = (await env.start(misuse_waits)).execution_id
        before = await env.store.inner.load(id)
        with pytest.raises(error, match=words):
            await call(env.client, id)
        assert await env.store.inner.load(id) == before


async def test_a_forgotten_await_is_named() -> None:
    """A coroutine as a result."""
    async with Environment(ALL) as env:
        status = await env.run(misuse_forgets)
        for made in forgotten:
            made.close()  # or Python would warn
        assert "an await is missing before the call" in str(status.error)


async def test_a_failed_execution_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """HTTP hides the traceback; whoever runs the app has to find it."""
    caplog.set_level(logging.WARNING, "engine")
    async with Environment(ALL) as env:
        id = (await env.start(misuse_breaks)).execution_id
        await env.drive(id)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"execution {id} of workflow misuse_breaks failed: LookupError: no such shelf")
    assert "raise LookupError" in message
