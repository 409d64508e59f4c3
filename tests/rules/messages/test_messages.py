"""What the code of a workflow asks of another execution is a durable step, and reaches that execution once."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from engine import (
    AlreadyEnded,
    AlreadyResolved,
    Channel,
    Deferred,
    EncodingError,
    Peer,
    UnknownExecution,
    Workflow,
    activity,
    workflow,
)
from engine.ground.errors import Unavailable
from engine.store.wrapper import Call
from engine.testing import Environment, survives

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

told = Channel("messages.told", set[str])
numbers = Channel("messages.numbers", int)
answer = Deferred("messages.answer", str)
gate = Deferred("messages.gate", None)


@activity
async def messages_note(what: str) -> str:
    return what


@workflow(name="messages.listener", idempotency_key=lambda name: name)
async def listener(name: str) -> list[Any]:
    heard: list[Any] = []
    try:
        async for number in numbers:
            if number == 0:
                break
            heard.append(number)
        heard += sorted(await told.receive())
        await gate
        return [*heard, await answer]
    except asyncio.CancelledError as stopped:
        await messages_note(str(stopped))
        raise


@workflow(name="messages.speaker")
async def speaker(name: str) -> str:
    other = listener.handle(key=name)
    await asyncio.gather(*(other.send(numbers, number) for number in (1, 2)))
    await other.send(numbers, 0)
    await other.send(told, {"c", "a", "b"})
    await other.resolve(gate)
    await other.resolve(answer, "yes")
    await other.resolve(answer, "yes")
    return other.execution_id


ALL: list[Workflow[Any, Any]] = [listener, speaker]


@SLOW
async def test_each_message_arrives_once_wherever_the_process_dies() -> None:
    async def play(env: Environment) -> Any:
        other = await env.start(listener, "ada")
        status = await env.run(speaker, "ada", key="s")
        assert status.value() == other.execution_id
        heard = (await env.finish(other)).value()
        return [*sorted(heard[:2]), *heard[2:]]

    assert await survives(ALL, play) == [1, 2, "a", "b", "c", "yes"]


async def test_a_message_whose_answer_was_lost_is_sent_again_under_its_key() -> None:
    """The step has failed once, its effect is there: the second attempt finds it."""

    async def lose(call: Call) -> None:
        if call.method == "signal" and not lost:
            lost.append(call)
            raise Unavailable("the answer was lost")

    lost: list[Call] = []
    async with Environment(ALL) as env:
        other = await env.start(listener, "ada")
        env.store.after = lose
        await env.run(speaker, "ada")
        assert sorted((await env.finish(other)).value()[:2]) == [1, 2]
        assert lost


@workflow(name="messages.asks")
async def asks(what: str) -> str:
    other = listener.handle(key="ada")
    try:
        match what:
            case "send":
                await other.send(numbers, 1)
            case "resolve":
                await other.resolve(answer, "no")
            case _:
                await other.interrupt(reason=what)
    except (UnknownExecution, AlreadyEnded, AlreadyResolved) as error:
        return f"{type(error).__name__}: {error}"
    return "done"


@pytest.mark.parametrize("what", ["send", "resolve", "late"])
async def test_an_execution_that_is_not_there_raises_a_typed_error(what: str) -> None:
    async with Environment([asks, listener]) as env:
        assert (await env.run(asks, what)).value().startswith("UnknownExecution: there is no execution ")


async def test_an_execution_that_has_ended_takes_no_more_values_and_no_interrupt_hurts() -> None:
    async with Environment([asks, *ALL]) as env:
        other = await env.start(listener, "ada")
        await env.run(speaker, "ada")
        first = await env.finish(other)
        assert (await env.run(asks, "send")).value().startswith("AlreadyEnded: ")
        assert (await env.run(asks, "resolve")).value().startswith("AlreadyResolved: ")
        assert (await env.run(asks, "late")).value() == "done"
        assert (await env.status(other)).outcome == first.outcome


async def test_an_interrupt_says_why_and_who_asked() -> None:
    async with Environment([asks, listener]) as env:
        other = await env.start(listener, "ada")
        await env.settle()
        asker = await env.start(asks, "too late")
        await env.settle()
        status = await env.finish(other)
        assert (status.outcome, status.interrupt_reason) == ("interrupted", "too late")
        assert status.interrupted_by == f"execution {asker.execution_id} of workflow messages.asks"
        assert env.ran(other) == ["messages_note"]


async def test_a_refusal_does_not_hold_a_workflow_that_catches_it() -> None:
    @workflow(name="messages.careful", suspend_on_failure=True)
    async def careful() -> str:
        try:
            await listener.handle(key="nobody").send(numbers, 1)
        except UnknownExecution:
            return "nobody"
        return "sent"

    async with Environment([careful, listener]) as env:
        assert (await env.run(careful)).value() == "nobody"


async def test_a_workflow_speaks_to_itself() -> None:
    @workflow(name="messages.self")
    async def alone() -> int:
        me = alone.handle(workflow.execution_id())
        await me.send(numbers, 7)
        return await numbers.receive()

    async with Environment([alone]) as env:
        assert (await env.run(alone)).value() == 7


async def test_misuse_is_named_before_anything_is_asked() -> None:
    @workflow(name="messages.wrong")
    async def wrong() -> list[str]:
        seen: list[str] = []
        other = listener.handle(key="ada")
        wrongly: list[Any] = [
            lambda: listener.handle(),
            lambda: listener.handle(key=""),
            lambda: listener.handle("ada"),
            lambda: other.send(cast(Any, answer), "x"),
            lambda: other.send(numbers, cast(Any, object())),
            lambda: other.resolve(numbers, 1),  # type: ignore[call-overload]
            lambda: other.interrupt(reason=""),
        ]
        for one in wrongly:
            try:
                await one()
            except (TypeError, ValueError, EncodingError) as error:
                seen.append(type(error).__name__)
        return seen

    async with Environment([wrong, listener]) as env:
        status = await env.run(wrong)
        assert status.value() == [
            "TypeError",
            "ValueError",
            "ValueError",
            "TypeError",
            "EncodingError",
            "TypeError",
            "ValueError",
        ]


async def test_outside_of_a_workflow_the_message_names_the_client() -> None:
    with pytest.raises(RuntimeError, match="for the code of a workflow"):
        listener.handle(key="ada")
    with pytest.raises(RuntimeError, match="only that code can use it"):
        await Peer(listener, "0" * 32).send(numbers, 1)
