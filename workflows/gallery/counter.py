"""Counter: an entity with a state of its own. It takes changes and questions from anywhere, and goes on for ever."""

from __future__ import annotations

from pydantic import BaseModel

from engine import AlreadyEnded, Channel, Deferred, UnknownExecution, restart, workflow

CHANGES_PER_RUN = 200


class Counter(BaseModel):
    name: str
    total: int = 0


class Change(BaseModel):
    add: int = 0
    tell: str | None = None
    """The execution that wants to know the total."""


changes = Channel("counter.changes", Change)
total = Deferred("counter.total", int)


@workflow(idempotency_key=lambda counter: counter.name)
async def count(counter: Counter) -> None:
    """The counter itself. Each run takes some changes and hands its total on to the next."""
    for _ in range(CHANGES_PER_RUN):
        change = await changes.receive()
        counter.total += change.add
        if change.tell is not None:
            try:
                await add.handle(change.tell).resolve(total, counter.total)
            except (AlreadyEnded, UnknownExecution):
                continue
    restart(counter)


@workflow
async def add(change: dict[str, int]) -> dict[str, int]:
    """Add to one counter by name, and say what it comes to."""
    [(name, amount)] = change.items()
    await count.start(Counter(name=name))
    await count.handle(key=name).send(changes, Change(add=amount, tell=workflow.execution_id()))
    return {name: await total}
