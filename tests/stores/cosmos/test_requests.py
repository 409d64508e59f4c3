"""What is sent: how many requests, in which form, up to which size; what is counted of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine.ground.errors import Conflict, Taken, TooLarge, Unavailable
from engine.store import transitions
from engine.store.base import Filter
from engine.store.cosmos.items import Items, Operation
from engine.store.cosmos.schema import MAX_DOCUMENT_BYTES
from engine.store.cosmos.store import CosmosStore
from engine.store.cosmos.usage import METADATA, Usage
from engine.store.documents import Chunk, Large, inbox_id
from tests.cosmos_double import Answer, Call, CosmosDouble, ShortPage, charges
from tests.cosmos_double.state import Container
from tests.stores.cosmos.support import NOW, chunk, claimed, completed, execution, item
from tests.support.telemetry import record

ID = execution().execution_id


def requests(double: CosmosDouble) -> list[str]:
    """Since the last look, without what the SDK asks for itself."""
    sent = [f"{e.kind} {e.operation}" if e.kind == "item" else e.kind for e in double.log]
    double.log.clear()
    return [one for one in sent if one not in ("account", "container read", "container", "pkranges")]


async def test_each_call_is_one_request(store: CosmosStore, double: CosmosDouble) -> None:
    now = await store.create(execution())
    assert requests(double) == ["item create"]
    now = await store.replace(claimed(now))
    assert requests(double) == ["item replace"]
    await store.append(chunk())
    assert requests(double) == ["item create"]
    await store.load(ID)
    assert requests(double) == ["query"]
    await store.signal(item(), NOW)
    assert requests(double) == ["batch"]
    await store.read_inbox(ID, inbox_id("deferred", "approval"))
    assert requests(double) == ["item read"]
    now = await store.interrupt(ID, NOW)
    assert requests(double) == ["item patch"]
    now = await store.commit(completed(now), chunk(1), Large(id="output", execution_id=ID, value="1"))
    assert requests(double) == ["batch"]
    await store.purge(now)
    assert requests(double) == ["query", "batch"]
    await store.create(execution(), Large(id="input", execution_id=ID, value="1"))
    assert requests(double) == ["batch"]


async def test_each_request_is_a_span_and_is_counted(store: CosmosStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """By operation, with its request units: as the store's own counters say."""
    recorded = record(monkeypatch)
    await store.create(execution())
    await store.load(ID)
    with pytest.raises(Taken):
        await store.create(execution())
    counted = {name: one for name, one in store.usage.operations.items() if name != METADATA}
    units = recorded.totals("durable.store.request_units", "operation")
    assert {name: units[name,] for name in counted} == {
        name: pytest.approx(one.request_units) for name, one in counted.items()
    }
    (created, refused) = recorded.spans("store create")
    assert [span.attributes["db.response.status_code"] for span in (created, refused)] == [201, 409]
    sent = recorded.totals("durable.store.requests", "operation", "status")
    assert (sent["create", 201], sent["create", 409], sent["load", 200]) == (1, 1, 1)


async def test_only_what_is_asked_for_is_indexed(store: CosmosStore, double: CosmosDouble) -> None:
    """A large history document costs no more than its bytes: the model takes 0.3 RU for each indexed value."""
    await store.append(chunk())
    (entry,) = double.log.select(operation="create")
    assert entry.charge == pytest.approx(5.5 + 0.3)  # the id alone


async def test_usage_counts_requests_and_charges_by_operation(store: CosmosStore, double: CosmosDouble) -> None:
    await store.create(execution())
    double.faults.add(Answer(449), kind="item", operation="create", times=2)
    await store.append(chunk())
    with pytest.raises(Taken):
        await store.append(chunk())
    usage, log = store.usage, double.log
    assert (usage.of("create").requests, usage.of("create").failed) == (1, 0)
    assert (usage.of("append").requests, usage.of("append").failed) == (4, 3)
    assert usage.of("read back").requests == 1
    assert usage.requests == log.count(kind="item") == 6
    assert usage.request_units == pytest.approx(sum(entry.charge for entry in log), abs=2.1)  # of two refusals
    usage.clear()
    assert usage == Usage()


