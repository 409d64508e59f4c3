"""What the platform does to workers: the change feed, the timer of the sweep, and every kind of end."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta

from engine.driving.hand_overs import Hint
from engine.ground.errors import Unavailable
from engine.store.documents import Document, Execution
from tests.verification.simulation.world import REACHED, SWEEP_SECONDS, Died, Node, World

RETRY_SECONDS = 1.0


class Platform:
    """The hosts' side of a world. Its tasks end when `stop` is called."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.random("platform")
        self._queue = world.random("queue")
        self._tasks: list[asyncio.Task[None]] = []
        self._changed: dict[str, Document] = {}
        self._flushing = False
        world.feed.append(self._hear)

    def start(self) -> None:
        """Boot the workers, and begin."""
        world, faults = self._world, self._world.faults
        for _ in range(faults.workers):
            world.boot()
            world.newer = world.newer or self._rng.random() < faults.newer
        self._tasks = [asyncio.create_task(self._sweeps()), asyncio.create_task(self._replace())]
        for every, strike in (
            (faults.deaths_every, self._die),
            (faults.freezes_every, self._freeze),
            (faults.stops_every, self._deploy),
            (faults.storms_every, self._storm),
        ):
            if every:
                self._tasks.append(asyncio.create_task(self._often(every, strike)))

    def stop(self) -> None:
        """No more of it: what is left is the sweep, called by hand."""
        for task in self._tasks:
            task.cancel()
        self._world.feed.clear()

    async def sweep(self, node: Node) -> None:
        """One sweep of a worker."""
        self._world.note(node, "sweeps")
        with contextlib.suppress(*REACHED):
            hints: list[Hint] = []
            is_served = bool(self._world.feed)
            await self._world.ask(node, node.worker.sweep(hints.append if is_served else None))
            self._send(hints)

    # -- the feed --

    def _hear(self, key: str, execution: Execution) -> None:
        faults, rng = self._world.faults, self._rng
        if not self._changed.get(key) or rng.random() >= faults.old:
            self._changed[key] = {**execution.to_document(), "_etag": execution.etag}
        if not self._flushing:
            self._flushing = True
            pause = rng.uniform(5, 60) if rng.random() < faults.slow_feed else rng.choice((0.0, 0.02, 0.5))
            self._world.loop.call_later(pause, self._flush, context=self._world.platform.context())

    def _flush(self) -> None:
        faults, rng = self._world.faults, self._rng
        batch, self._changed, self._flushing = list(self._changed.values()), {}, False
        if rng.random() < faults.dropped:
            return
        rng.shuffle(batch)
        for _ in range(2 if rng.random() < faults.doubled else 1):
            self._world.loop.spawn(self._world.platform, self._deliver(batch))

    async def _deliver(self, batch: list[Document]) -> None:
        world = self._world
        while world.feed:
            if not world.workers:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            node = self._rng.choice(world.workers)
            world.note(node, "is given", *(f"{d['executionId'][:4]}{d['_etag']}" for d in batch))
            try:
                hints: list[Hint] = []
                await world.ask(node, node.worker.drive_changes(batch, hints.append))
                return self._send(hints)
            except Unavailable:  # the host's retry policy gives the same batch again
                await asyncio.sleep(RETRY_SECONDS)
            except Died:
                if self._rng.random() < world.faults.dropped:
                    return
                await asyncio.sleep(RETRY_SECONDS)

    # -- the queue --

    def _send(self, hints: list[Hint]) -> None:
        """A queue loses, doubles and delays hints as the feed does its batches."""
        faults, queue = self._world.faults, self._queue
        for hint in hints:
            if queue.random() >= faults.dropped:
                for _ in range(2 if queue.random() < faults.doubled else 1):
                    self._world.loop.spawn(self._world.platform, self._hint(hint))

    async def _hint(self, hint: Hint) -> None:
        world, queue = self._world, self._queue
        await asyncio.sleep(queue.uniform(5, 60) if queue.random() < world.faults.slow_feed else queue.uniform(0, 1))
        if world.feed and world.workers:
            node, hints = queue.choice(world.workers), list[Hint]()
            world.note(node, "is told of", hint.execution_id[:4])
            with contextlib.suppress(*REACHED):
                await world.ask(node, node.worker.drive_one(hint, hints.append))
                self._send(hints)

    # -- the timer --

    async def _sweeps(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            world = self._world
            if world.workers and self._rng.random() >= world.faults.sweeps_skipped:
                world.loop.spawn(world.platform, self.sweep(self._rng.choice(world.workers)))

    # -- ends --

    async def _often(self, every: float, strike: object) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0, 2 * every))
            if self._world.workers:
                strike(self._rng.choice(self._world.workers))  # type: ignore[operator]

    async def _replace(self) -> None:
        """Where a worker is missing, there is another before long."""
        while True:
            await asyncio.sleep(self._rng.choice((0.5, 5.0)))
            if len(self._world.workers) < self._world.faults.workers:
                self._world.boot()

    def _die(self, node: Node) -> None:
        self._world.kill(node)

    def _freeze(self, node: Node) -> None:
        if not node.process.frozen:
            self._world.freeze(node)

    def _deploy(self, node: Node) -> None:
        """A worker stops in good order; those that start from now on may have newer code."""
        self._world.newer = self._world.newer or self._rng.random() < 0.5
        if not node.closing:
            node.closing = True
            self._world.loop.spawn(self._world.platform, self._close(node))

    async def _close(self, node: Node) -> None:
        self._world.note(node, "is told to stop")
        with contextlib.suppress(Died):
            await self._world.ask(node, node.worker.close(timedelta(seconds=5)))
            self._world.kill(node, "has stopped")

    def _storm(self, _: Node) -> None:
        faults, world = self._world.faults, self._world
        if faults.storm:
            return
        world.note("", "storm")
        faults.storm = True

        def pass_by() -> None:
            faults.storm = False

        world.loop.call_later(self._rng.choice((2.0, 15.0, 40.0)), pass_by, context=world.platform.context())
