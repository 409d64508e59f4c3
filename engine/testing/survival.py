"""Checks that a test gives the same result, no matter at which store call its process dies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from engine.core.declarations import Workflow
from engine.core.registry import Declaration
from engine.driving.lifespan import Opens
from engine.testing.environment import Environment
from engine.testing.process import Fate, Moment

T = TypeVar("T")

READS = {"read", "load", "read_inbox", "due", "list"}


async def survives(
    workflows: Sequence[Workflow[Any, Any]],
    play: Callable[[Environment], Awaitable[T]],
    activities: Mapping[str, Callable[..., Any]] | None = None,
    *,
    declares: Sequence[Declaration] = (),
    lifespan: Opens | None = None,
) -> T:
    """Run `play` without a crash, and then again for each store call of its worker: once with the worker dying before
    that call takes effect, and once after it. Asserts that `play` returns the same value each time. Returns that value.

    Each run has its own environment, with these `activities`, `declares` and `lifespan`. After a death, another worker
    takes over once the lease has expired.
    """

    async def once(fate: Fate) -> T:
        async with Environment(
            workflows, activities=activities, declares=declares, lifespan=lifespan, fate=fate
        ) as env:
            return await play(env)

    calls: list[str] = []
    whole = await once(Fate(calls=calls))
    for number, method in enumerate(calls):
        moments: tuple[Moment, ...] = ("before",) if method in READS else ("before", "after")
        for moment in moments:
            where = f"the worker died {moment} its store call {number}, {method}"
            try:
                crashed = await once(Fate(number, moment, []))
            except Exception as error:
                error.add_note(where)
                raise
            assert crashed == whole, f"{where}: {crashed!r}, and without a crash {whole!r}"
    return whole
