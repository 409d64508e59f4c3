"""The promises of `engine.store.base` about many executions: what is due, lists, their pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from engine.ground.clock import isoformat
from engine.ground.errors import InvalidInput
from engine.store import transitions
from engine.store.base import Filter, Page, Store
from engine.store.conditions import Condition
from engine.store.documents import SCHEMA, Execution
from engine.values.error_records import ErrorRecord
from tests.stores.contract.executions import (
    NOW,
    Raw,
    chunk,
    claimed,
    completed,
    execution,
    item,
    large,
    new_id,
)
from tests.support import documents

SECOND = timedelta(seconds=1)


async def _pages(ask: Callable[[str | None], Awaitable[Page]]) -> list[list[Execution]]:
    pages, continuation = list[list[Execution]](), None
    while True:
        page = await ask(continuation)
        pages.append(page.executions)
        continuation = page.continuation
        if continuation is None:
            return pages
        assert len(pages) < 100, "the pages never end"


class PagesContract:
    """due and list. The store is empty at the beginning of each test."""

    async def _due(self, store: Store, now: datetime, limit: int) -> list[list[Execution]]:
        return await _pages(lambda continuation: store.due(now, limit, continuation))

    async def _listed(self, store: Store, filter: Filter, limit: int) -> list[list[Execution]]:
        return await _pages(lambda continuation: store.list(filter, limit, continuation))

    # -- due --

    async def test_what_is_due_comes_longest_overdue_first(self, store: Store) -> None:
        offsets = [3, -1, 0, 2, -5, 1]
        made = {n: await store.create(execution(due_at=NOW + n * SECOND)) for n in offsets}
        page = await store.due(NOW, 100)
        assert page == Page([made[-5], made[-1], made[0]], None)

    async def test_nothing_is_due_of_what_waits_for_the_outside_only(self, store: Store) -> None:
        created = await store.create(execution())
        suspended = await store.replace(documents.suspended(created, NOW))
        later = NOW + timedelta(days=9_999)
        assert (await store.due(later, 10)).executions == []
        woken = await store.signal(item(suspended.execution_id), NOW)
        assert (await store.due(NOW, 10)).executions == [woken]
        interrupted = await store.interrupt(suspended.execution_id, NOW + SECOND)
        assert (await store.due(NOW, 10)).executions == []
        assert (await store.due(NOW + SECOND, 10)).executions == [interrupted]

    async def test_a_driven_execution_is_due_with_its_lease(self, store: Store) -> None:
        held = await store.replace(claimed(await store.create(execution())))
        assert held.due_at is not None
        assert (await store.due(held.due_at - timedelta(milliseconds=1), 10)).executions == []
        assert (await store.due(held.due_at, 10)).executions == [held]

    async def test_complete_ones_are_due_while_something_is_owed(self, store: Store) -> None:
        parents = [{"execution_id": new_id(), "step": "s"}]
        owing = await store.commit(completed(await store.create(execution(parents=parents))))
        kept = await store.commit(completed(await store.create(execution(retention_seconds=60))))
        await store.commit(completed(await store.create(execution())))
        assert (await store.due(NOW, 10)).executions == [owing]
        assert (await store.due(NOW + 60 * SECOND, 10)).executions == [owing, kept]

    async def test_other_documents_are_never_due(self, store: Store, raw: Raw) -> None:
        id = (await store.create(execution(due_at=None))).execution_id
        await store.append(chunk(id, 0))
        await raw.put(large(id, "input").to_document() | {"dueAt": "2000-01-01T00:00:00.000Z"})
        assert (await store.due(NOW, 10)).executions == []

    @pytest.mark.parametrize("limit", [1, 3, 7, 10, 11, 100])
    async def test_pages_of_what_is_due_are_complete_and_in_order(self, store: Store, limit: int) -> None:
        """Many are due at the very same moment: none is lost between two pages, none comes twice."""
        made = [await store.create(execution(due_at=NOW - (n // 4) * SECOND)) for n in range(10)]
        pages = await self._due(store, NOW, limit)
        flat = [one for page in pages for one in page]
        assert sorted(one.execution_id for one in flat) == sorted(one.execution_id for one in made)
        dues = [one.due_at for one in flat if one.due_at is not None]
        assert dues == sorted(dues)
        assert all(len(page) <= limit for page in pages)
        assert len(pages) <= 10 // limit + 1

    async def test_what_is_driven_between_two_pages_moves_nobody_out_of_sight(self, store: Store) -> None:
        """The sweep drives a page before it asks for the next: those that were driven are due later or not at all."""
        made = [await store.create(execution(due_at=NOW - SECOND)) for _ in range(9)]
        seen, continuation = list[str](), None
        while True:
            page = await store.due(NOW, 2, continuation)
            for one in page.executions:
                seen.append(one.execution_id)
                await store.replace(claimed(one) if len(seen) % 2 else documents.suspended(one, NOW))
            continuation = page.continuation
            if continuation is None:
                break
        assert sorted(seen) == sorted(one.execution_id for one in made)

    # -- list --

    async def test_a_list_has_the_newest_first(self, store: Store) -> None:
        made = {n: await store.create(execution(created_at=NOW + n * SECOND)) for n in (2, 0, 3, 1)}
        assert await store.list(Filter(), 10) == Page([made[3], made[2], made[1], made[0]], None)

    @pytest.mark.parametrize("limit", [1, 3, 7, 10, 11, 100])
    async def test_pages_of_a_list_are_complete_and_in_order(self, store: Store, limit: int) -> None:
        made = [await store.create(execution(created_at=NOW + (n // 4) * SECOND)) for n in range(10)]
        pages = await self._listed(store, Filter(), limit)
        flat = [one for page in pages for one in page]
        assert sorted(one.execution_id for one in flat) == sorted(one.execution_id for one in made)
        created = [one.created_at for one in flat]
        assert created == sorted(created, reverse=True)
        assert all(len(page) <= limit for page in pages)

    @pytest.mark.parametrize("text", ["", "x", "[]", "null", '["createdAt"]', "[1,2,3]", '{"a":1}'])
    async def test_a_continuation_from_elsewhere_is_refused(self, store: Store, text: str) -> None:
        with pytest.raises(InvalidInput):
            await store.list(Filter(), 10, text)

    async def test_filters_take_what_they_name_and_combine(self, store: Store) -> None:
        cause = ErrorRecord(type="Quarantined", message="why")
        running = await store.create(execution(workflow="a"))
        waiting = await store.replace(documents.suspended(await store.create(execution(workflow="a")), NOW))
        stopped = await store.replace(
            documents.suspended(await store.create(execution(workflow="b")), NOW, cause=cause)
        )
        done = await store.commit(completed(await store.create(execution(workflow="a"))))
        failed = await store.commit(
            documents.completed(await store.create(execution(workflow="b")), NOW, "failed", None, cause)
        )
        cases: list[tuple[Filter, list[Execution]]] = [
            (Filter(), [running, waiting, stopped, done, failed]),
            (Filter(workflow="a"), [running, waiting, done]),
            (Filter(workflow="A"), []),
            (Filter(workflow="a' OR 1=1 --"), []),
            (Filter(status="running"), [running, waiting, stopped]),
            (Filter(status="complete"), [done, failed]),
            (Filter(outcome="completed"), [done]),
            (Filter(outcome="failed"), [failed]),
            (Filter(suspended_with_cause=True), [stopped]),
            (Filter(workflow="a", status="complete"), [done]),
            (Filter(workflow="a", outcome="failed"), []),
            (Filter(workflow="b", suspended_with_cause=True), [stopped]),
            (Filter(workflow="a", suspended_with_cause=True), []),
            (Filter(status="complete", suspended_with_cause=True), []),
        ]
        for filter, expected in cases:
            found = [one.execution_id for page in await self._listed(store, filter, 2) for one in page]
            assert sorted(found) == sorted(one.execution_id for one in expected), filter

    async def test_conditions_mean_what_they_say(self, store: Store) -> None:
        """Each condition, and its negation, finds the executions whose documents meet it; the count agrees."""
        error = ErrorRecord(type="CardDeclined", message='Card DECLINED: 50% \\ off "Müller"')
        made = [
            await store.create(execution(workflow="a", tags={"customer": "ada", "a.b": "1"})),
            await store.create(execution(workflow="b", tags={"customer": "Ada"}, created_at=NOW + SECOND)),
            await store.replace(documents.suspended(await store.create(execution(workflow="a")), NOW, cause=error)),
            await store.commit(
                documents.completed(await store.create(execution()), NOW + SECOND, "failed", None, error)
            ),
            await store.commit(completed(await store.create(execution(interrupted=True, creator="f" * 32)))),
        ]
        at = isoformat(NOW + SECOND / 2)
        message, cause = ("error", "message"), ("cause", "message")
        conditions = [
            Condition((("workflow",),), "is", ("a", "b")),
            Condition((("executionId",),), "is", (made[1].execution_id,)),
            Condition((("tags", "customer"),), "is", ("ada",)),
            Condition((("tags", "a.b"),), "is", ("1",)),
            Condition((("tags", "none"),), "is", ("1",)),
            Condition((message, cause), "contains", ("card declined",)),
            Condition((message,), "contains", ('% \\ OFF "MÜLLER',)),
            Condition((message,), "contains", ("_",)),
            Condition((("interrupted",),), "is", (True,)),
            Condition((("suspended",),), "is", (True,)),
            Condition((("creator",),), "is", ("f" * 32,)),
            Condition((("cause",),), "there"),
            Condition((("completedAt",),), ">", (at,)),
            Condition((("completedAt",),), "<=", (at,)),
            Condition((("createdAt",),), ">=", (isoformat(NOW + SECOND),)),
            Condition((("createdAt",),), "<", (isoformat(NOW + SECOND),)),
        ]
        for condition in [one for plain in conditions for one in (plain, replace(plain, negated=True))]:
            expected = sorted(one.execution_id for one in made if condition.holds(one.to_document()))
            filter = Filter(conditions=(condition,))
            found = [one.execution_id for page in await self._listed(store, filter, 2) for one in page]
            assert sorted(found) == expected, condition
            assert await store.total(filter) == len(expected), condition
        both = Filter(workflow="a", conditions=(conditions[8],))
        assert await store.total(both) == 0
        assert await store.total(Filter(workflow="a")) == 2

    async def test_what_has_no_cause_any_more_leaves_the_list_of_those_with_one(self, store: Store) -> None:
        cause = ErrorRecord(type="Quarantined")
        stopped = await store.replace(documents.suspended(await store.create(execution()), NOW, cause=cause))
        assert (await store.list(Filter(suspended_with_cause=True), 10)).executions == [stopped]
        await store.replace(transitions.resume(NOW).apply(stopped))
        assert (await store.list(Filter(suspended_with_cause=True), 10)).executions == []

    async def test_what_is_purged_is_neither_listed_nor_due(self, store: Store) -> None:
        ended = await store.commit(completed(await store.create(execution(retention_seconds=1))))
        await store.purge(ended)
        assert (await store.list(Filter(), 10)).executions == []
        assert (await store.due(NOW + 10 * SECOND, 10)).executions == []

    # -- what can't be read --

    @pytest.mark.parametrize(
        "broken",
        [{"workflow": None}, {"wake": "many"}, {"status": "paused"}, {"parents": [{"step": 3}]}, {"claims": {}}],
        ids=str,
    )
    async def test_an_exec_document_that_cannot_be_read_is_reported_and_left_out(
        self, store: Store, raw: Raw, broken: dict[str, Any]
    ) -> None:
        """It stands first in both orders, and alone on a page of one: those behind it are still found."""
        good = [await store.create(execution(due_at=NOW, created_at=NOW)) for _ in range(2)]
        bad = execution(due_at=NOW - SECOND, created_at=NOW + SECOND).to_document() | broken
        await raw.put({name: value for name, value in bad.items() if value is not None})
        expected = sorted(one.execution_id for one in good)
        for limit in (1, 10):
            due, listed = await self._due(store, NOW, limit), await self._listed(store, Filter(), limit)
            assert sorted(one.execution_id for page in due for one in page) == expected
            assert sorted(one.execution_id for page in listed for one in page) == expected
        for page in (await store.due(NOW, 1), await store.list(Filter(), 1)):
            assert page.unreadable.keys() == {bad["executionId"]}

    async def test_a_document_of_a_later_schema_is_given_as_it_is(self, store: Store, raw: Raw) -> None:
        """Leaving it alone is the worker's business."""
        document = execution(due_at=NOW).to_document() | {"schema": SCHEMA + 1, "future": True}
        await raw.put(document)
        due = (await store.due(NOW, 10)).executions
        assert [one.schema_version for one in due] == [SCHEMA + 1]
