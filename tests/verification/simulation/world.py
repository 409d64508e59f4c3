"""A world: workers on one container, the platform that calls them, and the outside. One seed is one history of it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import random
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from unittest import mock

from engine.boundary.client import Client
from engine.core.activity_info import ActivityInfo
from engine.core.registry import Registry
from engine.driving.activities import Activities
from engine.driving.drive import Drive
from engine.driving.worker import Worker
from engine.ground.clock import SystemClock, instant
from engine.ground.errors import Taken, Unavailable
from engine.ground.settings import Settings
from engine.store.cosmos.resend import Resend
from engine.store.documents import EXEC, Execution
from tests.verification.simulation.container import Container, Documents
from tests.verification.simulation.faults import Faults
from tests.verification.simulation.invariants import RUN, Invariants, ObservedRun, Violation
from tests.verification.simulation.programs import LEDGER, NEWER, WORKFLOWS
from tests.verification.simulation.scheduler import PROCESS, Process, SimLoop
from tests.verification.simulation.store import SimStore
from tests.verification.simulation.trace import Change, Trace

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = Settings(max_drives=3, retention=timedelta(0))
SWEEP_SECONDS = 10.0


TOKEN: contextvars.ContextVar[str] = contextvars.ContextVar("token")
"""The token of the lease of the driver that works here."""
DECIDED: contextvars.ContextVar[int] = contextvars.ContextVar("decided")
"""How often the process had been frozen when an attempt of an activity was decided on."""


class Died(Exception):
    """The process that was asked is gone."""


class World:
    """Everything of one seed. Raises Violation out of `run` if an invariant doesn't hold."""

    def __init__(self, seed: int | str, theme: str | None = None) -> None:
        self.seed = seed
        self.chance = self.random("chance")
        self.loop = SimLoop(self.random("scheduler"))  # type: ignore[abstract]
        self.trace = Trace()
        self.faults = Faults.drawn(self.random("faults"), self.random("starts here"), theme)
        self.invariants = Invariants()
        self.container = Container(self.loop.time, self._committed)
        self.platform = self._process("platform")
        self.outside = self._process("outside")
        self.workers: list[Node] = []
        self.cured = False
        self.newer = False
        self.requests = 0
        self.marks = 0
        self.feed: list[Callable[[str, Execution], None]] = []
        self._numbers = 0
        self._run: ObservedRun | None = None
        self._change: Change | None = None

    def random(self, name: str) -> random.Random:
        """A stream of chance of its own."""
        return random.Random(f"{self.seed}/{name}")

    @property
    def now(self) -> datetime:
        """The true time."""
        return instant(START + timedelta(seconds=self.loop.time()))

    def note(self, who: object, what: str, *details: Any) -> None:
        """A line of the trace."""
        self.trace.add(self.loop.time(), str(who), what, *details)

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the world until what `main` begins has ended."""
        ids = self.random("ids")

        def uuid4() -> uuid.UUID:
            return uuid.UUID(int=ids.getrandbits(128), version=4)

        with (
            mock.patch.object(uuid, "uuid4", uuid4),
            mock.patch("engine.driving.runs.Run", self._observed),
            mock.patch.object(Drive, "_begin", _before(Drive._begin, _show_token)),
            mock.patch.object(Activities, "_perform", _before(Activities._perform, _show_decision)),
            self._listening(),
        ):
            return self.loop.run(self.platform, main())

    # -- processes --

    def boot(self) -> Node:
        """One more worker, with the code of now."""
        self._numbers += 1
        node = Node(self, self._process(f"worker{self._numbers}"))
        self.workers.append(node)
        self.note(node, "starts", "with newer code" if self.newer else "", f"clock {node.skew:+.1f} s")
        return node

    def kill(self, node: Node, why: str = "dies") -> None:
        """A worker's process ends at once."""
        if node.process.dead:
            return
        self.note(node, why)
        self.workers.remove(node)
        self.loop.kill(node.process)
        if not node.gone.done():
            node.gone.set_result(None)

    def freeze(self, node: Node) -> float:
        """A worker's process stands still for a while. Returns for how long, in seconds."""
        seconds = self.faults.freeze_time()
        self.note(node, f"freezes for {seconds:g} s")
        self.loop.freeze(node.process)

        def thaw() -> None:
            if not node.process.dead and node.process.frozen:
                self.note(node, "thaws")
                self.loop.thaw(node.process)

        self.loop.call_later(seconds, thaw, context=self.platform.context())
        return seconds

    async def ask(self, node: Node, request: Coroutine[Any, Any, T]) -> T:
        """Have a worker do something. Raises Died."""
        task = self.loop.spawn(node.process, request)
        await asyncio.wait([task, node.gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Died
        return task.result()

    # -- what the engine tells --

    def started(self, info: ActivityInfo, label: str) -> int:
        """See `programs.Ledger`."""
        process = PROCESS.get()
        self.marks += 1
        self.note(process, "activity starts", info.execution_id[:4], info.step, label, f"@{self.marks}")
        with self.judged():
            self.invariants.started(RUN.get(), info, label, DECIDED.get() != process.freezes)
        return self.marks

    def is_cured(self, execution_id: str) -> bool:
        """See `programs.Ledger`."""
        return self.cured

    # -- what a network does --

    def arrive(self, node: Node | None, run: ObservedRun | None, effect: Callable[[], T]) -> tuple[T, Change | None]:
        """A request's effect. What it changed is checked."""
        self._run, self._change = run, None
        try:
            return effect(), self._change
        finally:
            self._run = None

    def is_gone(self, key: str, run: ObservedRun | None) -> bool:
        """Whether the execution that a driver writes to was purged. What it writes then is forced elsewhere:
        tests/rules/purge/test_purged_runs.py."""
        found = self.container.documents(key).get(EXEC)
        return found is None or (run is not None and run.execution_id == key and run.begun < found["createdAt"])

    def _committed(self, key: str, before: Documents, after: Documents) -> None:
        self._change = Change(before, after)
        with self.judged():
            self.invariants.committed(self.now, self._run, before, after)
        if EXEC in after and after[EXEC] is not before.get(EXEC):
            for hear in self.feed:
                hear(key, Execution.from_document(after[EXEC]))

    @contextlib.contextmanager
    def judged(self) -> Iterator[None]:
        """What is raised in here ends the world, whoever would have caught it."""
        try:
            yield
        except Exception as violation:
            self.note("", "VIOLATION", violation)
            self.loop.fail(violation)

    # -- inside --

    def _observed(self, *arguments: Any) -> ObservedRun:
        """The run of a driver, which has loaded what there is."""
        run = ObservedRun(*arguments)
        run.token = TOKEN.get()
        RUN.set(run)
        holds = self.container.documents(run.execution_id).get(EXEC, {}).get("worker")
        if holds == run.token:
            self.invariants.began(run)
        return run

    def _process(self, name: str) -> Process:
        process = self.loop.add(Process(name))
        process.context_of_all.run(LEDGER.set, self)
        return process

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Hear what the engine reports as a fault of its own."""
        log, handler = logging.getLogger("engine"), _Listener(self)
        before = log.level, log.propagate
        log.addHandler(handler)
        log.setLevel(logging.ERROR)
        log.propagate = False
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.setLevel(before[0])
            log.propagate = before[1]


class Node:
    """A worker's process: its clock, its store, its worker and its client."""

    def __init__(self, world: World, process: Process) -> None:
        self.process = process
        self.skew = world.chance.uniform(-world.faults.skew, world.faults.skew)
        self.gone = world.loop.create_future()
        self.closing = False
        self.newer = world.newer
        clock = SimClock(world, self.skew)
        self.store = SimStore(world.container, Wire(world, self))
        workflows = [*WORKFLOWS.values(), *(NEWER.values() if world.newer else ())]
        registry = Registry(workflows)
        self.worker = Worker(self.store, registry, SETTINGS, clock, world.random(process.name))
        self.client = Client(self.store, registry, SETTINGS, clock, self.worker)

    def __str__(self) -> str:
        return self.process.name


class SimClock(SystemClock):
    """The clock of one process."""

    def __init__(self, world: World, skew: float) -> None:
        self._world = world
        self._skew = timedelta(seconds=skew)

    def now(self) -> datetime:
        return instant(START + timedelta(seconds=self._world.loop.time()) + self._skew)


class Wire:
    """The way between one worker's store and the container."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node
        self._rng = world.random(f"wire {node}")
        self.retry = Resend(sleep=asyncio.sleep, clock=world.loop.time, random=self._rng.random)

    async def send(self, operation: str, key: str, effect: Callable[[], T]) -> T:
        world, node, run = self._world, self._node, RUN.get(None)
        plan = world.faults.plan(mortal=len(world.workers) > 0)
        answer = world.loop.create_future()
        world.requests += 1

        def respond(result: T | None, error: Exception | None) -> None:
            if answer.done():
                return
            answer.set_exception(error) if error is not None else answer.set_result(result)

        def arrive() -> None:
            if plan.refused:
                world.note(node, operation, key[:4], "refused")
                world.loop.call_later(plan.back, respond, None, OSError("refused"))
                return
            if plan.dies == "there":
                return world.kill(node)
            if plan.freezes == "there" and not node.process.frozen:
                # It stands still between its decision and the request, which leaves when it is thawed.
                world.loop.call_later(world.freeze(node), send, context=world.loop.network.context())
                return
            send()

        def send() -> None:
            if node.process.dead and plan.freezes == "there":
                return
            if operation == "append" and world.is_gone(key, run):
                world.note(node, operation, key[:4], "comes after a purge")
                return respond(None, Taken("the model takes no chunk of a purged run"))
            result, change = world.arrive(node, run, effect)
            outcome = change or getattr(result, "__getitem__", lambda _: "")(0)
            world.note(node, operation, key[:4], plan.name, _shown(outcome))
            if plan.dies == "back":
                world.kill(node)
            if plan.freezes == "back" and not node.process.frozen and not node.process.dead:
                world.freeze(node)
            error = OSError("the answer was lost") if plan.lost else None
            world.loop.call_later(plan.back, respond, result, error)

        world.loop.call_later(plan.there, arrive, context=world.loop.network.context())
        return await answer

    def lag(self) -> float:
        most = self._world.faults.lag
        return self._rng.uniform(0, most) if most and self._rng.random() < 0.5 else 0.0

    def forgets(self) -> bool:
        return self._world.faults.forgetful > 0 and self._rng.random() < self._world.faults.forgetful

    def cuts(self, ids: Sequence[str]) -> list[str]:
        pages = self._rng.randint(1, self._world.faults.pages)
        return sorted(self._rng.sample(ids, min(pages - 1, len(ids)))) if pages > 1 else []


class _Listener(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.note(PROCESS.get(self._world.platform), "reports", record.getMessage())
        if record.exc_info:
            violation = Violation(f"the engine failed: {record.getMessage()}: {record.exc_info[1]!r}")
            violation.__cause__ = record.exc_info[1]
            self._world.loop.fail(violation)


def _before(method: Callable[..., T], show: Callable[[Any], None]) -> Callable[..., T]:
    """The method, with something shown to its context first."""

    def both(owner: object, *arguments: Any) -> T:
        show(owner)
        return method(owner, *arguments)

    return both


def _show_token(drive: Drive) -> None:
    TOKEN.set(drive._lease.token)


def _show_decision(_: Activities) -> None:
    DECIDED.set(PROCESS.get().freezes)


def _shown(outcome: Any) -> Any:
    """What came of a request, in short."""
    if isinstance(outcome, Change | Exception):
        return outcome
    if isinstance(outcome, dict):
        return f"{outcome.get('id')}{outcome.get('_etag', '')}"
    return f"{len(outcome)} documents" if isinstance(outcome, list) else ""


REACHED = (Unavailable, Died)
"""How a request may fail without anybody's fault but the network's."""
