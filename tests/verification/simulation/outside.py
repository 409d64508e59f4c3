"""The outside: starts executions, brings values, interrupts, resumes, retries, terminates, purges; and believes what it
is told.

Who gets no answer asks again, of another worker. What an answer promised must hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, TypeVar

from engine.boundary.client import Client
from engine.boundary.status import Status
from engine.ground.errors import (
    AlreadyEnded,
    AlreadyResolved,
    ClientError,
    NotEnded,
    NotReopened,
    StoreError,
    UnknownExecution,
)
from engine.store.documents import EXEC, inbox_id
from tests.verification.simulation.invariants import Violation
from tests.verification.simulation.programs import NAMES, Task, news, value
from tests.verification.simulation.world import REACHED, World

T = TypeVar("T")

TRIES = 4
RETRIES = 3


class GaveUp(Exception):
    """No worker answered: it may have happened or not."""


class Outside:
    """The clients of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.random("outside")
        self._starts = world.random("starts")
        self._values = 0

    async def play(self, name: str, task: Task, seconds: float) -> None:
        """Start an execution and do things to it, all within that time."""
        rng = self._rng
        await asyncio.sleep(rng.uniform(0, seconds / 4))
        key = f"k{rng.randint(1, 9)}{rng.random()}"
        if self._starts.random() < self._world.faults.starts_again:
            id, _ = await asyncio.gather(self._start(name, task, key), self._start(name, task, key))
        else:
            id = await self._start(name, task, key)
        hurry = rng.random() < self._world.faults.hurry
        burst = rng.uniform(0, seconds / 2)

        def moment() -> float:
            return burst + rng.uniform(0, 0.2) if hurry and rng.random() < 0.8 else rng.uniform(0, seconds * 3 / 4)

        deeds: list[tuple[float, Callable[[str], Awaitable[None]]]] = []
        for likely, deed in (
            (0.9, self.complete),
            (0.6, self.complete),
            (0.6, self.complete),
            (0.6, self.send),
            (0.4, self.send),
            (0.2, self.interrupt),
            (0.1, self.interrupt),
            (0.06, self.terminate),
            (0.3, self.resume),
            (0.2, self.purge),
            (0.1, self.purge),
            *[(self._world.faults.retries, self.retry)] * RETRIES,
        ):
            if likely and rng.random() < likely:
                deeds.append((moment(), deed))
        if rng.random() < 0.2:
            deeds.append((moment(), lambda _: self._again(name, task, key)))
        await asyncio.gather(*(self._later(at, deed, id) for at, deed in deeds))

    # -- deeds: each believes the answer, and checks it --

    async def complete(self, id: str, name: str | None = None) -> None:
        """Bring a value for a deferred, now and then twice."""
        deferred = value[name or self._rng.choice(NAMES)]
        mine = self._value()
        document = inbox_id("deferred", deferred.name)
        run = self._run(id)
        for _ in range(self._rng.choice((1, 1, 2))):
            try:
                await self._ask(f"complete {deferred.name}", id, lambda c: c.resolve(id, deferred, mine))
                self._stands(id, run, document, f'"{mine}"')
            except AlreadyResolved as other:
                _require(other.first != f'"{mine}"', "a deferred was refused for its own value")
                self._stands(id, run, document, other.first)
            except (AlreadyEnded, UnknownExecution, GaveUp):
                pass

    async def send(self, id: str) -> None:
        """Send a value to the channel, now and then twice under one key."""
        mine, key, run = self._value(), f"s{self._values}", self._run(id)
        for _ in range(self._rng.choice((1, 1, 2))):
            try:
                await self._ask("send", id, lambda c: c.send(id, news, mine, key=key))
                self._stands(id, run, f"{inbox_id('channel', news.name)}::{key}", f'"{mine}"')
            except (AlreadyEnded, UnknownExecution, GaveUp):
                pass

    async def interrupt(self, id: str) -> None:
        try:
            status = await self._ask("interrupt", id, lambda c: c.interrupt(id))
        except (UnknownExecution, GaveUp):
            return
        _require(status.interrupted or status.is_complete, "an interrupt was neither accepted nor too late")
        found = self._world.container.documents(id).get(EXEC)
        if status.interrupted and found is not None and datetime.fromisoformat(found["createdAt"]) == status.created_at:
            _require(found["interrupted"], "an interrupt that was accepted was lost")

    async def terminate(self, id: str) -> None:
        try:
            status = await self._ask("terminate", id, lambda c: c.terminate(id))
            _require(status.outcome == "terminated", "a termination was answered, but didn't take place")
        except (AlreadyEnded, UnknownExecution, GaveUp):
            pass

    async def resume(self, id: str) -> None:
        with contextlib.suppress(AlreadyEnded, UnknownExecution, GaveUp):
            await self._ask("resume", id, lambda c: c.resume(id))

    async def retry(self, id: str) -> None:
        try:
            status = await self._ask("retry", id, lambda c: c.retry(id))
        except (NotReopened, UnknownExecution, GaveUp):
            return
        _require(not status.is_complete, "a retry was answered, but the execution doesn't run")

    async def purge(self, id: str) -> None:
        with contextlib.suppress(NotEnded, UnknownExecution, GaveUp):
            await self._ask("purge", id, lambda c: c.purge(id))

    # -- inside --

    async def _start(self, name: str, task: Task, key: str) -> str:
        here = self._starts.random() < self._world.faults.starts_here

        async def start(client: Client) -> str:
            if here:
                return (await client.start_json(name, json.dumps(task), key=key, drive=True)).execution_id
            return (await client.start(name, task, key=key)).execution_id

        while True:
            try:
                id: str = await self._ask(f"start {name}{' here' if here else ''}", "", start)
            except GaveUp:
                await asyncio.sleep(1)
            else:
                return id

    async def _again(self, name: str, task: Task, key: str) -> None:
        """Start it once more: the same execution, or a fresh run if it was purged meanwhile."""
        await self._start(name, task, key)

    async def _later(self, seconds: float, deed: Callable[[str], Awaitable[None]], id: str) -> None:
        await asyncio.sleep(seconds)
        await deed(id)

    async def _ask(
        self, what: str, id: str, request: Callable[[Client], Coroutine[Any, Any, Status | str | None]]
    ) -> Any:
        world = self._world
        for _ in range(TRIES):
            if not world.workers:
                await asyncio.sleep(1)
                continue
            node = self._rng.choice(world.workers)
            world.note("outside", what, id[:4], "through", node)
            try:
                answer = await world.ask(node, request(node.client))
            except REACHED:
                await asyncio.sleep(self._rng.uniform(0, 5))
            except ClientError as error:
                world.note("outside", what, "is told", type(error).__name__)
                raise
            except StoreError as error:
                raise Violation(f"{what} answered with {error!r}") from error
            else:
                return answer
        raise GaveUp

    def _run(self, id: str) -> str | None:
        """The run of the execution that stands under that id."""
        run: str | None = self._world.container.documents(id).get(EXEC, {}).get("runId")
        return run

    def _stands(self, id: str, run: str | None, document: str, expected: str) -> None:
        """What was promised to that run is there, unless it was purged or restarted since."""
        documents = self._world.container.documents(id)
        if EXEC not in documents or self._run(id) != run:
            return
        found = documents.get(document)
        _require(
            found is not None and found.get("value") == expected,
            f"{document} should hold {expected}, and is {found and found.get('value')}",
        )

    def _value(self) -> str:
        self._values += 1
        return f"v{self._values}"


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Violation(message)