async def test_charges_of_a_batch_are_counted_once(store: CosmosStore, double: CosmosDouble) -> None:
    await store.create(execution())
    await store.signal(item(), NOW)
    (batch,) = double.log.select(kind="batch")
    assert store.usage.of("signal").request_units == pytest.approx(batch.charge)


@pytest.mark.parametrize("large", [False, True], ids=["", "with a large input"])
async def test_every_request_is_counted_under_the_method_that_sent_it(
    store: CosmosStore, double: CosmosDouble, large: bool
) -> None:
    """What the store counts is what the service charged, call by call."""
    await store.due(NOW, 1)  # what is asked once is counted as metadata
    await store.change_feed().leases()
    now = execution()

    async def create() -> None:
        await store.create(execution(), Large(id="input", execution_id=ID, value="1") if large else None)

    async def replace() -> None:
        nonlocal now
        now = await store.replace(claimed(await store.read(ID)))

    async def commit() -> None:
        nonlocal now
        now = await store.commit(completed(await store.read(ID)), chunk(1))

    calls = {
        "create": create,
        "read": lambda: store.read(ID),
        "replace": replace,
        "append": lambda: store.append(chunk()),
        "signal": lambda: store.signal(item(), NOW),
        "read_inbox": lambda: store.read_inbox(ID, inbox_id("deferred", "approval")),
        "interrupt": lambda: store.interrupt(ID, NOW),
        "load": lambda: store.load(ID),
        "due": lambda: store.due(NOW, 10),
        "list": lambda: store.list(Filter(), 10),
        "total": lambda: store.total(Filter()),
        "feed": lambda: store.change_feed().read("0", None, 10),
        "feed leases": lambda: store.change_feed().leases(),
        "commit": commit,
        "purge": lambda: store.purge(now),
    }
    for name, call in calls.items():
        double.log.clear()
        store.usage.clear()
        await call()  # type: ignore[no-untyped-call]
        usage = store.usage
        assert usage.of(name).requests >= 1
        assert set(usage.operations) <= {name, "read", METADATA}, name
        about_items = [e for e in double.log if e.kind not in ("account", "database", "container", "pkranges")]
        assert usage.requests == len(about_items), name
        assert usage.request_units == pytest.approx(sum(e.charge for e in double.log), abs=0.01), name
        assert usage.request_units > 0, name


# Sizes and texts


async def test_a_value_of_any_alphabet_may_take_what_the_limit_says(store: CosmosStore) -> None:
    """Escaped as the SDK would by itself, each of these characters takes six bytes instead of three."""
    text = f'"{"語" * 599_999}"'
    await store.create(execution(payload=None), Large(id="input", execution_id=ID, value=text))
    loaded = await store.load(ID)
    assert loaded.input is not None
    assert loaded.input.value == text


@pytest.mark.parametrize("size", [MAX_DOCUMENT_BYTES, 3_000_000])
async def test_a_document_beyond_the_limit_is_named_before_anything_is_sent(
    store: CosmosStore, double: CosmosDouble, size: int
) -> None:
    large = Large(id="input", execution_id=ID, value="x" * size)
    with pytest.raises(TooLarge, match=r"document input takes [\d,]+ bytes; the limit is 2,000,000"):
        await store.create(execution(payload=None), large)
    with pytest.raises(TooLarge, match="document history::00000000"):
        await store.append(Chunk(id="history::00000000", execution_id=ID, events=[{"value": "x" * size}]))
    assert requests(double) == []


async def test_a_transaction_beyond_the_limit_names_its_documents(store: CosmosStore, double: CosmosDouble) -> None:
    now = await store.create(execution())
    half = Chunk(id="history::00000000", execution_id=ID, events=[{"value": "x" * 1_100_000}])
    output = Large(id="output", execution_id=ID, value="x" * 1_100_000)
    with pytest.raises(TooLarge, match=r"history::00000000: 1,100,\d+, output: 1,100,\d+, exec"):
        await store.commit(completed(now), half, output)
    assert await store.read(ID) == now


async def test_what_only_the_service_finds_too_large(store: CosmosStore, double: CosmosDouble) -> None:
    double.faults.add(Answer(413), kind="item", operation="create")
    with pytest.raises(TooLarge, match="2 MB"):
        await store.append(chunk())


