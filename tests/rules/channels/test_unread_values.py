"""A value that was accepted is received, or the status says that it was left unread."""

from __future__ import annotations

import logging

import pytest

from engine import Channel, workflow
from engine.boundary.http import describe
from engine.store.wrapper import Call
from engine.testing import Environment

words = Channel("unread.words", str)


@workflow
async def takes_two() -> list[str]:
    return [await words.receive(), await words.receive()]


async def test_values_that_nobody_received_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """N5: in the status, over HTTP and in the log. Two of four were received."""
    caplog.set_level(logging.WARNING, "engine")
    async with Environment([takes_two]) as env:
        id = await env.start(takes_two)
        for word in "abcd":
            await env.client.send(id, words, word)
        status = await env.finish(id)
        assert (status.value(), status.unread_values) == (["a", "b"], 2)
        assert describe(status)["unreadValues"] == 2
    assert "ended with 2 values of channels unread" in caplog.text


async def test_a_value_that_arrives_during_the_last_write_is_counted() -> None:
    """N5: its sender was told that the execution runs."""
    async with Environment([takes_two]) as env:
        id = await env.start(takes_two)
        for word in "ab":
            await env.client.send(id, words, word)

        async def send_once(call: Call) -> None:
            if call.method == "commit" and call.of_method == 0:
                assert (await env.client.send(id, words, "late")).status == "running"

        env.store.before = send_once
        status = await env.finish(id)
        assert (status.value(), status.unread_values) == (["a", "b"], 1)


async def test_nothing_is_said_where_nothing_was_left() -> None:
    async with Environment([takes_two]) as env:
        id = await env.start(takes_two)
        for word in "ab":
            await env.client.send(id, words, word)
        status = await env.finish(id)
        assert status.unread_values == 0
        assert "unreadValues" not in describe(status)
