"""Random workflows, as data: programs that one workflow function interprets, and activities that tell a ledger.

`[word, …]`, as plain JSON; what each word does is in the function of that name. Each value that an activity makes is
made once in a world, so that a value seen twice was recorded once.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol

from engine import (
    ActivityError,
    Channel,
    ChildStopped,
    Deferred,
    Failure,
    Outcome,
    Retry,
    Workflow,
    activity,
    compensate,
    finalizer,
    restart,
    workflow,
)
from engine.core.activity import current_context
from engine.core.activity_info import ActivityInfo
from tests.verification.simulation.faults import Favoured

Program = list[Any]
Task = dict[str, Any]
"""A workflow's payload: its `program`, and the `key` by which a shared one is known."""

value = Deferred("simulation.value", str)
news = Channel("simulation.news", str)
NAMES = ("a", "b", "c")
"""Keys of the deferreds that programs wait for."""


class Ledger(Protocol):
    """Who hears of each attempt of an activity that starts."""

    def started(self, info: ActivityInfo, label: str) -> int:
        """A number that no other start has."""
        ...

    def is_cured(self, execution_id: str) -> bool:
        """Whether the steps of that execution that fail for good work by now."""
        ...


LEDGER: contextvars.ContextVar[Ledger] = contextvars.ContextVar("ledger")


class Broke(Failure):
    """What a program fails with on purpose."""

    label: str


def _mark(label: str, basis: str = "") -> str:
    return f"{label}@{LEDGER.get().started(activity.info(), f'{label} {basis}'.rstrip())}"


def _is_cured() -> bool:
    return LEDGER.get().is_cured(activity.info().execution_id)


@activity
async def act(label: str, delay: float, basis: str) -> str:
    mark = _mark(label, basis)
    if delay:
        await asyncio.sleep(delay)
    return mark


@activity
async def bulk(label: str, basis: str) -> str:
    return _mark(label, basis) + "." * 5_000


@activity(retry=Retry(max_attempts=3, first_delay=timedelta(seconds=1)))
async def flaky(label: str, failures: int) -> str:
    mark = _mark(label)
    if activity.info().attempt <= failures and not _is_cured():
        raise ConnectionError(mark)
    return mark


@activity
async def broken(label: str) -> str:
    mark = _mark(label)
    if not _is_cured():
        raise ValueError(mark)
    return mark


@activity(timeout=timedelta(seconds=2))
async def slow(label: str, delay: float) -> str:
    mark = _mark(label)
    await asyncio.sleep(0.0 if _is_cured() else delay)
    return mark


def saw(kind: str, label: str, seen: Any = None) -> None:
    """The workflow's code reports what it sees."""
    observed = current_context().observed
    observed.append([kind, label, seen])
    workflow.set_status({"seen": len(observed)})
    workflow.set_tag("seen", str(len(observed)))


def _basis() -> str:
    """What was seen last: an activity that is given it shows what its workflow had seen when it was asked for."""
    seen = current_context().observed
    return f"after {seen[-1][1]} {str(seen[-1][2])[:20]}" if seen else ""


