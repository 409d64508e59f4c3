"""One set of assertions on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from engine import Deferred, activity, workflow
from engine.ground.errors import Conflict, InvalidInput, Missing, Taken
from engine.store.base import Filter, Store
from engine.store.documents import Large, inbox_id
from engine.store.feed import FeedLeaseLost
from engine.testing import Environment
from tests.stores.cosmos.support import NOW, chunk, claimed, completed, execution, item
from tests.stores.every_store import store as store
from tests.support.faults import purge

ID = execution().execution_id
LATER = NOW + timedelta(seconds=7)


async def test_what_is_created_is_read(store: Store):
    created = await store.create(execution(tags={"a": "ü"}, workflow="語"))
    assert created.etag
    assert await store.read(ID) == created
    assert await store.load(ID) == await store.load(ID, 5)
    with pytest.raises(Taken):
        await store.create(execution(workflow="other"))
    assert await store.read(ID) == created


async def test_an_input_comes_with_it_or_not_at_all(store: Store):
    large = Large(id="input", execution_id=ID, value='"' + "x" * 100_000 + '"')
    await store.create(execution(payload=None), large)
    with pytest.raises(Taken):
        await store.create(execution(payload=None), large)
    loaded = (await store.load(ID)).input
    assert loaded is not None
    assert loaded.value == large.value


async def test_only_the_version_that_was_read_is_replaced(store: Store):
    first = await store.create(execution())
    second = await store.replace(claimed(first))
    assert second.etag not in ("", first.etag)
    assert await store.read(ID) == second
    with pytest.raises(Conflict):
        await store.replace(claimed(first, "late"))
    assert await store.read(ID) == second


async def test_the_log_has_one_writer_for_each_number(store: Store):
    await store.create(execution())
    results = await asyncio.gather(*(store.append(chunk(0)) for _ in range(5)), return_exceptions=True)
    assert sorted(type(one).__name__ for one in results) == ["NoneType", *["Taken"] * 4]
    for number in (2, 1, 10):
        await store.append(chunk(number))
    assert [c.number for c in (await store.load(ID)).chunks] == [0, 1, 2, 10]
    assert [c.number for c in (await store.load(ID, 2)).chunks] == [2, 10]


async def test_a_commit_is_all_or_nothing(store: Store):
    now = await store.create(execution())
    await store.append(chunk(0))
    output = Large(id="output", execution_id=ID, value="1")
    with pytest.raises(Taken):
        await store.commit(completed(now), chunk(0), output)
    with pytest.raises(Conflict):
        await store.commit(completed(now.model_copy(update={"etag": '"other"'})), chunk(1), output)
    assert await store.read(ID) == now
    loaded = await store.load(ID)
    assert (len(loaded.chunks), loaded.output) == (1, None)
    ended = await store.commit(completed(now), chunk(1), output)
    assert await store.read(ID) == ended
    loaded = await store.load(ID)
    assert (len(loaded.chunks), loaded.output is not None) == (2, True)


async def test_signals_wake_and_are_counted(store: Store):
    now = await store.replace(claimed(await store.create(execution())))
    signalled = [await store.signal(item(f"n{n}"), LATER) for n in range(3)]
    after = await store.read(ID)
    assert after == signalled[-1]
    assert (after.wake, after.inbox_count, after.due_at, after.worker) == (3, 3, LATER, "me")
    assert {i.name for i in (await store.load(ID)).inbox} == {"n0", "n1", "n2"}
    with pytest.raises(Conflict):
        await store.replace(now)


async def test_the_first_signal_of_a_name_wins(store: Store):
    await store.create(execution())
    results = await asyncio.gather(*(store.signal(item(value=str(n)), NOW) for n in range(5)), return_exceptions=True)
    assert sum(isinstance(one, Taken) for one in results) == 4
    after = await store.read(ID)
    assert (after.wake, after.inbox_count) == (1, 1)
    (winner,) = [n for n, one in enumerate(results) if not isinstance(one, Taken)]
    assert (await store.read_inbox(ID, inbox_id("deferred", "approval"))).value == str(winner)


async def test_many_signals_at_once_are_all_counted(store: Store):
    await store.create(execution())
    await asyncio.gather(*(store.signal(item(f"n{n}"), NOW) for n in range(20)))
    after = await store.read(ID)
    assert (after.wake, after.inbox_count, len((await store.load(ID)).inbox)) == (20, 20, 20)


async def test_what_a_signal_is_refused_for(store: Store):
    with pytest.raises(Missing):
        await store.signal(item(), NOW)
    now = await store.create(execution())
    now = await store.signal(item(), NOW)
    await store.replace(completed(now))
    for name in ("approval", "other"):  # that it's complete goes before that the item exists
        with pytest.raises(Conflict):
            await store.signal(item(name), NOW)


async def test_an_interrupt_counts_once(store: Store):
    with pytest.raises(Missing):
        await store.interrupt(ID, NOW)
    await store.create(execution())
    first = await store.interrupt(ID, LATER)
    assert (first.interrupted, first.wake, first.due_at) == (True, 1, LATER)
    again = await store.interrupt(ID, LATER + timedelta(1))
    assert again == first == await store.read(ID)
    ended = await store.replace(completed(again))
    assert await store.interrupt(ID, LATER) == ended


async def test_due(store: Store):
    for n in range(5):
        await store.create(execution(n, due_at=NOW + timedelta(seconds=n)))
    await store.create(execution(9, due_at=None))
    page = await store.due(NOW + timedelta(seconds=3), 10)
    assert [int(e.execution_id, 16) for e in page.executions] == [0, 1, 2, 3]
    assert page.continuation is None
    assert (await store.due(NOW - timedelta(seconds=1), 10)).executions == []


@pytest.mark.parametrize("limit", [1, 2, 5, 50])
async def test_pages(store: Store, limit: int):
    for n in range(7):
        moment = NOW + timedelta(seconds=n // 3)
        await store.create(execution(n, created_at=moment, updated_at=moment, due_at=moment))
    for ask in (
        lambda token: store.due(LATER, limit, token),
        lambda token: store.list(Filter(), limit, token),
    ):
        found, token = [], None
        while True:
            page = await ask(token)
            found += [e.execution_id for e in page.executions]
            token = page.continuation
            if token is None:
                break
        assert sorted(found) == [execution(n).execution_id for n in range(7)]


@pytest.mark.parametrize("text", ["", "x", "[]", "null", '["createdAt"]', "[1,2,3]", '{"a":1}'])
async def test_a_continuation_from_elsewhere_is_refused(store: Store, text: str):
    with pytest.raises(InvalidInput):
        await store.list(Filter(), 10, text)


async def test_filters(store: Store):
    cause = {"type": "Stuck", "message": "because"}
    await store.create(execution(1, workflow="a"))
    await store.replace(completed(await store.create(execution(2, workflow="a"))))
    await store.create(execution(3, workflow="b", suspended=True, cause=cause))

    async def numbers(**filter: Any) -> list[int]:
        return sorted(int(e.execution_id, 16) for e in (await store.list(Filter(**filter), 10)).executions)

    assert await numbers() == [1, 2, 3]
    assert await numbers(workflow="a") == [1, 2]
    assert await numbers(workflow="a", status="complete") == [2]
    assert await numbers(outcome="completed") == [2]
    assert await numbers(suspended_with_cause=True) == [3]
    assert await numbers(workflow="a", suspended_with_cause=True) == []


async def test_purge(store: Store):
    now = await store.create(execution(), Large(id="input", execution_id=ID, value="1"))
    await store.append(chunk())
    now = await store.signal(item(), NOW)
    with pytest.raises(Conflict):
        await store.purge(now)
    ended = await store.replace(completed(now))
    with pytest.raises(Conflict):
        await store.purge(now)
    await store.purge(ended)
    loaded = await store.load(ID)
    assert (loaded.chunks, loaded.inbox, loaded.input) == ([], [], None)
    for gone in (lambda: store.read(ID), lambda: store.purge(ended)):
        with pytest.raises(Missing):
            await gone()
    await store.create(execution())


async def test_the_feed_gives_each_latest_version(store: Store):
    for n in range(6):
        await store.create(execution(n))
    await store.signal(item(of=2), NOW)
    feed = store.change_feed()
    seen: list[tuple[str, str]] = []
    for lease in await feed.leases():
        token = None
        while True:
            documents, behind = await feed.read(lease.range, token, 2)
            if not documents:
                break
            token = behind
            seen += [(d["executionId"], d["id"]) for d in documents]
        taken = await feed.renew(lease, "me", 1.0, token)
        with pytest.raises(FeedLeaseLost):
            await feed.renew(lease, "other", 1.0, token)
        assert taken in await feed.leases()
    expected = [(execution(n).execution_id, "exec") for n in range(6)]
    assert sorted(seen) == sorted([*expected, (execution(2).execution_id, "deferred::approval")])


# Workflows

answer = Deferred("alike.answer", str)


@activity
async def say(word: str) -> str:
    return word


@workflow
async def of_all_kinds(word: str) -> list[str]:
    both = await asyncio.gather(say(word), say("right"))
    await asyncio.sleep(86_400)
    return [*both, await answer, await inner(word)]


@workflow
async def inner(word: str) -> str:
    return await say(word * 2_000)


@workflow
async def waits() -> None:
    await answer


async def interrupted(env: Environment) -> None:
    id = await env.start(waits)
    await env.finish(id)
    await env.client.interrupt(id)
    assert (await env.finish(id)).outcome == "interrupted"


async def completes(env: Environment) -> None:
    id = await env.start(of_all_kinds, "語")
    await env.finish(id)
    await env.complete(id, answer, "yes")
    status = await env.finish(id)
    assert status.value() == ["語", "right", "yes", "語" * 2_000]
    await purge(env, id)


@pytest.mark.parametrize("scenario", [completes, interrupted])
async def test_workflows(store: Store, scenario: Callable[[Environment], Awaitable[None]]):
    async with Environment([of_all_kinds, inner, waits], store=store) as env:
        await scenario(env)
