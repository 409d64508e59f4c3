"""Mutex and semaphore: at most so many executions use a printer at a time, in the order in which they asked."""

from __future__ import annotations

from pydantic import BaseModel

from engine import AlreadyEnded, Channel, Deferred, UnknownExecution, activity, restart, workflow

REQUESTS_PER_RUN = 200


class Lock(BaseModel):
    name: str
    room: int = 1
    """1 makes it a mutex; more, a semaphore."""
    holders: list[str] = []
    waiting: list[str] = []


class Request(BaseModel):
    by: str
    wants: bool


class Page(BaseModel):
    text: str
    printer: str


requests = Channel("lock.requests", Request)
granted = Deferred("lock.granted", None)


@activity
async def print_it(page: Page) -> None:
    raise NotImplementedError("talk to the printer here")


@workflow(idempotency_key=lambda lock: lock.name)
async def keep_lock(lock: Lock) -> None:
    """The lock itself: it lives for ever, and knows who holds it and who waits. A repeated request changes nothing."""
    for _ in range(REQUESTS_PER_RUN):
        request = await requests.receive()
        known = [*lock.holders, *lock.waiting]
        if request.wants:
            lock.waiting += [request.by] if request.by not in known else []
        else:
            lock.holders = [id for id in lock.holders if id != request.by]
            lock.waiting = [id for id in lock.waiting if id != request.by]
        while lock.waiting and len(lock.holders) < lock.room:
            first = lock.waiting.pop(0)
            try:
                await print_page.handle(first).resolve(granted)
            except (AlreadyEnded, UnknownExecution):
                continue
            lock.holders.append(first)
    restart(lock)


@workflow
async def print_page(page: Page) -> None:
    await keep_lock.start(Lock(name=page.printer))
    lock, me = keep_lock.handle(key=page.printer), workflow.execution_id()
    try:
        await lock.send(requests, Request(by=me, wants=True))
        await granted
        await print_it(page)
    finally:
        await lock.send(requests, Request(by=me, wants=False))
