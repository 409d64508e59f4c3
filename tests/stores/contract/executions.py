"""The promises of `engine.store.base`, as tests that any store can be put through.

A store's own module subclasses `StoreContract`, `SignalsContract` (`signals.py`) and `PagesContract` (`pages.py`). It
gives three fixtures: `store`, the one under test; `other`, the same data through a store object of another process,
whose reads may lag and whose writes don't; `raw`, the same data past any store. Reads and writes are checked apart:
what a method writes is looked at through `raw`, and what a method reads is put there through `raw`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pytest

from engine.ground.errors import Conflict, Missing, Taken, TooLarge
from engine.store.base import Loaded, Store
from engine.store.documents import Chunk, Document, Execution, InboxItem, Large
from engine.values.events import Takeover
from tests.support import documents

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
SYSTEM = "_"
"""How the names of fields that belong to a store begin."""

_numbers = itertools.count(1)


class Raw(Protocol):
    """A look past the store at what stands in it."""

    async def get(self, execution_id: str, id: str) -> Document | None:
        """A document as it stands."""
        ...

    async def put(self, document: Document) -> None:
        """Create a document, or write over it, with an etag of its own."""
        ...

    async def ids(self, execution_id: str) -> list[str]:
        """The ids of all documents of a partition, sorted."""
        ...


def new_id() -> str:
    """An execution id that no other test has."""
    return f"{next(_numbers):032x}"


def execution(id: str | None = None, **fields: Any) -> Execution:
    """A new execution."""
    values: dict[str, Any] = {
        "execution_id": id or new_id(),
        "workflow": "contract",
        "version": "1",
        "payload": '"päylöad ☃ 𝄞"',
        "due_at": NOW + timedelta(seconds=5),
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Execution.model_validate(values | fields).with_write_id()


def claimed(execution: Execution, worker: str = "me") -> Execution:
    return documents.claimed(execution, NOW, worker)


def completed(execution: Execution) -> Execution:
    return documents.completed(execution, NOW, result="7")


def chunk(id: str, number: int, worker: str = "me") -> Chunk:
    return Chunk.of(id, number, [Takeover(NOW, worker)])


def item(id: str, name: str = "approval", value: str = "1") -> InboxItem:
    return InboxItem.of("deferred", id, name, NOW, value)


def large(id: str, kind: str, value: str = '"large"') -> Large:
    return Large(id=kind, execution_id=id, value=value).with_write_id()


def plain(record: Any) -> Document:
    """What a record looks like in a store, but for the mark of the write."""
    return _own(record.to_document())


def _own(document: Document | None) -> Document:
    assert document is not None, "the document isn't there"
    return {name: value for name, value in document.items() if not name.startswith(SYSTEM) and name != "writeId"}


class StoreContract:
    """Creating, reading, replacing, appending, committing."""

    # -- create, read --

    async def test_create_writes_the_document_and_gives_its_etag(self, store: Store, raw: Raw) -> None:
        new = execution(tags={"a": "b"})
        created = await store.create(new)
        assert _own(await raw.get(new.execution_id, "exec")) == plain(new) == plain(created)
        assert created.etag
        assert await raw.ids(new.execution_id) == ["exec"]

    async def test_create_writes_the_input_beside_it(self, store: Store, raw: Raw) -> None:
        new = execution(payload=None)
        input = large(new.execution_id, "input")
        await store.create(new, input)
        assert await raw.ids(new.execution_id) == ["exec", "input"]
        assert _own(await raw.get(new.execution_id, "input")) == plain(input)

    async def test_create_where_one_stands_is_taken_and_writes_nothing(self, store: Store, raw: Raw) -> None:
        first = execution()
        created = await store.create(first)
        second = execution(first.execution_id, payload=None, workflow="another")
        with pytest.raises(Taken):
            await store.create(second)
        with pytest.raises(Taken):
            await store.create(second, large(first.execution_id, "input"))
        assert await raw.ids(first.execution_id) == ["exec"]
        assert await store.read(first.execution_id) == created

    async def test_of_parallel_creates_one_wins(self, store: Store, other: Store) -> None:
        id = new_id()
        candidates = [execution(id, payload=str(number)) for number in range(20)]
        answers = await _all([(store if number % 2 else other).create(one) for number, one in enumerate(candidates)])
        won = [answer for answer in answers if isinstance(answer, Execution)]
        assert [type(answer) for answer in answers if not isinstance(answer, Execution)] == [Taken] * 19
        assert len(won) == 1
        assert (await store.read(id)).payload == won[0].payload

    async def test_read_gives_what_stands_there(self, store: Store, raw: Raw) -> None:
        there = execution(parents=[{"execution_id": new_id(), "step": "s"}], suspended=True, wake=3, seen_wake=2)
        await raw.put(there.to_document())
        found = await store.read(there.execution_id)
        assert plain(found) == plain(there)
        assert found.etag

    async def test_what_is_not_there_is_missing(self, store: Store, raw: Raw) -> None:
        new = execution()
        id = new.execution_id
        stale = completed(new).model_copy(update={"etag": '"1"'})
        asks: list[Callable[[], Awaitable[Any]]] = [
            lambda: store.read(id),
            lambda: store.replace(stale),
            lambda: store.commit(stale, chunk(id, 0), large(id, "output")),
            lambda: store.signal(item(id), NOW),
            lambda: store.read_inbox(id, "deferred::approval"),
            lambda: store.interrupt(id, NOW),
        ]
        for ask in asks:
            with pytest.raises(Missing):
                await ask()
        with contextlib.suppress(Missing):  # it can't be told from a purge whose answer was lost
            await store.purge(stale)
        assert await store.load(id) == Loaded()
        assert await raw.ids(id) == []

    # -- etags, replace --

    async def test_every_write_gives_a_new_etag_that_a_read_agrees_with(self, store: Store) -> None:
        versions = [await store.create(execution())]
        id = versions[0].execution_id
        versions.append(await store.replace(claimed(versions[-1])))
        versions.append(await store.signal(item(id), NOW))
        versions.append(await store.interrupt(id, NOW))
        versions.append(await store.replace(documents.extended(versions[-1], NOW)))
        versions.append(await store.commit(documents.suspended(versions[-1], NOW), chunk(id, 0)))
        versions.append(await store.commit(completed(versions[-1]), chunk(id, 1), large(id, "output")))
        assert len({version.etag for version in versions}) == len(versions)
        assert await store.read(id) == versions[-1]

    async def test_reads_and_appends_leave_the_etag(self, store: Store) -> None:
        created = await store.create(execution())
        await store.append(chunk(created.execution_id, 0))
        await store.load(created.execution_id)
        assert await store.read(created.execution_id) == created
        await store.replace(claimed(created))

    async def test_replace_writes_the_new_version(self, store: Store, raw: Raw) -> None:
        changed = claimed(await store.create(execution()))
        replaced = await store.replace(changed)
        assert _own(await raw.get(changed.execution_id, "exec")) == plain(changed) == plain(replaced)
        assert "leaseExpiresAt" not in plain(await store.replace(documents.released(replaced, NOW))), (
            "a field that is gone stays"
        )

    @pytest.mark.parametrize("etag", ["", '"made up"'])
    async def test_an_etag_that_is_none_replaces_nothing(self, store: Store, etag: str) -> None:
        created = await store.create(execution())
        with pytest.raises(Conflict):
            await store.replace(claimed(created).model_copy(update={"etag": etag}))
        assert await store.read(created.execution_id) == created

    async def test_replace_of_an_older_version_is_a_conflict(self, store: Store) -> None:
        created = await store.create(execution())
        first = await store.replace(claimed(created, "first"))
        with pytest.raises(Conflict):
            await store.replace(claimed(created, "second"))
        assert await store.read(created.execution_id) == first

    async def test_of_parallel_replaces_one_wins(self, store: Store, other: Store) -> None:
        created = await store.create(execution())
        answers = await _all([(store if n % 2 else other).replace(claimed(created, str(n))) for n in range(20)])
        won = [answer for answer in answers if isinstance(answer, Execution)]
        assert [type(answer) for answer in answers if not isinstance(answer, Execution)] == [Conflict] * 19
        assert [(await store.read(created.execution_id))] == won

    async def test_what_a_later_version_added_survives_every_rewrite(self, store: Store, raw: Raw) -> None:
        parent = {"executionId": new_id(), "step": "s", "future": [1]}
        document = execution().to_document() | {"future": {"deep": ["x"]}, "parents": [parent]}
        await raw.put(document)
        id = document["executionId"]
        await store.signal(item(id), NOW)
        await store.interrupt(id, NOW)
        await store.replace(claimed(await store.read(id)))
        await store.commit(documents.suspended(await store.read(id), NOW), chunk(id, 0))
        found = _own(await raw.get(id, "exec"))
        assert (found["future"], found["parents"]) == ({"deep": ["x"]}, [parent])

    # -- append, load --

    async def test_append_writes_a_chunk_once(self, store: Store, other: Store, raw: Raw) -> None:
        id = (await store.create(execution())).execution_id
        first = chunk(id, 0)
        await store.append(first)
        for again in (chunk(id, 0, "another"), chunk(id, 0)):
            with pytest.raises(Taken):
                await other.append(again)
        assert _own(await raw.get(id, "history::00000000")) == plain(first)

    async def test_of_parallel_appends_of_one_number_one_wins(self, store: Store, other: Store, raw: Raw) -> None:
        id = (await store.create(execution())).execution_id
        chunks = [chunk(id, 0, str(number)) for number in range(20)]
        answers = await _all([(store if n % 2 else other).append(one) for n, one in enumerate(chunks)])
        assert sorted(type(answer).__name__ for answer in answers) == ["NoneType"] + ["Taken"] * 19
        won = chunks[[answer is None for answer in answers].index(True)]
        assert _own(await raw.get(id, "history::00000000")) == plain(won)

    async def test_load_gives_everything_but_the_exec_document(self, store: Store, raw: Raw) -> None:
        id = new_id()
        chunks = [chunk(id, number, f"w{number}") for number in range(12)]
        items = [
            item(id, "a/b ?#%☃"),
            InboxItem.of("child", id, "step#2", NOW, "2"),
            InboxItem.of("channel", id, "news", NOW, "3", one_of_many="k", position=4),
        ]
        for record in [*chunks[::-1], *items, large(id, "input", '"in"'), large(id, "output", '"out"')]:
            await raw.put(record.to_document())
        await raw.put(execution(id).to_document())
        await raw.put(chunk(new_id(), 0).to_document())  # a neighbour's
        loaded = await store.load(id)
        assert [plain(one) for one in loaded.chunks] == [plain(one) for one in chunks]
        assert sorted(map(str, map(plain, loaded.inbox))) == sorted(map(str, map(plain, items)))
        assert (loaded.input and loaded.input.value, loaded.output and loaded.output.value) == ('"in"', '"out"')

    @pytest.mark.parametrize("first", [0, 1, 9, 10, 11, 12, 99_999_999])
    async def test_load_from_a_chunk_on_leaves_out_those_before_it_only(self, store: Store, first: int) -> None:
        id = (await store.create(execution(payload=None), None)).execution_id
        for number in range(12):
            await store.append(chunk(id, number))
        await store.signal(item(id), NOW)
        loaded = await store.load(id, first)
        assert [one.number for one in loaded.chunks] == list(range(first, 12))
        assert [one.name for one in loaded.inbox] == ["approval"]

    async def test_load_gives_hundreds_of_chunks_in_order(self, store: Store) -> None:
        id = (await store.create(execution())).execution_id
        await _all([store.append(chunk(id, number)) for number in range(300)])
        assert [one.number for one in (await store.load(id)).chunks] == list(range(300))

    # -- commit --

    async def test_commit_writes_all_of_it(self, store: Store, raw: Raw) -> None:
        running = await store.replace(claimed(await store.create(execution())))
        id = running.execution_id
        last, output = chunk(id, 0), large(id, "output")
        ended = await store.commit(completed(running), last, output)
        assert ended.is_complete
        assert await raw.ids(id) == ["exec", "history::00000000", "output"]
        assert _own(await raw.get(id, "exec")) == plain(ended)
        assert _own(await raw.get(id, "history::00000000")) == plain(last)
        assert _own(await raw.get(id, "output")) == plain(output)

    @pytest.mark.parametrize("with_chunk", [True, False])
    @pytest.mark.parametrize("with_output", [True, False])
    async def test_a_commit_that_conflicts_writes_nothing(
        self, store: Store, raw: Raw, with_chunk: bool, with_output: bool
    ) -> None:
        old = await store.create(execution())
        id = old.execution_id
        stands = await store.replace(claimed(old))
        with pytest.raises(Conflict):
            await store.commit(
                completed(old), chunk(id, 0) if with_chunk else None, large(id, "output") if with_output else None
            )
        assert await raw.ids(id) == ["exec"]
        assert await store.read(id) == stands

    async def test_a_commit_whose_chunk_is_taken_writes_nothing(self, store: Store, raw: Raw) -> None:
        running = await store.create(execution())
        id = running.execution_id
        await store.append(chunk(id, 0, "another"))
        with pytest.raises(Taken):
            await store.commit(completed(running), chunk(id, 0), large(id, "output"))
        assert await raw.ids(id) == ["exec", "history::00000000"]
        assert await store.read(id) == running

    async def test_of_parallel_commits_and_appends_of_one_number_one_wins(self, store: Store, other: Store) -> None:
        running = await store.create(execution())
        id = running.execution_id
        tries = [store.append(chunk(id, 0, "a")), other.commit(completed(running), chunk(id, 0, "b"))]
        answers = await _all(tries)  # type: ignore[arg-type]
        assert len([answer for answer in answers if isinstance(answer, Taken)]) == 1
        assert (await store.read(id)).is_complete == isinstance(answers[1], Execution)

    # -- sizes --

    @pytest.mark.parametrize("text", ["x" * 1_800_000, "☃" * 600_000], ids=["ASCII", "three bytes each"])
    async def test_values_of_the_largest_size_are_kept(self, store: Store, text: str) -> None:
        new = execution(payload=None)
        id, value = new.execution_id, f'"{text}"'
        created = await store.create(new, large(id, "input", value))
        await store.signal(item(id, "large", value), NOW)
        await store.append(Chunk(id="history::00000000", execution_id=id, events=[{"value": value}]).with_write_id())
        current = await store.read(id)
        await store.commit(completed(current), None, large(id, "output", value))
        loaded = await store.load(id)
        assert loaded.input is not None
        assert loaded.output is not None
        assert (loaded.input.value, loaded.output.value) == (value, value)
        assert (loaded.inbox[0].value, loaded.chunks[0].events[0]["value"]) == (value, value)
        assert created.etag != current.etag

    @pytest.mark.parametrize("text", ["x" * 2_100_000, "☃" * 700_000], ids=["ASCII", "three bytes each"])
    async def test_a_document_that_is_too_large_is_refused_and_nothing_is_written(
        self, store: Store, raw: Raw, text: str
    ) -> None:
        new = execution()
        id = new.execution_id
        with pytest.raises(TooLarge):
            await store.create(new, large(id, "input", text))
        assert await raw.ids(id) == []
        created = await store.create(new)
        tries: list[Callable[[], Awaitable[Any]]] = [
            lambda: store.replace(created.model_copy(update={"payload": text})),
            lambda: store.append(
                Chunk(id="history::00000000", execution_id=id, events=[{"value": text}]).with_write_id()
            ),
            lambda: store.commit(completed(created), chunk(id, 0), large(id, "output", text)),
            lambda: store.signal(item(id, value=text), NOW),
        ]
        for attempt in tries:
            with pytest.raises(TooLarge):
                await attempt()
        assert await raw.ids(id) == ["exec"]
        assert await store.read(id) == created


async def _all(tries: list[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*tries, return_exceptions=True)