# Loading


async def test_a_history_of_many_pages(store: CosmosStore, double: CosmosDouble) -> None:
    """4 MB is what a page holds. A page that fails is asked for again, and not those before it."""
    await store.create(execution())
    for number in range(8):
        await store.append(Chunk(id=f"history::{number:08d}", execution_id=ID, events=[{"value": "x" * 1_500_000}]))
    await store.signal(item(), NOW)
    requests(double)
    double.faults.add(Answer(429, retry_after_ms=1), kind="query", nth=2)
    loaded = await store.load(ID)
    assert [c.number for c in loaded.chunks] == list(range(8))
    assert len(loaded.inbox) == 1
    assert 5 <= len(requests(double)) <= 6
    assert [c.number for c in (await store.load(ID, 6)).chunks] == [6, 7]


async def test_pages_may_be_empty(store: CosmosStore, double: CosmosDouble) -> None:
    await store.create(execution())
    await store.append(chunk())
    double.faults.add(ShortPage(0), kind="query", times=3)
    double.faults.add(ShortPage(1), kind="query", nth=4, times=None)
    assert [c.number for c in (await store.load(ID)).chunks] == [0]


async def test_loading_at_the_same_time(store: CosmosStore) -> None:
    """The SDK's pager takes a continuation from whatever its client was last answered; the store must not."""
    for n in (1, 2, 3):
        await store.create(execution(n))
        for number in range(4):
            value = [{"value": "x" * 1_500_000}]
            await store.append(Chunk(id=f"history::{number:08d}", execution_id=execution(n).execution_id, events=value))
    loads = [store.load(execution(n).execution_id) for n in (1, 2, 3) for _ in range(3)]
    for loaded in await asyncio.gather(*loads):
        assert [c.number for c in loaded.chunks] == [0, 1, 2, 3]


# Pages of executions


