"""The workflows of the recordings. Never change them: histories of them are recorded, and must replay for ever. What a
new feature needs goes into a new workflow, with a recording of its own."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

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
from tests.replay.recorded_values import large, values

DAY = timedelta(days=1)

approval = Deferred("recorded.approval", bool)
reading = Deferred("recorded.reading", Decimal)
remarks = Channel("recorded.remarks", str)


class Mended:
    """Whether the activity that suspends its execution works by now. For whoever records."""

    is_mended = False


# -- an order: activities, and every way in which they fail --


class Declined(Failure):
    """A typed failure: it comes back as itself."""

    code: str
    limit: Decimal


class NothingLeft(Exception):
    """A declared exception: it comes back as itself, too."""


class Order(BaseModel):
    id: str
    items: list[str]


class Receipt(BaseModel):
    order: str
    total: Decimal
    notes: list[str]


@activity(name="recorded.price")
async def price(item: str, *, currency: str = "EUR") -> Decimal:
    return Decimal(len(item)) + Decimal("0.10")


@activity(name="recorded.charge")
async def charge(order: str, amount: Decimal) -> str:
    raise Declined(code="limit", limit=Decimal("10.00"))


@activity(name="recorded.reserve", raises=[NothingLeft])
def reserve(order: str) -> None:
    raise NothingLeft("lamp", 3)


@activity(name="recorded.ship")
async def ship(order: str) -> None:
    try:
        raise ConnectionError("no road")
    except ConnectionError as error:
        raise ValueError("the parcel can't go") from error


@activity(
    name="recorded.confirm",
    retry=Retry(max_attempts=3, first_delay=timedelta(seconds=5), jitter=False),
    timeout=timedelta(minutes=1),
)
async def confirm(order: str) -> int:
    if activity.info().attempt < 3:
        raise ConnectionError("nobody there")
    return activity.info().attempt


@workflow(
    name="recorded.order",
    version="7",
    idempotency_key=lambda order: order.id,
    tags={"kind": "recorded"},
    retention=timedelta(days=30),
)
async def place(order: Order) -> Receipt:
    total, notes = Decimal(0), []
    for item in order.items:
        total += await price(item, currency="EUR" if item == "lamp" else "CHF")
    try:
        await charge(order.id, total)
    except Declined as declined:
        notes.append(f"{declined.code} {declined.limit}")
    try:
        await reserve(order.id)
    except NothingLeft as missing:
        notes.append(f"{missing.args}")
    try:
        await ship(order=order.id)
    except ActivityError as error:
        cause = error.__cause__
        assert isinstance(cause, ActivityError)
        notes.append(f"{error.type_name}: {error.message}, {cause.type_name}: {cause.message}")
    notes.append(f"confirmed at attempt {await confirm(order.id)}")
    return Receipt(order=order.id, total=total, notes=notes)


# -- time --


@activity(name="recorded.say")
async def say(what: str) -> str:
    return what


@workflow(name="recorded.timers")
async def timers() -> list[str]:
    log, loop = [], asyncio.get_running_loop()
    begun = loop.time()
    await asyncio.sleep(0)
    await asyncio.sleep(90.5)
    log.append(f"{loop.time() - begun:.1f}")
    try:
        async with asyncio.timeout(60):
            await asyncio.sleep(86_400)
    except TimeoutError:
        log.append("too slow")
    async with asyncio.timeout(3_600):
        log.append(await say("in time"))
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 10)
    except TimeoutError:
        log.append(workflow.now().isoformat())
    await asyncio.sleep(400 * 86_400)
    log.append(workflow.now().isoformat())
    return log


# -- many things at once --


@activity(name="recorded.work")
async def work(number: int, turns: int = 0) -> int:
    for _ in range(turns):
        await asyncio.sleep(0)
    if number < 0:
        raise ValueError(f"{number} is less than nothing")
    return number * number


@workflow(name="recorded.together", max_parallel=3)
async def together() -> list[str]:
    log = [str(await asyncio.gather(*(work(n, 9 - n) for n in range(5))))]
    mixed = await asyncio.gather(work(1), work(-1), return_exceptions=True)
    log.append(", ".join(str(one) for one in mixed))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_chain(n)) for n in (2, 3)]
    log.append(str([task.result() for task in tasks]))
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(1_000))
            group.create_task(work(-2))
    except* ActivityError as errors:
        log.append(str([str(error) for error in errors.exceptions]))
    log += [str(await done) for done in workflow.as_completed([work(4, 6), work(5), work(6, 3)])]
    racing = [asyncio.create_task(work(7)), asyncio.create_task(asyncio.sleep(5_000, 8))]
    done, pending = await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
    log.append(str([task.result() for task in done]))
    for task in pending:
        task.cancel()
    return [*log, *await _over_a_queue()]


async def _chain(number: int) -> int:
    return await work(await work(number), 1)


async def _over_a_queue() -> list[str]:
    queue, lock, log = asyncio.Queue[int](1), asyncio.Lock(), list[str]()

    async def produce() -> None:
        for number in (10, 11, 12):
            await queue.put(await work(number))
        await queue.put(-1)

    async def consume() -> None:
        while (number := await queue.get()) >= 0:
            async with lock:
                log.append(await say(f"took {number}"))

    await asyncio.gather(produce(), consume())
    return log


# -- values from outside --


class Unreadable(Failure):
    meter: str


@workflow(name="recorded.waits")
async def waits() -> list[str]:
    log = [f"approved: {await approval}, and again: {await approval}"]
    keyed = {asyncio.create_task(approval[role].wait()): role for role in ("legal", "finance", "board")}
    for done in asyncio.as_completed(keyed, timeout=86_400):
        try:
            log.append(f"one said {await done}")
        except TimeoutError:
            log.append("one said nothing")
    try:
        await reading
    except Unreadable as failure:
        log.append(f"no reading of {failure.meter}")
    return log


@workflow(name="recorded.hears")
async def hears() -> list[str]:
    heard = [await remarks.receive()]
    async for remark in remarks:
        if remark == "bye":
            break
        heard.append(await say(remark))
    try:
        await asyncio.wait_for(remarks.receive(), 60)
    except TimeoutError:
        heard.append("silence")
    return heard


# -- children --


class Broken(Failure):
    part: str


@workflow(name="recorded.build", idempotency_key=lambda part: f"recorded {part}")
async def build(part: str) -> str:
    if part == "door":
        raise Broken(part=part)
    if part == "roof":
        raise ValueError("no tiles")
    if part == "wall":
        await asyncio.sleep(60)
    if part == "tower":
        await approval
    return f"{part} built"


@workflow(name="recorded.house")
async def house(parts: list[str]) -> list[str]:
    outlives = asyncio.create_task(build.child("tower"))
    built = await asyncio.gather(*(build(part) for part in parts), return_exceptions=True)
    log = [f"no {one.part}" if isinstance(one, Broken) else str(one) for one in built]
    log.append(await build.start("garden"))
    try:
        await outlives
    except ChildStopped as stopped:
        log.append(f"{stopped.workflow} {stopped.outcome}")
    return log


# -- undoing --


@activity(name="recorded.book")
async def book(what: str) -> str:
    return what


@activity(name="recorded.cancel")
async def cancel(what: str) -> None:
    if what == "hotel":
        raise ConnectionError("the hotel doesn't answer")


@activity(name="recorded.report")
async def report(outcome: str, cause: str) -> None:
    return None


@workflow(name="recorded.trip")
async def trip(days: int) -> None:
    async def last(outcome: Outcome) -> None:
        await report(outcome.kind, type(workflow.cause()).__name__)

    finalizer(last)
    for what in ("flight", "hotel", "car"):
        compensate(cancel, await book(what))
    try:
        await asyncio.sleep(days * 86_400)
    except asyncio.CancelledError:
        await asyncio.shield(report("cleaning up", ""))
        raise
    raise Declined(code="rained", limit=Decimal(days))


@workflow(name="recorded.limited", time_limit=timedelta(hours=1))
async def limited() -> bool:
    compensate(cancel, await book("room"))
    return await approval


@workflow(name="recorded.torn", time_limit=timedelta(hours=1))
async def torn() -> bool:
    async def last(outcome: Outcome) -> None:
        await report(outcome.kind, "")
        await approval["told"]

    async def stops_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    finalizer(last)
    compensate(cancel, await book("tent"))
    compensate(stops_itself)
    try:
        return await approval
    finally:
        await say("cleaning up")
        await approval["cleaned"]


@activity(name="recorded.print")
async def print_label() -> str:
    if not Mended.is_mended:
        raise ConnectionError("the printer is off")
    return "printed"


@workflow(name="recorded.label", suspend_on_failure=True)
async def label() -> str:
    return f"{await say('label')} {await print_label()}"


# -- chance, and what a workflow knows of itself --


@workflow(name="recorded.chance")
async def chance() -> list[str]:
    told = [str(workflow.uuid4()), workflow.execution_id(), workflow.now().isoformat()]
    told.append(await say(f"{workflow.random().random():.12f} {workflow.random().randrange(1_000)}"))
    workflow.logger.info("told %d", len(told))
    await asyncio.sleep(1.25)
    told.append(await say(f"{workflow.uuid4()} {workflow.now().isoformat()}"))
    return told


# -- a run that a restart began --


@workflow(name="recorded.restarts")
async def restarts(rounds: int) -> str:
    said = await say(f"round {rounds}")
    if rounds:
        restart(rounds - 1)
    return said


# -- a driver that died --


@workflow(name="recorded.abandoned")
async def abandoned() -> str:
    first = await say("first")
    answer = await approval
    return f"{first} {await say('second')} {answer}"


# -- one whose code was patched as it ran --


class Evolved:
    is_patched = True


@workflow(name="recorded.evolves")
async def evolves() -> list[str]:
    heard: list[str] = []
    async for remark in remarks:
        if remark == "bye":
            break
        new = Evolved.is_patched and workflow.patched("in capitals")
        heard.append(await say(remark.upper() if new else remark))
        if Evolved.is_patched and heard[1:]:
            workflow.deprecate_patch("no small talk")
    return heard


# -- one that still waits, for something of each kind --


@activity(name="recorded.try", retry=Retry(max_attempts=9, first_delay=DAY, max_delay=DAY, jitter=False))
async def try_daily() -> None:
    raise ConnectionError("not today")


@workflow(name="recorded.standing")
async def standing() -> None:
    await say("so far so good")
    await asyncio.gather(approval.wait(), remarks.receive(), build("tower"), try_daily(), asyncio.sleep(10_000_000))


WORKFLOWS: list[Workflow[Any, Any]] = [
    place,
    timers,
    together,
    waits,
    hears,
    build,
    house,
    trip,
    limited,
    torn,
    label,
    chance,
    restarts,
    abandoned,
    evolves,
    values,
    large,
    standing,
]
