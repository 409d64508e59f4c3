"""Deferreds: one value from outside, the first; early or late, of many a kind, in races, with many waiters."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from engine import (
    AlreadyEnded,
    AlreadyResolved,
    Channel,
    Deferred,
    Failure,
    UnknownDeferred,
    UnknownExecution,
    Workflow,
    workflow,
)
from engine.ground.names import MAX_NAME
from engine.testing import Environment
from tests.support.mortal import assert_replays, do, everywhere, inputs, journal, rest

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

plain = Deferred("outside.plain", int)
text = Deferred("outside.text", str)
nothing = Deferred("outside.nothing", None)
approval = Deferred("outside.approval", str)
notes = Channel("outside.notes", str)
ODD_KEYS = ["a/b", "a\\b", "a?b", "a#b", "a%2Fb", "%", "..", " ", "a+b", "a|b", "[x]", "]", "ü", "é", "日本", "🙂", ""]


class Refused(Failure):
    by: str


@workflow
async def awaits() -> int:
    return await plain


@workflow
async def catches() -> list[str]:
    caught = []
    for _ in range(2):
        try:
            await plain
        except Refused as refused:
            caught.append(refused.by)
    return caught


@workflow
async def races_a_timer() -> str:
    try:
        async with asyncio.timeout(86_400):
            return await text
    except TimeoutError:
        return "too late"


@workflow
async def awaits_twice() -> list[int]:
    return [await plain, await plain, *await asyncio.gather(plain.wait(), plain.wait())]


@workflow
async def two_waiters() -> list[Any]:
    first, second = asyncio.create_task(plain.wait()), asyncio.create_task(plain.wait())
    await do("begun")
    first.cancel()
    results = await asyncio.gather(first, second, return_exceptions=True)
    return [type(results[0]).__name__, results[1]]


@workflow
async def cancels_and_awaits_again() -> list[Any]:
    task = asyncio.create_task(plain.wait())
    await asyncio.sleep(60)
    task.cancel()
    await asyncio.sleep(60)
    return [task.cancelled(), await plain]


@workflow
async def takes_keyed(keys: list[str]) -> list[str]:
    return list(await asyncio.gather(*(approval[key].wait() for key in keys)))


@workflow(idempotency_key=lambda order: order)
async def hands_out_tokens(order: str) -> str:
    await do(f"mail {approval.token()} {approval['boss'].token()}")
    return f"{await approval} {await approval['boss']}"


@workflow
async def takes_nothing() -> str:
    return repr(await nothing)  # type: ignore[func-returns-value]


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]


@SLOW
async def test_a_failure_is_raised_where_it_is_awaited_as_often_as_that() -> None:
    """client.fail: the typed failure itself; the same again is a success, another or a value is refused."""

    async def scenario(env: Environment) -> None:
        id = await env.start(catches, key="k")
        for _ in range(2):
            await env.client.reject(id, plain, Refused(by="Ada"))
        with pytest.raises(AlreadyResolved) as refused:
            await env.client.reject(id, plain, Refused(by="Eve"))
        assert json.loads(json.loads(refused.value.first)["data"]) == {"by": "Ada"}
        with pytest.raises(AlreadyResolved):
            await env.resolve(id, plain, 1)
        assert (await env.finish(id)).value() == ["Ada", "Ada"]

    await everywhere(ALL, scenario)


async def test_an_unhandled_failure_is_the_workflows_own() -> None:
    """It ends the execution as failed, with its fields."""
    async with Environment(ALL) as env:
        id = await env.start(awaits)
        await env.settle()
        await env.client.reject(id, plain, Refused(by="Ada"))
        with pytest.raises(Refused) as refused:
            (await env.finish(id)).value()
        assert refused.value.by == "Ada"


@pytest.mark.parametrize("early", [True, pytest.param(False, marks=SLOW)])
async def test_a_deferred_races_a_timer(early: bool) -> None:
    """Whichever comes first, at every crash; the loser changes nothing."""

    async def scenario(env: Environment) -> None:
        id = await env.start(races_a_timer, key="k")
        await rest(env)
        if early:
            await env.resolve(id, text, "in time")
        assert (await env.finish(id)).value() == ("in time" if early else "too late")
        if not early:
            with pytest.raises(AlreadyEnded):
                await env.resolve(id, text, "at last")

    await everywhere(ALL, scenario)


@SLOW
@pytest.mark.parametrize(
    ("one", "result"),
    [(awaits_twice, [5] * 4), (two_waiters, ["CancelledError", 5]), (cancels_and_awaits_again, [True, 5])],
)
async def test_a_deferred_may_have_any_number_of_waiters(one: Workflow[Any, Any], result: list[Any]) -> None:
    """Each has the one value, which is in the history once; who is cancelled doesn't take it from the others."""

    async def scenario(env: Environment) -> None:
        id = (await env.start(one, key="k")).execution_id
        await env.finish(id)
        await env.resolve(id, plain, 5)
        assert (await env.finish(id)).value() == result
        assert await inputs(env, id) == ["5"]

    await everywhere(ALL, scenario)