@pytest.mark.parametrize("ranges", [1, 4])
@pytest.mark.parametrize("limit", [1, 3, 7, 100])
async def test_ties_are_neither_lost_nor_given_twice(store: CosmosStore, limit: int):  # type: ignore[no-untyped-def]
    for n in range(12):
        moment = NOW.replace(second=n // 5)
        await store.create(execution(n, due_at=moment, created_at=moment, updated_at=moment))

    async def all_of(ask: Callable[[str | None], Any]) -> list[Any]:
        found, continuation = [], None
        while True:
            page = await ask(continuation)
            assert len(page.executions) <= limit
            found += page.executions
            continuation = page.continuation
            if continuation is None:
                return found

    due = await all_of(lambda token: store.due(NOW.replace(minute=1), limit, token))
    assert len({e.execution_id for e in due}) == len(due) == 12
    assert [e.due_at for e in due] == sorted(e.due_at for e in due)
    newest = await all_of(lambda token: store.list(Filter(workflow="w"), limit, token))
    assert len({e.execution_id for e in newest}) == len(newest) == 12
    assert [e.created_at for e in newest] == sorted((e.created_at for e in newest), reverse=True)


async def test_a_split_while_a_query_runs(store: CosmosStore, double: CosmosDouble, container: Container) -> None:
    for n in range(20):
        await store.create(execution(n))
    await store.due(NOW, 5)
    container.split()
    assert len((await store.due(NOW, 100)).executions) == 20
    double.faults.add(Call(lambda _: container.split()), kind="query", nth=2)
    assert len((await store.list(Filter(), 100)).executions) == 20
    assert (await store.read(ID)).execution_id == ID
    assert (await store.load(ID)).chunks == []


# Purging


@pytest.mark.parametrize("chunks", [0, 98, 99, 250])
async def test_a_purge_of_any_length(store: CosmosStore, container: Container, chunks: int) -> None:
    await store.create(execution(2))
    now = await store.create(execution())
    for number in range(chunks):
        await store.append(chunk(number))
    await store.purge(await store.commit(completed(now).model_copy(update={"history_length": chunks})))
    assert [document["executionId"] for document in container.documents()] == [execution(2).execution_id]


async def test_what_was_terminated_or_is_not_listed_whole_is_marked_first(
    store: CosmosStore, double: CosmosDouble, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that lives on may append what nobody counts; a replica may hide what is counted. Then the list that
    counts is the one after the mark."""
    now = await store.create(execution())
    await store.append(chunk())
    now = await store.replace(transitions.terminate(NOW).apply(now))
    requests(double)
    await store.purge(now)
    assert requests(double) == ["item patch", "query", "batch"]
    assert container.documents() == []

    await store.create(execution())
    now = await store.signal(item(), NOW)
    ended = completed(now).model_copy(update={"history_length": 1})
    now = await store.commit(ended, chunk())
    query, lists = Items.query, 0

    async def lagging(self: Items, operation: str, execution_id: str, text: str, **more: Any) -> list[Any]:
        nonlocal lists
        lists += 1
        found = await query(self, operation, execution_id, text, **more)
        return [id for id in found if id != chunk().id] if lists == 1 else found

    monkeypatch.setattr(Items, "query", lagging)
    requests(double)
    await store.purge(now)
    assert requests(double) == ["query", "item patch", "query", "batch"]
    assert container.documents() == []


async def test_deleting_takes_one_request_and_is_charged_by_document(store: CosmosStore, double: CosmosDouble) -> None:
    """Five steps: four chunks, and the exec document with the last events. For a TTL, each chunk would be rewritten."""
    now = await store.create(execution())
    for number in range(4):
        await store.append(chunk(number))
    ended = completed(now).model_copy(update={"history_length": 5, "last_events": tuple(chunk(4).events)})
    now = await store.commit(ended)
    double.log.clear()
    await store.purge(now)
    charged = {entry.kind: entry.charge for entry in double.log if entry.charge}
    created = 4 * charges.create(500, 1) + charges.create(1_000, 5)  # its `dueAt` isn't set, and costs nothing
    assert charged == {"batch": pytest.approx(created, abs=0.1)}
    assert charged["batch"] <= 31
    assert round(4 * charges.replace(500, 0)) == 44


async def test_what_the_exec_document_counts_wrongly_is_listed(
    store: CosmosStore, double: CosmosDouble, container: Container
) -> None:
    """Somebody has deleted a chunk by hand."""
    now = await store.commit(
        completed(await store.create(execution())).model_copy(update={"history_length": 2}), chunk()
    )
    requests(double)
    await store.purge(now)
    assert requests(double) == ["batch", "item read", "query", "item patch", "query", "batch"]
    assert container.documents() == []


@pytest.mark.parametrize("is_late", [False, True])
async def test_what_changed_after_it_was_listed_is_not_said_to_be_purged(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble, container: Container, is_late: bool
) -> None:
    """A document of the list is gone when the transaction comes; the exec document changes before it, or before it is
    read back."""
    ended = completed(await store.create(execution(run_id="1"))).model_copy(update={"history_length": 1})
    now = await store.commit(ended, chunk())
    other = new_store()
    await other.read(ID)

    async def drop() -> None:
        await other._items.batch("drop", ID, [Operation.delete(chunk().id)])

    async def change() -> None:
        await other.replace(await other.read(ID))

    double.faults.add(Call(lambda _: drop()), kind="batch")
    if is_late:
        double.faults.add(Call(lambda _: change()), operation="read")
    else:
        double.faults.add(Call(lambda _: change()), kind="batch")
    with pytest.raises(Conflict):
        await store.purge(now)
    assert [document["id"] for document in container.documents()] == ["exec"]
    await store.purge(await store.read(ID))
    assert container.documents() == []


async def test_a_purge_that_dies_half_way_is_due(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble, container: Container
) -> None:
    now = await store.create(execution())
    for number in range(150):
        await store.append(chunk(number))
    now = await store.commit(completed(now).model_copy(update={"history_length": 150}))
    assert now.due_at is None
    double.faults.add(Answer(500), kind="batch", nth=2, times=None)
    with pytest.raises(Unavailable):
        await store.purge(now)
    double.faults.clear()
    (left,) = (await store.due(NOW, 10)).executions
    assert left.is_expired(NOW)
    assert 1 < len(container.documents()) < 151
    await new_store().purge(left)
    assert container.documents() == []


# What is missing
