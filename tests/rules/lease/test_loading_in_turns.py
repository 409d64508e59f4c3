"""Q4: Loading a long history leaves the event loop to others: a little is validated at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from engine import Channel, Deferred, workflow
from engine.core.run import Run
from engine.driving.lease import EVENTS_AT_A_TIME, _decoded
from engine.ground.errors import DecodingError
from engine.store.base import DOCUMENTS_AT_A_TIME, sort_documents, sort_in_turns
from engine.store.documents import Chunk
from engine.testing import Environment
from engine.values.events import Event, StepResolved

T = TypeVar("T")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TURNS = 10


def chunk(number: int, events: int) -> Chunk:
    made = [StepResolved(f"a#{i}", "0" * 16, NOW, "activity", value=f"{i}") for i in range(events)]
    return Chunk.of("a" * 32, number, list(made), "run")


async def turns_beside(work: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """What the work gives, and how many turns another task had meanwhile."""
    turns, task = 0, asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return task.result(), turns


async def test_many_documents_are_sorted_in_turns() -> None:
    """Q4, N1: as they would be all at once, what can't be read and the order included."""
    documents = [chunk(number, 1).to_document() for number in reversed(range(DOCUMENTS_AT_A_TIME * TURNS))]
    documents[7]["events"] = "cut off"
    loaded, turns = await turns_beside(sort_in_turns(documents))
    assert loaded == sort_documents(documents)
    assert len(loaded.unreadable) == 1
    assert turns >= TURNS


async def test_a_chunk_of_many_events_is_decoded_in_turns() -> None:
    """And what is wrong with one of them is told by its number in the chunk."""
    long = chunk(0, EVENTS_AT_A_TIME * TURNS)
    events, turns = await turns_beside(_decoded(long))
    assert events == long.decoded()
    assert turns >= TURNS
    number = len(long.events) - 1
    long.events[number] = {**long.events[number], "value": "{"}
    with pytest.raises(DecodingError, match=rf"events\.{number}: "):
        await _decoded(long)


values = Channel("in_turns.values", int)
enough = Deferred("in_turns.enough", bool)
AT_A_TIME = 20


@workflow
async def adds() -> int:
    total = sum([await values.receive() for _ in range(AT_A_TIME * TURNS)])
    await enough
    return total


async def most_between_turns(counts: list[int], work: Coroutine[Any, Any, object]) -> int:
    """How much of what `counts` counts was done at most between two turns of another task, of more than that in all."""
    before, most, task = len(counts), 0, asyncio.ensure_future(work)
    start = before
    while not task.done():
        await asyncio.sleep(0)
        most, before = max(most, len(counts) - before), len(counts)
    await task
    assert len(counts) - start >= AT_A_TIME * TURNS
    return most


async def test_many_values_are_delivered_and_a_long_history_is_replayed_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Q4, N1: no more than a set number of events between two turns of the loop, live and in the replay after it."""
    applied, apply = list[int](), Run.apply

    def counted(run: Run, event: Event) -> None:
        applied.append(run.turn)
        apply(run, event)

    monkeypatch.setattr("engine.driving.intake.EVENTS_AT_A_TIME", AT_A_TIME)
    monkeypatch.setattr(Run, "apply", counted)
    async with Environment([adds]) as env:
        handle = await env.start(adds)
        for number in range(AT_A_TIME * TURNS):
            await handle.send(values, number)
        assert await most_between_turns(applied, env.drive(handle)) == AT_A_TIME
        await env.resolve(handle, enough, True)
        assert await most_between_turns(applied, env.drive(handle)) <= AT_A_TIME + 1  # and the event that is new
        assert (await env.finish(handle)).value() == sum(range(AT_A_TIME * TURNS))
