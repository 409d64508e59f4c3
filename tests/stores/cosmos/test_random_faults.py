"""Random calls under random faults, several at once: a call succeeds or raises an error of the store's, and what stands
afterwards agrees with what was said. The seed is the test's parameter."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.ground.errors import Conflict, Missing, Taken, TooLarge, Unavailable
from engine.store.base import Filter
from engine.store.cosmos.store import CosmosStore
from engine.store.documents import Large
from tests.cosmos_double import Answer, CosmosDouble, Cut, Drop, ShortPage, StaleRead
from tests.cosmos_double.faults import Action
from tests.cosmos_double.state import Container
from tests.stores.cosmos.support import NOW, Time, account, chunk, claimed, completed, execution, item

CALLS = 30
EXECUTIONS = 3
KINDS = (None, None, None, "item", "query", "batch", "pkranges", "container", "account", "plan")
FAULTS: list[Callable[[], Action]] = [
    lambda: Answer(429, retry_after_ms=5),
    lambda: Answer(449),
    lambda: Answer(410),
    lambda: Answer(410, 1002),
    lambda: Answer(503),
    lambda: Answer(503, after_effect=True),
    lambda: Answer(408),
    lambda: Answer(408, after_effect=True),
    lambda: Answer(500),
    lambda: Answer(500, after_effect=True),
    lambda: Answer(404, 1002),
    lambda: Answer(404, 1002, after_effect=True),
    lambda: Answer(403, 3),
    lambda: Drop(),
    lambda: Drop(after_effect=True),
    lambda: Cut(),
    lambda: StaleRead(behind=3),
    lambda: ShortPage(0),
    lambda: ShortPage(1),
]


class Caller:
    """Makes one random call after the other, and keeps what it was told."""

    def __init__(self, store: CosmosStore, container: Container, dice: random.Random) -> None:
        self.store, self.container, self.dice = store, container, dice
        self.promised: dict[int, set[str]] = {n: set() for n in range(EXECUTIONS)}
        """The documents that each execution has to have: their creation was confirmed."""
        self._number = 0

    async def call(self) -> None:
        calls = (self.create, self.append, self.signal, self.interrupt, self.drive, self.look, self.look, self.purge)
        call = self.dice.choice(calls)
        of = self.dice.randrange(EXECUTIONS)
        self._number += 1
        try:
            await call(of)
        except (Conflict, Missing, Taken, TooLarge):
            pass
        except Unavailable:
            if call == self.purge:
                self.promised[of].clear()

    async def create(self, of: int) -> None:
        large = Large(id="input", execution_id=execution(of).execution_id, value="1")
        await self.store.create(execution(of), large if self.dice.random() < 0.5 else None)
        self.promised[of].add("exec")

    async def append(self, of: int) -> None:
        await self.store.append(chunk(self._number, of=of))
        self.promised[of].add(f"history::{self._number:08d}")

    async def signal(self, of: int) -> None:
        await self.store.signal(item(str(self._number), of=of), NOW)
        self.promised[of] |= {"exec", f"deferred::{self._number}"}

    async def interrupt(self, of: int) -> None:
        assert (await self.store.interrupt(execution(of).execution_id, NOW)).status

    async def drive(self, of: int) -> None:
        now = await self.store.read(execution(of).execution_id)
        if self.dice.random() < 0.5:
            now = await self.store.replace(claimed(now))
        await self.store.commit(
            completed(now) if self.dice.random() < 0.3 else claimed(now), chunk(self._number, of=of)
        )
        self.promised[of].add(f"history::{self._number:08d}")

    async def look(self, of: int) -> None:
        id = execution(of).execution_id
        looks: list[Callable[[], Any]] = [
            lambda: self.store.read(id),
            lambda: self.store.load(id),
            lambda: self.store.due(NOW, 5),
            lambda: self.store.list(Filter(), 5),
        ]
        await self.dice.choice(looks)()

    async def purge(self, of: int) -> None:
        await self.store.purge(await self.store.read(execution(of).execution_id))
        self.promised[of].clear()

    def check(self) -> None:
        for of, promised in self.promised.items():
            documents = {d["id"]: d for d in self.container.documents(execution(of).execution_id)}
            assert promised <= documents.keys()
            if (now := documents.get("exec")) is not None:
                inbox = sum(id.startswith("deferred::") for id in documents)
                assert (now["inboxCount"], now["wake"]) == (inbox, inbox + now["interrupted"])


@pytest.fixture
async def impatient(double: CosmosDouble, container: Container, time: Time) -> AsyncIterator[CosmosStore]:
    store = CosmosStore(account(double), replace(time.retry(), attempts=4, patience=1.0))
    yield store
    await store.close()


@pytest.mark.parametrize("ranges", [2])
@pytest.mark.parametrize("seed", [*range(8), 14])
async def test_random_calls_under_random_faults(
    impatient: CosmosStore, double: CosmosDouble, container: Container, time: Time, seed: int
) -> None:
    dice = random.Random(seed)
    caller = Caller(impatient, container, dice)
    for number in range(CALLS):
        double.faults.clear()
        time.slept.clear()
        for _ in range(dice.randrange(4)):
            fault, kind = dice.choice(FAULTS)(), dice.choice(KINDS)
            double.faults.add(fault, kind=kind, nth=dice.randint(1, 3), times=dice.randint(1, 4))
        if number % 10 == 9:
            container.split()
        await caller.call()
        caller.check()
