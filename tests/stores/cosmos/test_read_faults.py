"""Every read, under every fault: it is asked again, and what it gives is right; or the call raises Unavailable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from azure.cosmos.exceptions import CosmosHttpResponseError

from engine.ground.errors import Unavailable
from engine.store.base import Filter
from engine.store.cosmos.account import CosmosAccount
from engine.store.cosmos.resend import ATTEMPTS, BUDGET, Meaning, Resend, Trouble
from engine.store.cosmos.store import CosmosStore
from engine.store.documents import Execution, inbox_id
from tests.cosmos_double import Answer, Call, CosmosDouble, Cut, Drop
from tests.cosmos_double.faults import Action
from tests.cosmos_double.state import Container
from tests.stores.cosmos.support import NOW, Time, account, chunk, execution, item
from tests.support.gates import Gate

ID = execution().execution_id


@dataclass(frozen=True)
class Read:
    """A method that reads, and the request that it is."""

    name: str
    kind: str
    run: Callable[[CosmosStore], Awaitable[Any]]


async def feed(store: CosmosStore) -> list[Any]:
    documents, _ = await store.change_feed().read("0", None, 10)
    return [document["id"] for document in documents]


READS = [
    Read("read", "item", lambda store: store.read(ID)),
    Read("read_inbox", "item", lambda store: store.read_inbox(ID, inbox_id("deferred", "approval"))),
    Read("load", "query", lambda store: store.load(ID)),
    Read("due", "query", lambda store: store.due(NOW, 10)),
    Read("list", "query", lambda store: store.list(Filter(), 10)),
    Read("the feed", "feed", feed),
    Read("leases", "item", lambda store: store.change_feed().leases()),
]
FAULTS: dict[str, Callable[[], Action]] = {
    "429": lambda: Answer(429, retry_after_ms=40),
    "449": lambda: Answer(449),
    "410": lambda: Answer(410),
    "410 of a split": lambda: Answer(410, 1002),
    "404 of a session": lambda: Answer(404, 1002),
    "403 of a region": lambda: Answer(403, 1008),
    "503": lambda: Answer(503),
    "408": lambda: Answer(408),
    "500": lambda: Answer(500),
    "dropped": lambda: Drop(),
    "dropped after it was read": lambda: Drop(after_effect=True),
    "cut": lambda: Cut(),
}


async def something(store: CosmosStore) -> Execution:
    """An execution with a chunk and an inbox document; the store has asked for all that it asks for once."""
    await store.create(execution())
    await store.append(chunk())
    now = await store.signal(item(), NOW)
    for read in READS:
        await read.run(store)
    return now


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_read_is_asked_again(store: CosmosStore, double: CosmosDouble, fault: Callable[[], Action]) -> None:
    await something(store)
    for read in READS:
        expected = await read.run(store)
        for times in (1, 2, 3):
            rule = double.faults.add(fault(), kind=read.kind, times=times)
            assert await read.run(store) == expected, read.name
            assert rule.fired == times, read.name
            double.faults.clear()


async def test_an_answer_that_does_not_come_in_time(
    new_store: Callable[..., CosmosStore], double: CosmosDouble
) -> None:
    store = new_store(read_timeout=0.3)
    await something(store)
    expected = [await read.run(store) for read in READS]
    gates = [Gate() for _ in READS]
    for gate, read, before in zip(gates, READS, expected, strict=True):
        double.faults.add(Call(gate), kind=read.kind)
        assert await read.run(store) == before, read.name
        double.faults.clear()
        assert gate.reached.is_set()
    for gate in gates:
        gate.open()


async def test_a_service_that_never_comes_back_is_unavailable(
    store: CosmosStore, double: CosmosDouble, time: Time
) -> None:
    await something(store)
    for read in READS:
        time.slept.clear()
        double.faults.add(Answer(449), kind=read.kind, times=None)
        with pytest.raises(Unavailable, match="449"):
            await read.run(store)
        assert len(time.slept) == ATTEMPTS - 1, read.name
        double.faults.clear()


async def test_a_replica_that_lags_is_not_taken_for_a_missing_document(
    store: CosmosStore, double: CosmosDouble
) -> None:
    await store.create(execution())
    double.faults.add(Answer(404, 1002), kind="item", operation="read", times=None)
    with pytest.raises(Unavailable, match="1002"):
        await store.read(ID)


async def test_the_sdk_may_have_no_token_to_forget(store: CosmosStore, double: CosmosDouble) -> None:
    """azure-cosmos 4.17 forgets its session token at a 404/1002. After one of a batch, whose token it doesn't learn, it
    has none: the next 404/1002 is a KeyError of its own."""
    await store.create(execution())
    double.faults.add(Answer(404, 1002), kind="batch", times=2)
    await store.signal(item(), NOW)
    rule = double.faults.add(Answer(404, 1002), kind="query", times=2)
    assert len((await store.load(ID)).inbox) == 1
    assert rule.fired == 2


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_partitions_that_can_not_be_read(
    store: CosmosStore, double: CosmosDouble, fault: Callable[[], Action], times: int
) -> None:
    """A query over all partitions reads first which there are."""
    await store.create(execution())
    rule = double.faults.add(fault(), kind="pkranges", times=times)
    assert len((await store.due(NOW, 10)).executions) == 1
    assert rule.fired == times


@pytest.mark.parametrize("status", [408, 449, 500, 503])
async def test_partitions_that_can_not_be_read_after_a_split(
    store: CosmosStore, double: CosmosDouble, status: int
) -> None:
    """They are read again then. At a 500 there, azure-cosmos 4.17 looks for words in a query that this read has not: a
    TypeError of its own."""
    await something(store)
    for times in (1, 2, 3, 4):
        double.faults.add(Answer(410, 1002), kind="query")
        double.faults.add(Answer(status), kind="pkranges", times=times)
        assert len((await store.due(NOW, 10)).executions) == 1
        double.faults.clear()


async def test_an_error_of_the_programs_is_not_hidden(time: Time) -> None:
    async def wrong() -> None:
        raise KeyError("a name")

    with pytest.raises(KeyError, match="a name"):
        await time.retry()("anything", wrong)
    assert time.slept == []


async def test_nothing_is_sent_late_by_a_process_that_stood_still(time: Time) -> None:
    """It wakes after its pause, which was short: whatever it sends now, nobody expects any more."""
    sent: list[float] = []

    async def stands_still(_: float) -> None:
        time.slept.append(BUDGET + 1)

    async def send() -> None:
        sent.append(time.clock())
        raise TimeoutError

    with pytest.raises(Unavailable):
        await replace(time.retry(), sleep=stands_still)("anything", send)
    assert sent == [0]


async def test_a_request_that_the_sdk_never_ends_is_given_up(
    double: CosmosDouble, container: Container, time: Time
) -> None:
    """azure-cosmos 4.17 reads the partitions again when one is gone, under a lock; and again inside of that, if that
    read says so too: then it waits for its own lock. Without a limit of the store's, for ever."""
    store = CosmosStore(account(double), replace(time.retry(), attempts=1, patience=0.5))
    try:
        await something(store)
        for kind in ("query", "pkranges"):
            double.faults.add(Answer(410, 1002), kind=kind, times=None)
        with pytest.raises(Unavailable, match="TimeoutError"):
            await store.due(NOW, 10)
        double.faults.clear()
        assert len((await store.due(NOW, 10)).executions) == 1
    finally:
        await store.close()


def test_a_send_may_take_as_long_as_an_answer() -> None:
    """An answer that doesn't come in time is the SDK's to notice: it says which."""
    assert Resend().patience > CosmosAccount("http://h").read_timeout


@pytest.mark.parametrize(
    ("status", "substatus", "meaning"),
    [
        (403, 3, Meaning.AGAIN),
        (403, 1008, Meaning.AGAIN),
        (403, 5300, Meaning.FORBIDDEN),
        (404, 1002, Meaning.AGAIN),
        (404, 1003, Meaning.NO_CONTAINER),
        (404, 0, Meaning.MISSING),
        (400, 0, Meaning.REFUSED),
    ],
)
def test_meanings(status: int, substatus: int, meaning: Meaning) -> None:
    error = CosmosHttpResponseError(status, "words")  # type: ignore[no-untyped-call]
    error.sub_status = substatus
    assert Trouble.of(error).meaning is meaning