class Words:
    """What the words of a program do."""

    async def act(self, label: str, delay: float) -> None:
        saw("value", label, await act(label, delay, _basis()))

    async def bulk(self, label: str) -> None:
        saw("value", label, await bulk(label, _basis()))

    async def flaky(self, label: str, failures: int) -> None:
        await self._try(label, flaky(label, failures))

    async def broken(self, label: str) -> None:
        await self._try(label, broken(label))

    async def slow(self, label: str, delay: float) -> None:
        await self._try(label, slow(label, delay))

    async def sleep(self, label: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        saw("slept", label)

    async def deferred(self, label: str, name: str) -> None:
        saw("value", label, await value[name])

    async def receive(self, label: str) -> None:
        saw("value", label, await news.receive())

    async def child(self, label: str, name: str, task: Task, mode: str) -> None:
        child = WORKFLOWS[name]
        try:
            if mode == "start":
                saw("value", label, await child.start(task))
            elif mode == "abandon":
                saw("value", label, await child.child(task))
            else:
                saw("value", label, await child(task))
        except (Failure, ActivityError, ExceptionGroup) as error:
            saw("stopped" if isinstance(error, ChildStopped) else "failed", label, type(error).__name__)

    async def fall(self, label: str) -> None:
        raise Broke(label=label)

    async def catch(self, label: str, part: Program) -> None:
        try:
            await self.run(part)
        except Exception as error:
            saw("caught", label, type(error).__name__)

    async def undoing(self, label: str) -> None:
        compensate(act, label, 0.0, "undone")

    async def ending(self, label: str) -> None:
        async def last(outcome: Outcome) -> None:
            saw("ends", label, outcome.kind)
            await act(label, 0.0, _basis())

        finalizer(last)

    async def guarded(self, label: str, part: Program) -> None:
        try:
            await self.run(part)
        finally:
            await asyncio.shield(asyncio.create_task(self.act(label, 0.0)))

    async def seq(self, _: str, *parts: Program) -> None:
        for part in parts:
            await self.run(part)

    async def gather(self, _: str, *parts: Program) -> None:
        await asyncio.gather(*(self.run(part) for part in parts))

    async def group(self, _: str, *parts: Program) -> None:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(self.run(part))

    async def race(self, label: str, *parts: Program) -> None:
        tasks = [asyncio.create_task(self.run(part)) for part in parts]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        saw("won", label, [tasks.index(task) for task in tasks if task in done])
        for task in pending:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def limit(self, label: str, seconds: float, part: Program) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.run(part)
        except TimeoutError:
            saw("out of time", label)

    async def run(self, program: Program) -> None:
        word, *rest = program
        perform: Callable[..., Awaitable[None]] = getattr(self, word)
        await perform(*rest)

    async def _try(self, label: str, step: Awaitable[str]) -> None:
        try:
            saw("value", label, await step)
        except ActivityError as error:
            saw("value", label, error.message)


async def _play(task: Task) -> list[Any]:
    await Words().run(task["program"])
    _restart_with_the_rest(task)
    return list(current_context().observed)


async def _play_more(task: Task) -> list[Any]:
    await Words().run(task["program"])
    await Words().act("more", 0.0)
    _restart_with_the_rest(task)
    return list(current_context().observed)


def _restart_with_the_rest(task: Task) -> None:
    """Play the programs that follow, each in a run of its own, unless this run has compensations or finalizers."""
    if task["then"]:
        with contextlib.suppress(RuntimeError):
            restart({**task, "program": task["then"][0], "then": task["then"][1:]})


def _workflows(function: Callable[[Task], Awaitable[list[Any]]], version: str) -> dict[str, Workflow[Any, Any]]:
    options: dict[str, dict[str, Any]] = {
        "plain": {},
        "halting": {"suspend_on_failure": True},
        "limited": {"time_limit": timedelta(seconds=30)},
        "kept": {"retention": timedelta(seconds=60)},
        "narrow": {"max_parallel": 1},
        "shared": {"idempotency_key": lambda task: task["key"]},
    }
    return {n: workflow(name=n, version=version, **o)(function) for n, o in options.items()}


WORKFLOWS = _workflows(_play, "1")
NEWER = _workflows(_play_more, "2")
"""What a deployment brings beside them."""

DELAYS = (0.0, 0.0, 0.01, 0.3, 4.0, 40.0)
COMPOUNDS = ("seq", "seq", "seq", "gather", "gather", "group", "race", "race", "limit", "guarded", "fall")
SLEEPS = (0.0, 0.05, 1.0, 5.0, 30.0, 90.0)


class Writer:
    """Writes programs by chance."""

    def __init__(self, rng: random.Random, favours: Favoured = "") -> None:
        self._rng = rng
        self._favours = favours
        self._labels = 0

    def task(self, leaves: int, depth: int = 0) -> Task:
        """A payload whose program has about that many steps."""
        key, program = self._rng.choice("xyz"), self.program(leaves, depth)
        more = random.Random(json.dumps(program))  # a stream of its own: a seed's programs stay what they are
        writer = Writer(more, self._favours)
        writer._labels = self._labels + 1_000
        then = [writer.program(more.randint(1, leaves), depth) for _ in range(more.choice((0, 0, 0, 1, 2)))]
        return {"key": key, "program": program, "then": then}

    def workflow(self) -> str:
        """The name of a workflow."""
        return self._rng.choice(["plain", "plain", "plain", *WORKFLOWS])

    def program(self, leaves: int, depth: int) -> Program:
        if leaves <= 1:
            return self._leaf(depth)
        return self._compound(leaves, depth)

    def _leaf(self, depth: int) -> Program:
        rng, label = self._rng, self._label()
        words: list[Callable[[], Program]] = [
            lambda: ["act", label, rng.choice(DELAYS)],
            lambda: ["act", label, rng.choice(DELAYS)],
            lambda: ["act", label, 0.0],
            lambda: ["deferred", label, rng.choice(NAMES)],
            lambda: ["deferred", label, rng.choice(NAMES)],
            lambda: ["receive", label],
            lambda: ["sleep", label, rng.choice(SLEEPS)],
            lambda: ["flaky", label, rng.randint(1, 3)],
            lambda: ["broken", label],
            lambda: ["slow", label, rng.choice(DELAYS)],
            lambda: ["undoing", label],
            lambda: ["ending", label],
            lambda: ["bulk", label],
        ]
        if depth < 2:
            words += [lambda: self._child(label, depth)] * 3
        if rng.random() < 0.6:
            match self._favours:
                case "steps":
                    return ["act", label, 0.0]
                case "long steps":
                    return ["act", label, rng.choice((0.0, 40.0))]
                case "values":
                    return rng.choice((["receive", label], ["deferred", label, rng.choice(NAMES)]))
                case "children" if depth < 2:
                    return self._child(label, depth)
        return rng.choice(words)()

    def _child(self, label: str, depth: int) -> Program:
        rng = self._rng
        mode = rng.choice(["wait", "wait", "wait", "abandon", "start"])
        return ["child", label, self.workflow(), self.task(rng.randint(1, 3), depth + 1), mode]

    def _compound(self, leaves: int, depth: int) -> Program:
        rng, label = self._rng, self._label()
        word = rng.choice(COMPOUNDS)
        match word:
            case "limit":
                return ["limit", label, rng.choice(SLEEPS), self.program(leaves - 1, depth)]
            case "guarded":
                return ["guarded", label, self.program(leaves - 1, depth)]
            case "fall":
                fallen = ["seq", label, self.program(leaves - 1, depth), ["fall", label]]
                return fallen if rng.random() < 0.3 else ["catch", label, fallen]
        parts, left = [], leaves
        while left > 0:
            size = rng.randint(1, max(1, left - 1))
            parts.append(self.program(size, depth))
            left -= size
        return [word, label, *parts]

    def _label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"
