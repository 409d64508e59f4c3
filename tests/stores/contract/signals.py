"""The promises of `engine.store.base` about what comes from outside: signals, interrupts, purges."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.ground.errors import Conflict, Missing, Taken
from engine.store import transitions
from engine.store.base import Loaded, Store
from engine.store.documents import Execution, InboxItem
from tests.stores.contract.executions import (
    LATER,
    NOW,
    Raw,
    chunk,
    claimed,
    completed,
    execution,
    item,
    large,
    new_id,
    plain,
)
from tests.support import documents

OF_EACH_WRITE = {"write_id", "etag"}
"""Fields that differ after every write."""


def _changes(before: Execution, after: Execution) -> dict[str, Any]:
    """The fields that differ, as they are after it."""
    fields = type(after).model_fields.keys() - OF_EACH_WRITE
    return {name: getattr(after, name) for name in fields if getattr(after, name) != getattr(before, name)}


def _with_chunks(execution: Execution, count: int) -> Execution:
    return execution.model_copy(update={"history_length": count})


class SignalsContract:
    """signal, read_inbox, interrupt, purge."""

    # -- signal --

    async def test_a_signal_writes_the_item_and_wakes_the_execution(self, store: Store, raw: Raw) -> None:
        created = await store.create(execution())
        sent = item(created.execution_id)
        woken = await store.signal(sent, LATER)
        assert _changes(created, woken) == {"wake": 1, "inbox_count": 1, "due_at": LATER, "updated_at": LATER}
        assert woken.etag != created.etag
        assert await store.read(created.execution_id) == woken
        found = await raw.get(created.execution_id, "deferred::approval")
        assert found is not None
        assert {name: found[name] for name in plain(sent)} == plain(sent)

    @pytest.mark.parametrize("state", ["driven", "waiting for the outside", "waiting for a timer"])
    async def test_a_signal_wakes_whatever_state_the_execution_is_in(self, store: Store, state: str) -> None:
        before = await store.replace(claimed(await store.create(execution())))
        if state != "driven":
            due = LATER if state == "waiting for a timer" else None
            before = await store.replace(documents.suspended(before, NOW, due))
        woken = await store.signal(item(before.execution_id), NOW)
        assert _changes(before, woken) == {"wake": before.wake + 1, "inbox_count": 1, "due_at": NOW}
        assert await store.read(before.execution_id) == woken

    async def test_a_driver_with_an_older_version_cannot_write_after_a_signal(self, store: Store) -> None:
        held = await store.replace(claimed(await store.create(execution())))
        await store.signal(item(held.execution_id), NOW)
        with pytest.raises(Conflict):
            await store.commit(documents.suspended(held, NOW), chunk(held.execution_id, 0))
        with pytest.raises(Conflict):
            await store.replace(documents.extended(held, NOW))

    async def test_the_first_signal_of_a_name_wins(self, store: Store, other: Store) -> None:
        id = (await store.create(execution())).execution_id
        woken = await store.signal(item(id, value="1"), NOW)
        for again in (item(id, value="2"), item(id, value="1")):
            with pytest.raises(Taken):
                await other.signal(again, LATER)
        assert await store.read(id) == woken
        assert (await store.read_inbox(id, "deferred::approval")).value == "1"

    async def test_parallel_signals_of_different_names_all_count(self, store: Store, other: Store) -> None:
        id = (await store.create(execution())).execution_id
        await asyncio.gather(*((store if n % 2 else other).signal(item(id, str(n)), NOW) for n in range(20)))
        current = await store.read(id)
        assert (current.wake, current.inbox_count) == (20, 20)
        assert {one.name for one in (await store.load(id)).inbox} == {str(n) for n in range(20)}

    async def test_of_parallel_signals_of_one_name_one_counts(self, store: Store, other: Store) -> None:
        id = (await store.create(execution())).execution_id
        answers = await asyncio.gather(
            *((store if n % 2 else other).signal(item(id, value=str(n)), NOW) for n in range(20)),
            return_exceptions=True,
        )
        won = [number for number, answer in enumerate(answers) if isinstance(answer, Execution)]
        assert [type(answer) for answer in answers if not isinstance(answer, Execution)] == [Taken] * 19
        current = await store.read(id)
        assert (current.wake, current.inbox_count) == (1, 1)
        assert (await store.read_inbox(id, "deferred::approval")).value == str(won[0])

    async def test_a_signal_to_a_complete_execution_is_a_conflict_and_writes_nothing(
        self, store: Store, raw: Raw
    ) -> None:
        ended = await store.commit(completed(await store.create(execution())))
        with pytest.raises(Conflict):
            await store.signal(item(ended.execution_id), NOW)
        assert await raw.ids(ended.execution_id) == ["exec"]
        assert await store.read(ended.execution_id) == ended

    async def test_complete_goes_before_taken(self, store: Store) -> None:
        """The client looks for the item after a Conflict, and compares: both answers would do for a deferred, but
        only Conflict tells the sender of a channel's value that the execution has ended."""
        id = (await store.create(execution())).execution_id
        woken = await store.signal(item(id), NOW)
        ended = await store.commit(completed(woken))
        with pytest.raises(Conflict):
            await store.signal(item(id), NOW)
        assert (await store.read_inbox(id, "deferred::approval")).value == "1"
        assert await store.read(id) == ended

    async def test_missing_goes_before_taken(self, store: Store, raw: Raw) -> None:
        """An item that a purged execution left behind is nobody's."""
        id = new_id()
        await raw.put(item(id).to_document())
        with pytest.raises(Missing):
            await store.signal(item(id, value="2"), NOW)
        with pytest.raises(Missing):
            await store.signal(item(id, "another"), NOW)
        assert await raw.ids(id) == ["deferred::approval"]

    @pytest.mark.parametrize(
        "name", ["a/b", "a\\b", "a?b", "a#b", "%2F", "..", "a b", "a+b", "a|b", "ä", "☃", "𝄞", "'"]
    )
    async def test_names_of_all_kinds_are_kept_apart(self, store: Store, name: str) -> None:
        id = (await store.create(execution())).execution_id
        await store.signal(item(id, name, '"this"'), NOW)
        await store.signal(item(id, name + name, '"that"'), NOW)
        assert (await store.read_inbox(id, item(id, name).id)).value == '"this"'
        assert {(one.name, one.value) for one in (await store.load(id)).inbox} == {
            (name, '"this"'),
            (name * 2, '"that"'),
        }

    async def test_an_inbox_document_is_read_as_it_stands(self, store: Store, raw: Raw) -> None:
        id = new_id()
        there = InboxItem.of("channel", id, "news", NOW, '"x"', one_of_many="a/b", position=3)
        await raw.put(there.to_document() | {"future": 1})
        found = await store.read_inbox(id, there.id)
        assert plain(found) == plain(there) | {"future": 1}
        with pytest.raises(Missing):
            await store.read_inbox(id, "channel::news::c")

    # -- interrupt --

    async def test_an_interrupt_sets_the_mark_and_wakes(self, store: Store, raw: Raw) -> None:
        held = await store.replace(claimed(await store.create(execution())))
        marked = await store.interrupt(held.execution_id, LATER)
        assert _changes(held, marked) == {"interrupted": True, "wake": 1, "due_at": LATER, "updated_at": LATER}
        assert await store.read(held.execution_id) == marked
        assert await raw.ids(held.execution_id) == ["exec"]
        with pytest.raises(Conflict):
            await store.commit(completed(held), chunk(held.execution_id, 0))

    async def test_a_second_interrupt_changes_nothing(self, store: Store) -> None:
        id = (await store.create(execution())).execution_id
        marked = await store.interrupt(id, NOW)
        assert await store.interrupt(id, LATER) == marked
        assert await store.read(id) == marked

    async def test_an_interrupt_of_a_complete_execution_changes_nothing(self, store: Store) -> None:
        ended = await store.commit(completed(await store.create(execution())))
        assert await store.interrupt(ended.execution_id, LATER) == ended
        assert await store.read(ended.execution_id) == ended

    async def test_parallel_interrupts_are_one(self, store: Store, other: Store) -> None:
        id = (await store.create(execution())).execution_id
        answers = await asyncio.gather(*((store if n % 2 else other).interrupt(id, NOW) for n in range(20)))
        assert all(answer.interrupted and answer.wake == 1 for answer in answers)
        assert (await store.read(id)).wake == 1

    async def test_an_interrupt_and_a_completion_at_once_agree(self, store: Store, other: Store) -> None:
        for _ in range(20):
            running = await store.create(execution())
            marked, ended = await asyncio.gather(
                other.interrupt(running.execution_id, NOW), store.commit(completed(running)), return_exceptions=True
            )
            current = await store.read(running.execution_id)
            assert isinstance(marked, Execution)
            assert (current.interrupted, current.is_complete) == (marked.interrupted, not marked.interrupted)
            assert isinstance(ended, Conflict if marked.interrupted else Execution)

    # -- purge --

    async def test_a_purge_deletes_everything_and_nothing_else(self, store: Store, raw: Raw) -> None:
        neighbour = await store.create(execution())
        created = await store.create(execution(payload=None), None)
        id = created.execution_id
        for number in range(3):
            await store.append(chunk(id, number))
        woken = await store.signal(item(id, "a/b"), NOW)
        ended = await store.commit(completed(woken), chunk(id, 3), large(id, "output"))
        await store.purge(ended)
        assert await raw.ids(id) == []
        assert await store.load(id) == Loaded()
        assert await store.read(neighbour.execution_id) == neighbour
        fresh = await store.create(execution(id))
        assert await store.read(id) == fresh

    async def test_a_purge_deletes_more_than_one_transaction_holds(self, store: Store, raw: Raw) -> None:
        running = await store.create(execution())
        id = running.execution_id
        for number in range(250):
            await raw.put(chunk(id, number).to_document())
        await store.purge(await store.commit(_with_chunks(completed(running), 250)))
        assert await raw.ids(id) == []

    async def test_what_runs_is_not_purged(self, store: Store, raw: Raw) -> None:
        running = await store.create(execution())
        await store.append(chunk(running.execution_id, 0))
        with pytest.raises(Conflict):
            await store.purge(running)
        assert await raw.ids(running.execution_id) == ["exec", "history::00000000"]
        assert await store.read(running.execution_id) == running

    async def test_an_older_version_purges_nothing(self, store: Store, raw: Raw) -> None:
        running = await store.create(execution(parents=[{"execution_id": new_id(), "step": "s"}]))
        old = await store.commit(_with_chunks(completed(running), 1), chunk(running.execution_id, 0))
        told = await store.replace(transitions.mark_as_notified(NOW).apply(old))
        with pytest.raises(Conflict):
            await store.purge(old)
        assert await raw.ids(running.execution_id) == ["exec", "history::00000000"]
        await store.purge(told)
        assert await raw.ids(running.execution_id) == []

    async def test_a_purge_with_an_old_version_spares_a_fresh_run_of_that_id(self, store: Store) -> None:
        ended = await store.commit(completed(await store.create(execution())))
        await store.purge(ended)
        fresh = await store.create(execution(ended.execution_id))
        with pytest.raises(Conflict):
            await store.purge(ended)
        assert await store.read(ended.execution_id) == fresh
