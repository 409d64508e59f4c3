"""Replicas that lag: a store sees its own writes, and nothing is decided by an old read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.ground.errors import Conflict, Taken, Unavailable
from engine.store.cosmos.items import READS_BACK
from engine.store.cosmos.sessions import Sessions
from engine.store.cosmos.store import CosmosStore
from engine.store.documents import inbox_id
from tests.cosmos_double import CosmosDouble, Drop, StaleRead
from tests.stores.cosmos.support import NOW, Time, chunk, claimed, completed, execution, item

ID = execution().execution_id


def lag(double: CosmosDouble, behind: int = 100, times: int | None = None) -> None:
    """Every replica is that many commits behind, unless the request's session asks for more."""
    double.faults.add(StaleRead(behind=behind), kind="item", operation="read", times=times)
    double.faults.add(StaleRead(behind=behind), kind="query", times=times)


async def test_a_store_sees_its_own_writes_batches_included(store: CosmosStore, double: CosmosDouble) -> None:
    lag(double)
    now = await store.create(execution())
    assert await store.read(ID) == now
    now = await store.replace(claimed(now))
    assert await store.read(ID) == now
    await store.append(chunk(0))
    assert [c.number for c in (await store.load(ID)).chunks] == [0]
    now = await store.signal(item(), NOW)
    assert await store.read(ID) == now
    assert [i.name for i in (await store.load(ID)).inbox] == ["approval"]
    assert (await store.read_inbox(ID, inbox_id("deferred", "approval"))).value == "1"
    now = await store.interrupt(ID, NOW)
    assert await store.read(ID) == now
    now = await store.commit(completed(now), chunk(1))
    assert await store.read(ID) == now
    assert [c.number for c in (await store.load(ID)).chunks] == [0, 1]


async def test_a_read_after_a_refusal_sees_what_refused(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble
) -> None:
    """The other process's writes are not in our session, but the refusal of ours is."""
    now, other = await store.create(execution()), new_store()
    await other.append(chunk())
    theirs = await other.commit(claimed(now, "other"), chunk(1))
    lag(double)
    with pytest.raises(Conflict):
        await store.replace(claimed(now))
    assert await store.read(ID) == theirs
    with pytest.raises(Taken):
        await store.append(chunk())
    assert (await store.interrupt(ID, NOW)).worker == "other"


async def test_an_interrupt_that_came_too_late_answers_with_the_end(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble
) -> None:
    now = await store.create(execution())
    await new_store().replace(completed(now))
    lag(double)
    assert (await store.interrupt(ID, NOW)).is_complete


async def test_a_fresh_process_may_read_old_documents_and_only_loses_time(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble
) -> None:
    now = await store.create(execution())
    theirs = await store.replace(claimed(now))
    lag(double, behind=1)
    other = new_store()
    old = await other.read(ID)
    assert old.etag == now.etag
    with pytest.raises(Conflict):
        await other.replace(claimed(old, "other"))
    assert await other.read(ID) == theirs


class TestWithoutSessions:
    """An account with Eventual consistency has no sessions: what stands is read until it is what refused the write."""

    @pytest.fixture
    def consistency(self) -> str:
        return "Eventual"

    async def test_its_own_first_try_is_recognised_late(
        self, store: CosmosStore, double: CosmosDouble, time: Time
    ) -> None:
        now = await store.create(execution())
        double.faults.add(Drop(after_effect=True), kind="item", operation="replace")
        lag(double, behind=1, times=READS_BACK - 1)
        after = await store.replace(claimed(now))
        assert after.worker == "me"
        assert after == await store.read(ID)
        assert len(time.slept) == READS_BACK - 1  # aiohttp itself sent the PUT again

    async def test_a_chunk_likewise(self, store: CosmosStore, double: CosmosDouble) -> None:
        await store.create(execution())
        double.faults.add(Drop(after_effect=True), kind="item", operation="create")
        lag(double, behind=1, times=2)
        await store.append(chunk())

    async def test_an_interrupt_is_never_answered_with_what_was_before_it(
        self, store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble
    ) -> None:
        await store.create(execution())
        await new_store().interrupt(ID, NOW)
        lag(double, behind=1, times=2)
        assert (await store.interrupt(ID, NOW)).interrupted

    async def test_who_can_not_know_says_so(self, store: CosmosStore, double: CosmosDouble) -> None:
        now = await store.create(execution())
        double.faults.add(Drop(after_effect=True), kind="item", operation="replace")
        lag(double, behind=1)
        with pytest.raises(Unavailable, match="can't be read in the version"):
            await store.replace(claimed(now))


def test_tokens_are_the_freshest_of_a_partition() -> None:
    sessions = Sessions()
    assert sessions.options("a") == {}
    for token in ("0:-1#5", "0:-1#7", "0:-1#6", ""):
        sessions.learn("a", {"x-ms-session-token": token})
    assert sessions.options("a") == {"session_token": "0:-1#7"}
    sessions.learn("a", {"x-ms-session-token": "2:-1#6#1=3"})  # after a split
    assert sessions.options("a") == {"session_token": "2:-1#6#1=3"}
    sessions.learn("a", {})
    assert sessions.options("b") == {}


def test_the_executions_that_were_spoken_to_last_are_remembered() -> None:
    sessions = Sessions(capacity=2)
    for id in ("a", "b", "a", "c"):
        sessions.learn(id, {"x-ms-session-token": "0:-1#1"})
    assert [bool(sessions.options(id)) for id in "abc"] == [True, False, True]