async def test_keyed_deferreds_never_meet() -> None:
    """H1: many of a kind, with any characters in their keys, by object and by the name that HTTP gives."""
    async with Environment(ALL) as env:
        id = await env.start(takes_keyed, ODD_KEYS)
        await env.settle()
        for number, key in enumerate(ODD_KEYS):
            name = f"outside.approval[{key}]"
            await env.client.resolve_json(id, name, json.dumps(key)) if number % 2 else await env.resolve(
                id, approval[key], key
            )
        assert (await env.finish(id)).value() == ODD_KEYS
        await assert_replays(env)


def test_the_same_letter_in_two_forms_is_two_keys() -> None:
    """H1: composed and decomposed."""
    assert approval["é"].name != approval["e\u0301"].name


@pytest.mark.parametrize(
    "name", ["outside.approval]", "outside.approval[", "outside.unknown[x]", "[x]", "outside.approval[\n]", "]", ""]
)
async def test_a_name_that_nobody_declares_is_unknown(name: str) -> None:
    """Never an error of ours, and nothing is stored."""
    async with Environment(ALL) as env:
        id = (await env.start(awaits)).execution_id
        with pytest.raises(UnknownDeferred):
            await env.client.resolve_json(id, name, '"x"')
        assert (await env.store.inner.load(id)).inbox == []


@pytest.mark.sqlite_only("nothing of it depends on the store")
@pytest.mark.parametrize("key", ["x" * MAX_NAME, "日" * 150, "a\nb", "\ud800"])
def test_a_key_that_can_name_no_document_is_refused_where_it_is_made(key: str) -> None:
    """ValueError with the rule: too long, too long in its quoted form, not printable."""
    with pytest.raises(ValueError, match="the name of a deferred"):
        approval[key]


@SLOW
async def test_a_token_from_inside_is_the_one_from_outside() -> None:
    """The outside derives it from the payload or the key, before there is an execution; each names one deferred; at
    every crash."""

    async def scenario(env: Environment) -> None:
        tokens = [
            approval.token_for(hands_out_tokens, "order"),
            approval["boss"].token_for(hands_out_tokens, key="order"),
        ]
        with pytest.raises(UnknownExecution):
            await env.client.resolve_token(tokens[0], "yes")
        await env.start(hands_out_tokens, "order")
        await env.client.resolve_token(tokens[0], "yes")
        await rest(env)
        assert set(journal.effects) == {f"mail {tokens[0]} {tokens[1]}"}
        status = await env.client.resolve_token(tokens[1], "surely")
        assert (await env.finish(status.execution_id)).value() == "yes surely"

    await everywhere(ALL, scenario)


def test_a_token_needs_something_to_name() -> None:
    """Inside, an execution; outside, a key: otherwise an error that says what to do."""
    with pytest.raises(RuntimeError, match=r"elsewhere it is token_for\(workflow, payload\)"):
        approval.token()
    with pytest.raises(ValueError, match="workflow awaits declares no idempotency key: pass key="):
        approval.token_for(awaits)
    for slip in (approval.wait, notes.receive):
        with pytest.raises(RuntimeError, match=r"only be .* in a workflow"):
            asyncio.run(slip())


async def test_none_is_a_value() -> None:
    """K1: a deferred of None, also with no body at all."""
    async with Environment(ALL) as env:
        for body in ("", "null"):
            id = await env.start(takes_nothing)
            await env.client.resolve_json(id, "outside.nothing", body)
            assert (await env.finish(id)).value() == "None"


async def test_fifty_deferreds_under_a_clock_that_stands() -> None:
    """A5: all of one instant, all received."""
    async with Environment(ALL) as env:
        keys = [str(number) for number in range(50)]
        id = await env.start(takes_keyed, keys)
        await env.settle()
        for key in keys:
            await env.resolve(id, approval[key], key)
        await env.settle()
        assert (await env.status(id)).value() == keys
