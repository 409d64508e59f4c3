"""Limits across the deployment: no more attempts at once, or in a period, than declared; first come, first served."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pytest

from engine import Limit, Retry, activity, workflow
from engine.driving.limits import LimitDesks
from engine.store.limit_state import Asking, LimitState, Permit, limit_id
from engine.testing import Call, Environment, survives
from engine.values.limits import Limits

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")


FOREVER = timedelta(days=3_000)
LIMITS = Limits(concurrency=1, limit=None, key=None)


class Seen:
    """What ran, as the activities saw it."""

    at_once: ClassVar[Counter[str]]
    most: ClassVar[Counter[str]]
    order: ClassVar[list[int]]
    starts: ClassVar[list[datetime]]
    now: Callable[[], datetime]

    @classmethod
    def reset(cls) -> None:
        cls.at_once, cls.most, cls.order, cls.starts = Counter(), Counter(), [], []


@pytest.fixture(autouse=True)
async def _reset() -> None:
    Seen.reset()


async def _run(key: str, number: int) -> int:
    Seen.order.append(number)
    Seen.at_once[key] += 1
    Seen.most[key] = max(Seen.most[key], Seen.at_once[key])
    try:
        for _ in range(20):
            await asyncio.sleep(0)
    finally:
        Seen.at_once[key] -= 1
    return number


@activity(concurrency=5)
async def limits_five(number: int) -> int:
    return await _run("", number)


@activity(concurrency=2, key=lambda tenant: tenant)
async def limits_by_tenant(number: int, tenant: str = "a") -> int:
    return await _run(tenant, number)


@activity(limit=Limit(10, per=timedelta(seconds=60)))
async def limits_ten_a_minute(number: int) -> int:
    Seen.starts.append(Seen.now())
    return number


def _fails(number: int) -> str:
    raise KeyError("no tenant")


@activity(concurrency=1, key=_fails)
async def limits_without_a_key(number: int) -> int:
    return number


@workflow(name="limits.five")
async def five(number: int) -> int:
    return await limits_five(number)


@workflow(name="limits.tenants")
async def tenants(number: int) -> int:
    return await limits_by_tenant(number, "ab"[number % 2])


@workflow(name="limits.minute")
async def minute(number: int) -> int:
    return await limits_ten_a_minute(number)


@workflow(name="limits.keyless")
async def keyless(number: int) -> int:
    return await limits_without_a_key(number)


async def _finish_all(env: Environment, one: Any, count: int) -> None:
    handles = [await env.start(one, number) for number in range(count)]
    for number, handle in enumerate(handles):
        assert (await env.finish(handle)).value() == number


@SLOW
async def test_two_hundred_executions_never_exceed_a_concurrency_of_five() -> None:
    async with Environment([five], workers=2) as env:
        await _finish_all(env, five, 200)
    assert Seen.most[""] == 5
    assert sorted(Seen.order) == list(range(200))


@SLOW
async def test_a_key_has_a_limit_of_its_own() -> None:
    async with Environment([tenants]) as env:
        await _finish_all(env, tenants, 40)
    assert Seen.most == {"a": 2, "b": 2}


@SLOW
async def test_no_period_has_more_starts_than_the_rate() -> None:
    async with Environment([minute], workers=2) as env:
        Seen.now = env.clock.now
        began = env.clock.now()
        await _finish_all(env, minute, 35)
        took = env.clock.now() - began
    assert len(Seen.starts) == 35
    for start in Seen.starts:
        assert sum(start <= other < start + timedelta(seconds=60) for other in Seen.starts) <= 10
    assert timedelta(minutes=3) <= took < timedelta(minutes=4), "the rate is used up"


async def test_a_key_function_that_raises_fails_the_step() -> None:
    async with Environment([keyless]) as env:
        status = await env.run(keyless, 1)
    assert status.outcome == "failed"
    assert "no tenant" in str(status.error)


@activity(concurrency=1, retry=Retry(max_attempts=2, first_delay=timedelta(minutes=1), jitter=False))
async def limits_one(number: int) -> int:
    Seen.order.append(number)
    return number


@workflow(name="limits.pair")
async def pair(number: int) -> list[int]:
    return list(await asyncio.gather(limits_one(number), limits_one(number + 1)))


@workflow(name="limits.one")
async def one_at_a_time(number: int) -> int:
    return await limits_one(number)


@workflow(name="limits.impatient")
async def impatient(number: int) -> str:
    try:
        async with asyncio.timeout(60):
            return str(await limits_five(number))
    except TimeoutError:
        return "gave up"


@SLOW
async def test_nothing_is_lost_wherever_a_process_dies() -> None:
    """Two steps that compete for one permit both end, at whichever store call their process dies."""

    async def play(env: Environment) -> Any:
        return (await env.run(pair, 1)).value()

    assert await survives([pair], play) == [1, 2]


async def test_a_dead_owner_keeps_its_permit_only_until_it_expires() -> None:
    async with Environment([one_at_a_time]) as env:
        env.crash_at("limits_one")
        first = await env.start(one_at_a_time, 1)
        await env.settle()
        assert (await env.finish(first)).value() == 1
        assert (await env.run(one_at_a_time, 2)).value() == 2


async def test_a_retry_holds_no_permit_while_it_waits() -> None:
    async with Environment([one_at_a_time]) as env:
        env.fail("limits_one", ConnectionError("closed"))
        first = await env.start(one_at_a_time, 1)
        await env.drive(first)
        assert (await env.run(one_at_a_time, 2)).value() == 2
        assert (await env.finish(first)).value() == 1
        assert Seen.order == [2, 1]


async def _occupied(env: Environment, name: str, by: int, places: int, keyed: str = "") -> list[Asking]:
    """Strangers with long leases take this number of places of a limit."""
    taken = [Asking(f"{by + n:032x}", None, "elsewhere", 1, "their token") for n in range(places)]
    permits = [Permit(holder=each.holder, token=each.token, expires_at=env.clock.now() + FOREVER) for each in taken]
    await env.store.inner.write_limit(LimitState(execution_id=limit_id(name, keyed), permits=tuple(permits)))
    return taken


async def test_a_step_that_waits_is_suspended_and_says_why() -> None:
    async with Environment([one_at_a_time]) as env:
        await _occupied(env, "limits_one", 1, 1)
        waiting = await env.start(one_at_a_time, 1)
        status = await env.drive(waiting)
        assert status.suspended
        assert "held back by its limits (at most 1 at once)" in await env.why(waiting)
        assert Seen.order == []


async def test_who_gives_up_loses_its_place_and_leaves_nothing() -> None:
    async with Environment([impatient]) as env:
        await _occupied(env, "limits_five", 1, 5)
        assert (await env.run(impatient, 1)).value() == "gave up"
        await asyncio.sleep(0)
        for _ in range(100):
            state = await env.store.inner.read_limit(limit_id("limits_five", ""))
            if not state.waiting:
                break
        assert state.waiting == ()
        assert len(state.permits) == 5


async def test_first_come_first_served() -> None:
    """Ten executions wait for one permit. They run in the order in which they came."""
    async with Environment([one_at_a_time]) as env:
        (stranger,) = await _occupied(env, "limits_one", 1, 1)
        handles = [await env.start(one_at_a_time, number) for number in range(10)]
        for handle in handles:
            await env.drive(handle)
        state = await env.store.inner.read_limit(limit_id("limits_one", ""))
        assert [ticket.execution_id for ticket in state.waiting] == [handle.execution_id for handle in handles]
        await env.store.inner.write_limit(state.leave(stranger))
        for handle in reversed(handles):
            await env.finish(handle)
    assert Seen.order == list(range(10))


async def test_what_a_limit_costs_in_store_calls() -> None:
    """A free limit costs one read, once in a process, and two writes for each attempt."""
    async with Environment([one_at_a_time]) as env:
        await env.run(one_at_a_time, 1)
        assert (env.store.count("read_limit"), env.store.count("write_limit")) == (1, 2)
        await env.run(one_at_a_time, 2)
        assert (env.store.count("read_limit"), env.store.count("write_limit")) == (1, 4)


async def test_requests_that_come_together_share_a_write() -> None:
    async with Environment([five]) as env:
        who = [Asking(f"{n:032x}", None, "step", 1, "token") for n in range(100)]
        desk = LimitDesks(env.store, env.clock, env.settings).of("limits_five", limits_five.limits or LIMITS, "")
        answers = await asyncio.gather(*(desk.ask(each) for each in who))
        assert env.store.count("write_limit") <= 2
        assert [answer is None for answer in answers] == [True] * 5 + [False] * 95


async def test_two_processes_that_compete_never_exceed_the_limit() -> None:
    """The second process reads before the first one writes, and writes after it."""
    async with Environment([five]) as env:
        mine = LimitDesks(env.store, env.clock, env.settings).of("raced", LIMITS, "")
        other = LimitDesks(env.store.inner, env.clock, env.settings).of("raced", LIMITS, "")
        asking = [Asking(f"{n:032x}", None, "step", 1, "token") for n in range(2)]

        async def overtake(call: Call) -> None:
            if call.method == "write_limit" and call.of_method == 0:
                assert await other.ask(asking[1]) is None

        env.store.before = overtake
        assert await mine.ask(asking[0]) is not None
        assert env.store.count("write_limit") == 2


async def test_a_step_that_is_woken_while_it_parks_asks_again() -> None:
    """The permit comes free between the step's ticket and the driver's suspension: nothing is missed."""
    async with Environment([one_at_a_time]) as env:
        (stranger,) = await _occupied(env, "limits_one", 1, 1)
        owner = LimitDesks(env.store.inner, env.clock, env.settings).of("limits_one", LIMITS, "")
        left: list[Call] = []

        async def free(call: Call) -> None:
            if call.method == "commit" and not left:
                left.append(call)
                await owner.leave(stranger)
                await owner.settled()

        env.store.before = free
        status = await env.drive(await env.start(one_at_a_time, 1))
        assert left
        assert status.outcome == "completed", "the drive went on in the same instant"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"concurrency": 0}, ValueError, "from 1 to 1,000"),
        ({"concurrency": True}, TypeError, "a whole number"),
        ({"concurrency": 1_001}, ValueError, "from 1 to 1,000"),
        ({"limit": 5}, TypeError, "takes a Limit"),
        ({"key": lambda number: number}, TypeError, "limits nothing by itself"),
        ({"concurrency": 1, "key": lambda order: order}, TypeError, "'order'"),
        ({"concurrency": 1, "key": lambda *all: all}, TypeError, "by name"),
        ({"concurrency": 1, "key": "number"}, TypeError, "a plain function"),
    ],
)
def test_limits_that_cant_work_are_refused(options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):

        @activity(**options)
        async def limits_refused(number: int) -> None: ...


@pytest.mark.parametrize("per", [timedelta(0), timedelta(seconds=-1), timedelta(days=32), 5])
def test_a_period_that_cant_work_is_refused(per: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="per="):
        Limit(1, per=per)


async def test_a_newcomer_does_not_overtake_those_who_wait() -> None:
    """A permit is free and its next owner isn't back yet: who comes in between joins the line."""
    async with Environment([five]) as env:
        desk = LimitDesks(env.store, env.clock, env.settings).of("queued", LIMITS, "")
        first, waits, newcomer = (Asking(f"{n:032x}", None, "step", 1, "token") for n in range(3))
        assert await desk.ask(first) is None
        assert await desk.ask(waits) is not None
        state = await env.store.inner.read_limit(limit_id("queued", ""))
        await env.store.inner.write_limit(state.leave(first))
        assert await desk.ask(newcomer) is not None
        assert await desk.ask(waits) is None


async def test_a_driver_that_was_replaced_gives_back_nothing() -> None:
    """The step's next driver holds the permit now: the late end of the earlier attempt leaves it alone."""
    async with Environment([five]) as env:
        desk = LimitDesks(env.store, env.clock, env.settings).of("replaced", LIMITS, "")
        earlier, now = (Asking("0" * 32, None, "step", 1, token) for token in ("earlier", "now"))
        assert await desk.ask(earlier) is None
        assert await desk.ask(now) is None
        await desk.leave(earlier)
        assert await desk.ask(Asking("1" * 32, None, "step", 1, "other")) is not None
