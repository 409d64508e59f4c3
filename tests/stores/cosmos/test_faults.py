"""Every write, under every fault: its effect comes about once, and the caller hears of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from engine.ground.errors import Conflict, Taken, Unavailable
from engine.store import transitions
from engine.store.cosmos.resend import ATTEMPTS, BUDGET, FIRST, LONGEST
from engine.store.cosmos.store import CosmosStore
from engine.store.documents import Execution, Large
from tests.cosmos_double import Answer, Call, CosmosDouble, Cut, Drop
from tests.cosmos_double.faults import Action
from tests.cosmos_double.state import Container
from tests.stores.cosmos.support import NOW, Time, account, chunk, claimed, completed, execution, item, set_up
from tests.support import documents
from tests.support.gates import Gate


@dataclass(frozen=True)
class Write:
    """A method that writes: what comes before it, the call, and the request that it is."""

    name: str
    kind: str
    operation: str
    prepare: Callable[[CosmosStore], Awaitable[Execution | None]]
    run: Callable[[CosmosStore, Execution], Awaitable[Any]]


async def nothing(store: CosmosStore) -> None:
    return None


async def created(store: CosmosStore) -> Execution:
    return await store.create(execution())


async def ended(store: CosmosStore) -> Execution:
    return await store.commit(completed(await created(store)), chunk())


async def terminated(store: CosmosStore) -> Execution:
    now = await created(store)
    await store.append(chunk())
    return await store.replace(transitions.terminate(NOW).apply(now))


WRITES = [
    Write("create", "item", "create", nothing, lambda store, _: store.create(execution())),
    Write(
        "create with input",
        "batch",
        "batch",
        nothing,
        lambda store, _: store.create(
            execution(payload=None), Large(id="input", execution_id=execution().execution_id, value="1")
        ),
    ),
    Write("replace", "item", "replace", created, lambda store, now: store.replace(claimed(now))),
    Write("append", "item", "create", created, lambda store, _: store.append(chunk())),
    Write("commit", "batch", "batch", created, lambda store, now: store.commit(completed(now), chunk())),
    Write("signal", "batch", "batch", created, lambda store, _: store.signal(item(), NOW)),
    Write("interrupt", "item", "patch", created, lambda store, now: store.interrupt(now.execution_id, NOW)),
    Write("mark for purge", "item", "patch", terminated, lambda store, now: store.purge(now)),
    Write("purge", "batch", "batch", ended, lambda store, now: store.purge(now)),
]
FAULTS = {
    "429": lambda: Answer(429, retry_after_ms=40),
    "449": lambda: Answer(449),
    "410": lambda: Answer(410),
    "410 of a split": lambda: Answer(410, 1002),
    "404 of a session": lambda: Answer(404, 1002),
    "403 of a region": lambda: Answer(403, 3),
    "503": lambda: Answer(503),
    "503 with the effect": lambda: Answer(503, after_effect=True),
    "408": lambda: Answer(408),
    "408 with the effect": lambda: Answer(408, after_effect=True),
    "500": lambda: Answer(500),
    "500 with the effect": lambda: Answer(500, after_effect=True),
    "dropped": lambda: Drop(),
    "dropped with the effect": lambda: Drop(after_effect=True),
    "cut": lambda: Cut(),
}


def contents(container: Container) -> list[dict[str, Any]]:
    """The documents, without what differs from write to write."""
    bare = [{k: v for k, v in d.items() if not k.startswith("_") and k != "writeId"} for d in container.documents()]
    return sorted(bare, key=lambda document: document["id"])


def result(answer: Any) -> Any:
    return answer.model_copy(update={"etag": "", "write_id": ""}) if isinstance(answer, Execution) else answer


CALM: dict[str, tuple[Any, list[dict[str, Any]]]] = {}
"""What each write gives and leaves behind where nothing fails."""


async def undisturbed(write: Write) -> tuple[Any, list[dict[str, Any]]]:
    if write.name not in CALM:
        CALM[write.name] = await run_undisturbed(write)
    return CALM[write.name]


async def run_undisturbed(write: Write) -> tuple[Any, list[dict[str, Any]]]:
    async with CosmosDouble() as calm:
        container = set_up(calm)
        store = CosmosStore(account(calm), Time().retry())
        try:
            before = await write.prepare(store)
            answer = await write.run(store, before or execution())
        finally:
            await store.close()
        return result(answer), contents(container)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.name)
async def test_a_write_comes_about_once(
    store: CosmosStore,
    double: CosmosDouble,
    container: Container,
    write: Write,
    fault: Callable[[], Action],
    times: int,
) -> None:
    before = await write.prepare(store)
    rule = double.faults.add(fault(), kind=write.kind, operation=write.operation, times=times)
    answer = await write.run(store, before or execution())
    assert rule.fired >= 1
    expected, documents = await undisturbed(write)
    assert result(answer) == expected
    assert contents(container) == documents
    if isinstance(answer, Execution):
        assert answer.etag == (await store.read(answer.execution_id)).etag


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.name)
async def test_an_answer_that_does_not_come_in_time(
    new_store: Callable[..., CosmosStore], double: CosmosDouble, container: Container, write: Write, after: bool
) -> None:
    """The client gives up; the request that it gave up on may still be carried out, much later."""
    store = new_store(read_timeout=0.4)
    before = await write.prepare(store)
    gate = Gate()
    double.faults.add(Call(gate, after_effect=after), kind=write.kind, operation=write.operation)
    answer = await write.run(store, before or execution())
    expected, documents = await undisturbed(write)
    assert result(answer) == expected
    late = next(entry for entry in double.log if "Call" in entry.faults)
    double.faults.clear()
    gate.open()
    await store.due(NOW, 1)  # any exchange: the late request goes before it
    assert late.effect is not None
    assert contents(container) == documents


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.name)
async def test_a_service_that_never_comes_back_is_unavailable(
    store: CosmosStore, double: CosmosDouble, write: Write, time: Time
) -> None:
    before = await write.prepare(store)
    double.log.clear()
    rule = double.faults.add(Answer(449), kind=write.kind, operation=write.operation, times=None)
    with pytest.raises(Unavailable, match="449"):
        await write.run(store, before or execution())
    assert rule.fired == ATTEMPTS
    assert len(time.slept) == ATTEMPTS - 1


async def test_a_lost_connection_is_not_sent_again_behind_the_stores_back(
    store: CosmosStore, double: CosmosDouble
) -> None:
    rule = double.faults.add(Drop(), kind="item", operation="create", times=None)
    with pytest.raises(Unavailable):
        await store.append(chunk())
    assert rule.fired == ATTEMPTS


async def test_nor_is_an_answer_that_is_late(
    double: CosmosDouble, container: Container, time: Time, new_store: Callable[..., CosmosStore]
) -> None:
    await new_store().create(execution())
    store = CosmosStore(account(double, read_timeout=0.3), replace(time.retry(), attempts=2))
    await store.read(execution().execution_id)
    gate = Gate(and_all_after=True)
    rule = double.faults.add(Call(gate), kind="item", operation="create", times=None)
    with pytest.raises(Unavailable, match="Timeout"):
        await store.append(chunk())
    assert rule.fired == 2
    gate.open()
    await store.close()


async def test_pauses_are_random_and_grow(
    new_store: Callable[..., CosmosStore], double: CosmosDouble, time: Time
) -> None:
    store = new_store(random=1.0)
    double.faults.add(Answer(449), kind="item", times=None)
    with pytest.raises(Unavailable):
        await store.append(chunk())
    assert time.slept == [min(FIRST * 2**n, LONGEST) for n in range(ATTEMPTS - 1)]
    assert sum(time.slept) < BUDGET


async def test_429_is_not_sent_again_before_its_time(store: CosmosStore, double: CosmosDouble, time: Time) -> None:
    double.faults.add(Answer(429, retry_after_ms=1500), kind="item", times=2)
    await store.append(chunk())
    assert time.slept == [1.5, 1.5]


async def test_the_wait_for_a_throttled_service_has_a_limit(
    store: CosmosStore, double: CosmosDouble, time: Time
) -> None:
    rule = double.faults.add(Answer(429, retry_after_ms=9000), kind="item", times=None)
    with pytest.raises(Unavailable, match="429"):
        await store.append(chunk())
    assert time.slept == [9.0, 9.0]
    assert rule.fired == 3


# Whose write was it?


def rival_at(double: CosmosDouble, rival: Callable[[], Awaitable[Any]], write: Write, nth: int) -> None:
    """Another process writes just before that request of ours is handled."""

    async def act(_: object) -> None:
        await rival()

    double.faults.add(Call(act), kind=write.kind, operation=write.operation, nth=nth)


BY_NAME = {write.name: write for write in WRITES}


@pytest.mark.parametrize(
    ("name", "error"),
    [("create", Taken), ("create with input", Taken), ("append", Taken), ("replace", Conflict), ("commit", Taken)],
)
async def test_another_writers_document_is_not_ones_own(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble, name: str, error: type[Exception]
) -> None:
    """Our first try gets lost on its way, another process writes, our second try finds that."""
    write = BY_NAME[name]
    before = await write.prepare(store) or execution()
    other = new_store()
    double.faults.add(Drop(), kind=write.kind, operation=write.operation)
    rival_at(double, lambda: write.run(other, before), write, nth=2)
    with pytest.raises(error):
        await write.run(store, before)


async def test_a_version_that_was_changed_since_is_a_conflict(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble
) -> None:
    """Our replace landed, but a signal came before we knew. To take that version for ours would be to lose the
    signal: whoever holds it believes that it knows everything up to its `wake`."""
    before = await store.create(execution())
    other = new_store()
    double.faults.add(Drop(after_effect=True), kind="item", operation="replace")
    rival_at(double, lambda: other.signal(item(), NOW), BY_NAME["replace"], nth=2)
    with pytest.raises(Conflict):
        await store.replace(claimed(before))
    now = await store.read(before.execution_id)
    assert (now.worker, now.wake) == ("me", 1)


async def test_a_commit_that_was_overtaken_succeeds_under_its_old_etag(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble
) -> None:
    """Its chunk tells that it landed. What it returns may not be written over what came after it."""
    before = await store.create(execution())
    other = new_store()
    double.faults.add(Drop(after_effect=True), kind="batch")
    rival_at(double, lambda: other.signal(item(), NOW), BY_NAME["commit"], nth=2)
    after = await store.commit(documents.suspended(before, NOW), chunk())
    assert (after.suspended, after.wake) == (True, 0)
    with pytest.raises(Conflict):
        await store.replace(claimed(after))


async def test_the_guards_of_a_batch_are_sent_again_with_it(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble
) -> None:
    """The SDK empties the options of the operations that it is given."""
    before = await store.create(execution())
    other = new_store()
    double.faults.add(Answer(449), kind="batch")
    rival_at(double, lambda: other.replace(claimed(before, "other")), BY_NAME["commit"], nth=2)
    with pytest.raises(Conflict):
        await store.commit(completed(before), chunk())
    double.faults.add(Answer(449), kind="batch")
    ended = await store.commit(completed(await store.read(before.execution_id)), chunk())
    double.faults.add(Answer(449), kind="batch")
    with pytest.raises(Conflict):
        await store.signal(item(), NOW)
    assert await store.read(before.execution_id) == ended


async def test_a_signal_that_landed_before_the_end_is_a_success(
    store: CosmosStore, new_store: Callable[..., CosmosStore], double: CosmosDouble
) -> None:
    await store.create(execution())
    other = new_store()

    async def end() -> None:
        await other.replace(completed(await other.read(execution().execution_id)))

    double.faults.add(Drop(after_effect=True), kind="batch")
    rival_at(double, end, BY_NAME["signal"], nth=2)
    after = await store.signal(item(), NOW)
    assert (after.status, after.wake, after.inbox_count) == ("complete", 1, 1)


@pytest.mark.parametrize("chunks", [1, 150])
async def test_a_purge_that_was_overtaken_deletes_nothing_of_the_new_execution(
    store: CosmosStore,
    new_store: Callable[..., CosmosStore],
    double: CosmosDouble,
    container: Container,
    chunks: int,
) -> None:
    """Ours marks and lists; then another process purges, and the execution is started again."""
    now = await ended(store)
    for number in range(1, chunks):
        await store.append(chunk(number))
    other = new_store()

    async def start_again() -> None:
        await other.purge(await other.read(now.execution_id))
        await other.create(execution())
        for number in range(chunks):
            await other.append(chunk(number))

    double.faults.add(Call(lambda _: start_again()), kind="batch")
    with pytest.raises(Conflict):
        await store.purge(now)
    assert len(contents(container)) == 1 + chunks
