"""P12: a fork takes over the history up to a step, and goes on from there. The original stays as it is."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from engine import (
    AlreadyStarted,
    Caller,
    Channel,
    Deferred,
    EncodingError,
    Failure,
    Filter,
    InvalidInput,
    NotForked,
    Runtime,
    Settings,
    UnknownExecution,
    Workflow,
    activity,
    compensate,
    restart,
    workflow,
)
from engine.boundary import callers, http
from engine.boundary.answers import Request
from engine.boundary.client import Client
from engine.boundary.handle import Handle
from engine.boundary.history import history
from engine.ground.errors import Unavailable
from engine.store.sqlite.store import SqliteStore
from engine.store.wrapper import Call, Hook, WatchedStore
from engine.testing import Environment, survives
from engine.testing.clock import ManualClock
from engine.values.events import Forked
from tests.support.processes import Process
from tests.support.stored import purge

pytestmark = pytest.mark.usefixtures("every_store")

approval = Deferred("forks.approval", str)
lines = Channel("forks.lines", str)


class World:
    """What was done, and with which key."""

    done: ClassVar[list[str]] = []
    keys: ClassVar[list[str]] = []
    wrong = False


@pytest.fixture(autouse=True)
def world() -> None:
    World.done, World.keys, World.wrong = [], [], False


@activity
async def reserve(what: str) -> str:
    World.done.append(f"reserve {what}")
    return what


@activity
async def charge(what: str, random: str = "") -> str:
    World.done.append(f"charge {what}")
    World.keys += [activity.info().idempotency_key, random]
    if World.wrong:
        raise Refused
    return f"{what} charged"


@activity
async def put_back(what: str) -> None:
    World.done.append(f"put back {what}")


class Refused(Failure):
    pass


@workflow
async def forks_order(order: dict[str, str]) -> str:
    """Its first step takes the id and the time, which have to be as they were."""
    what = await reserve(f"{order['what']} {workflow.execution_id()} {workflow.now()} {workflow.uuid4()}")
    paid = await charge(order["what"], str(workflow.uuid4()))
    return f"{paid} {order['note']} {what.split()[1]} {workflow.execution_id()}"


@workflow
async def forks_child(what: str) -> str:
    return await reserve(what)


@workflow
async def forks_parent(what: str) -> str:
    first = await forks_child(what)
    return first + await forks_child(f"second {what}")


@workflow
async def forks_waits(what: str) -> list[str]:
    """Its values from outside come in any order."""
    asked = asyncio.ensure_future(_approval())
    got = [await lines.receive(), await reserve(what), await lines.receive()]
    return [*got, await asked]


async def _approval() -> str:
    return await approval


@workflow
async def forks_undoes(what: str) -> str:
    compensate(put_back, await reserve(what))
    return await charge(what)


@workflow
async def forks_passes_on(what: str) -> str:
    return await charge(await reserve(what))


@workflow
async def forks_chain(what: str) -> str:
    await put_back(await reserve(what))
    return await charge(what)


@workflow
async def forks_tries(what: str) -> str:
    refused = None
    try:
        await charge(what)
    except Refused as error:
        refused = error
    what = await reserve(what)
    if refused is not None and World.wrong:
        raise refused
    return what


@workflow
async def forks_many(what: str) -> list[str]:
    async def both(one: str) -> str:
        await reserve(one)
        return await charge(one)

    return await asyncio.gather(*(both(f"{what}{n}") for n in range(3)))


@workflow
async def forks_sleeps(what: str) -> str:
    await reserve(what)
    async with asyncio.timeout(3600):
        await charge(what)
    await asyncio.sleep(60)
    return what


@workflow
async def forks_restarts(count: int) -> int:
    await reserve(str(count))
    if count:
        restart(count - 1)
    return count


ALL: list[Workflow[Any, Any]] = [
    forks_passes_on,
    forks_chain,
    forks_tries,
    forks_order,
    forks_child,
    forks_parent,
    forks_waits,
    forks_undoes,
    forks_many,
    forks_sleeps,
    forks_restarts,
]
TEA = {"what": "tea", "note": "hot"}


async def test_it_goes_on_from_the_step_and_the_original_stays() -> None:
    """P12: the steps before don't run again. The step has a new key and new random numbers; the code sees the id of the
    original up to there, and then its own."""
    async with Environment(ALL) as env:
        original = await env.start(forks_order, TEA)
        await env.finish(original)
        before = await env.store.inner.read(original.execution_id)
        env.clock.advance(timedelta(days=1))
        fork = await original.fork("charge")
        status = await env.finish(fork)
        assert status.value() == f"tea charged hot {original.execution_id} {fork.execution_id}"
        assert [step.split()[0] for step in World.done] == ["reserve", "charge", "charge"]
        assert len(set(World.keys)) == 4
        assert status.forked_from is not None
        assert (status.forked_from.execution_id, status.forked_from.step) == (original.execution_id, "charge")
        assert await env.store.inner.read(original.execution_id) == before
        assert (await env.store.inner.read(fork.execution_id)).parents == ()
        await purge(env, original.execution_id)
        await env.client.wait(fork, 0)
        assert (await env.status(fork)).value() == status.value()


async def test_another_payload_changes_what_follows() -> None:
    """P12: what the payload changes must come after the step. Otherwise nothing is stored, and it is refused."""
    async with Environment(ALL) as env:
        original = await env.start(forks_order, TEA)
        await env.finish(original)
        fork = await original.fork("charge", {"what": "tea", "note": "cold"})
        assert " cold " in (await env.finish(fork)).value()
        with pytest.raises(NotForked, match=r"with that payload.*'reserve' with another input"):
            await original.fork("charge", {"what": "rug", "note": "hot"}, key="rug")
        whole = await original.fork("reserve", {"what": "rug", "note": "red"})
        assert (await env.finish(whole)).value().startswith("rug charged red")
        with pytest.raises(EncodingError):
            await original.fork("charge", {"what": 1}, key="rug")
        with pytest.raises(InvalidInput):
            await env.client.fork_json(original, "charge", '{"what": 1}', key="rug")
        with pytest.raises(UnknownExecution):
            await env.client.handle(forks_order, key="rug").status()


async def test_once_for_each_key() -> None:
    """P12: the same request finds the fork. Another one under its key is refused; so is the key of another start."""
    async with Environment(ALL) as env:
        original = await env.start(forks_order, TEA, key="first")
        await env.finish(original)
        fork = await original.fork("charge", key="again")
        assert fork.execution_id == env.client.handle(forks_order, key="again").execution_id
        for _ in range(2):
            assert (await original.fork("charge", key="again")).execution_id == fork.execution_id
            await env.finish(fork)
        for step, payload, key in (("reserve", None, "again"), ("charge", TEA, "again"), ("charge", None, "first")):
            with pytest.raises(AlreadyStarted):
                await (original.fork(step, payload, key=key) if payload else original.fork(step, key=key))
        edited = await original.fork("charge", {**TEA, "note": "cold"}, key="edited")
        assert (
            await original.fork("charge", {**TEA, "note": "cold"}, key="edited")
        ).execution_id == edited.execution_id
        with pytest.raises(AlreadyStarted, match=r"payload.note was 'cold', is now 'warm'"):
            await original.fork("charge", {**TEA, "note": "warm"}, key="edited")


async def test_children_that_had_ended_come_along() -> None:
    """P12: as recorded; the next child is the fork's own. A fork of the fork has both."""
    async with Environment(ALL) as env:
        original = await env.start(forks_parent, "tea")
        assert (await env.finish(original)).value() == "teasecond tea"
        fork = await original.fork("forks_child#2")
        assert (await env.finish(fork)).value() == "teasecond tea"
        assert World.done == ["reserve tea", "reserve second tea", "reserve second tea"]
        again = await (await fork.fork("forks_child#2")).fork("forks_child#2")
        assert (await env.finish(again)).value() == "teasecond tea"
        early = await again.fork("forks_child")
        assert (await env.finish(early)).value() == "teasecond tea"
        assert len(World.done) == 7


async def test_a_fork_of_a_fork_replays_what_each_of_them_saw() -> None:
    """P12: the ids and random numbers of each part are those under which it was recorded."""
    async with Environment(ALL) as env:
        original = await env.start(forks_order, TEA)
        await env.finish(original)
        fork = await original.fork("reserve")
        await env.finish(fork)
        second = await fork.fork("charge")
        assert (await env.finish(second)).value() == f"tea charged hot {fork.execution_id} {second.execution_id}"
        third = await second.fork("charge")
        assert (await env.finish(third)).value() == f"tea charged hot {fork.execution_id} {third.execution_id}"
        first = await third.fork("reserve")
        assert (await env.finish(first)).value() == f"tea charged hot {first.execution_id} {first.execution_id}"


async def test_values_from_outside_come_along_if_they_had_arrived() -> None:
    """P12: those received are recorded; those that waited unread come along in their order; later ones stay behind."""
    async with Environment(ALL) as env:
        original = await env.start(forks_waits, "tea")
        for value in ("a", "b"):
            await original.send(lines, value, key=value)
        await original.resolve(approval, "yes")
        env.clock.advance(timedelta(seconds=1))
        await env.finish(original)
        fork = await original.fork("reserve")
        assert (await env.finish(fork)).value() == ["a", "tea", "b", "yes"]
        own = await original.fork("forks.lines#2")
        assert not (await env.finish(own)).is_complete
        await own.send(lines, "c")
        assert (await env.finish(own)).value() == ["a", "tea", "c", "yes"]


async def test_an_open_deferred_and_a_running_child_are_refused() -> None:
    """P12: others know of them. A step before them, or they themselves, may be forked from."""
    async with Environment(ALL) as env:
        original = await env.start(forks_waits, "tea")
        await env.settle()
        await original.send(lines, "a")
        await env.settle()
        with pytest.raises(NotForked, match=r"deferred 'forks.approval' was open"):
            await original.fork("reserve")
        fork = await original.fork("forks.lines")
        for value in ("x", "y"):
            await fork.send(lines, value)
        await fork.resolve(approval, "no")
        assert (await env.finish(fork)).value() == ["x", "tea", "y", "no"]
        same = await original.fork("forks.approval")
        await same.send(lines, "z")
        await same.resolve(approval, "maybe")
        assert (await env.finish(same)).value() == ["a", "tea", "z", "maybe"]


@workflow
async def forks_beside(what: str) -> str:
    child = asyncio.ensure_future(_waiting_child())
    await reserve(what)
    await charge(what)
    return await child


@workflow
async def forks_waiting_child() -> str:
    return await approval


async def _waiting_child() -> str:
    return await forks_waiting_child()


async def test_a_child_that_still_ran_is_refused() -> None:
    """P12: it belongs to the original."""
    async with Environment([forks_beside, forks_waiting_child]) as env:
        original = await env.start(forks_beside, "tea")
        await env.settle()
        with pytest.raises(NotForked, match=r"the child of step 'forks_waiting_child', execution .* still ran"):
            await original.fork("charge")
        fork = await original.fork("reserve")
        await env.settle()
        (child,) = [
            e.execution_id
            for e in (await env.store.inner.list(Filter(workflow="forks_waiting_child"), 10)).executions
            if e.creator == fork.execution_id
        ]
        await env.client.resolve(child, approval, "yes")
        assert (await env.finish(fork)).value() == "yes"


async def test_begun_compensations_are_refused() -> None:
    """P12: whether it has ended, was terminated in the middle, or winds up now. Before the step that they undo it may
    be forked."""
    World.wrong = True
    async with Environment(ALL) as env:
        original = await env.start(forks_undoes, "tea")
        assert (await env.finish(original)).outcome == "failed"
        with pytest.raises(NotForked, match="its compensations have begun: put_back"):
            await original.fork("charge")
        with pytest.raises(NotForked, match="only winds up"):
            await original.fork("put_back")
        World.wrong = False
        fork = await original.fork("reserve")
        assert (await env.finish(fork)).value() == "tea charged"
        assert (await env.finish(await fork.fork("charge"))).value() == "tea charged"


async def test_steps_side_by_side_run_again_unless_they_had_ended() -> None:
    """P12: the history counts, in its order."""
    async with Environment(ALL) as env:
        original = await env.start(forks_many, "tea")
        whole = (await env.finish(original)).value()
        events = [e["step"] for c in (await env.store.inner.load(original.execution_id)).chunks for e in c.events]
        ended = events.index("charge#2")
        done = len(World.done)
        assert (await env.finish(await original.fork("charge#2"))).value() == whole
        assert len(World.done) - done == 6 - ended


async def test_time_goes_on_where_it_was() -> None:
    """P12: a timer that ran at that point has as long to go as it had then; the code's clock doesn't go back."""
    async with Environment(ALL) as env:
        original = await env.start(forks_sleeps, "tea")
        await env.finish(original)
        env.clock.advance(timedelta(days=2))
        fork = await original.fork("charge")
        assert (await env.finish(fork)).value() == "tea"
        forked = env.clock.now()
        late = await original.fork("timer#2")
        assert (await env.drive(late)).due_at == forked + timedelta(seconds=60)


async def test_what_cannot_be_forked_is_refused_by_name() -> None:
    """P12: an unknown step, a restarted run, an interrupt that had reached the code, an unknown execution."""
    async with Environment(ALL) as env:
        original = await env.start(forks_order, TEA)
        await env.finish(original)
        with pytest.raises(NotForked, match=r"no step 'chrage'.* It has: reserve, charge"):
            await original.fork("chrage")
        with pytest.raises(InvalidInput):
            await original.fork("")
        restarted = await env.start(forks_restarts, 1)
        await env.finish(restarted)
        with pytest.raises(NotForked, match="it has restarted"):
            await restarted.fork("reserve")
        with pytest.raises(UnknownExecution):
            await env.client.fork("0" * 32, "reserve")


async def test_it_survives_a_death_at_every_store_call() -> None:
    """P12: whatever its drivers do; each step runs once for each that recorded it."""

    async def play(env: Environment) -> Any:
        original = await env.start(forks_order, TEA, key="a")
        await env.finish(original)
        fork = await original.fork("charge", key="b")
        status = await env.finish(fork)
        return status.value(), len((await env.store.inner.load(fork.execution_id)).inbox)

    await survives(ALL, play)


async def test_a_purge_of_the_original_that_comes_between_changes_nothing() -> None:
    """P12: purged before it was read whole, it is unknown. Purged after that, the fork has all that it needs."""
    async with Environment(ALL) as env:

        async def nothing(call: Call) -> None:
            return None

        for method in ("load", "create"):
            original = await env.start(forks_order, TEA)
            await env.finish(original)

            async def between(call: Call, method: str = method, id: str = original.execution_id) -> None:
                if call.method == method:
                    env.store.before = nothing
                    await purge(env, id)

            env.store.before = between
            if method == "load":
                with pytest.raises(UnknownExecution):
                    await original.fork("charge", key=method)
                with pytest.raises(UnknownExecution):
                    await env.client.handle(forks_order, key=method).status()
            else:
                fork = await original.fork("charge", key=method)
                assert (await env.finish(fork)).outcome == "completed"


@workflow
async def forks_large(rounds: int) -> int:
    sizes = [len(await produce(number)) for number in range(rounds)]
    await charge("all")
    return sum(sizes)


@activity
async def produce(number: int) -> str:
    return str(number) * 400_000


async def test_a_creation_that_is_cut_off_leaves_nothing_that_is_driven() -> None:
    """P12: at every call of it, before and after. The history is too long for one transaction. The next request with
    the key makes the fork, whatever the first one left; so does a start under the key."""
    async with Environment([*ALL, forks_large]) as env:
        original = await env.start(forks_large, 5)
        await env.finish(original)
        small = await env.start(forks_order, TEA)
        await env.finish(small)
        for source, step in ((original, "charge"), (small, "charge")):
            calls = await _calls(env, source, step)
            assert calls.count("append") == (3 if source is original else 0)
            for number in range(len(calls)):
                for moment in ("before", "after"):
                    key = f"{source.execution_id} {number} {moment}"
                    dying = WatchedStore(env.store.inner)
                    setattr(dying, moment, _dies_at(number))
                    client = Client(dying, env.registry, env.settings, env.clock, None)
                    with pytest.raises(Unavailable):
                        await client.fork(source, step, key=key)
                    running = (await env.store.inner.list(Filter(status="running"), 100)).executions
                    assert len(running) == (moment == "after" and dying.calls[-1].method == "create")
                    fork = await source.fork(step, key=key)
                    status = await env.finish(fork)
                    assert status.outcome == "completed"
                    assert env.ran(fork) == ["charge"]


def _dies_at(number: int) -> Hook:
    async def hook(call: Call) -> None:
        if call.number >= number:
            raise Unavailable("the process is gone")

    return hook


async def _calls(env: Environment, source: Handle[Any], step: str) -> list[str]:
    """The store calls of one fork."""
    watched = WatchedStore(env.store.inner)
    fork = await Client(watched, env.registry, env.settings, env.clock, None).fork(source, step)
    await env.finish(fork)
    return [call.method for call in watched.calls]


async def test_two_at_once_with_one_key_make_one_fork() -> None:
    """P12: whichever comes first at the store; the other one's chunks count for nothing."""
    async with Environment([forks_large]) as env:
        original = await env.start(forks_large, 5)
        await env.finish(original)
        one, other = Process(env), Process(env)
        forks = await asyncio.gather(*(p.client.fork(original, "charge", key="once") for p in (one, other)))
        assert forks[0].execution_id == forks[1].execution_id
        assert (await env.finish(forks[0])).value() == 2_000_000
        assert env.ran(forks[0]) == ["charge"]


async def test_other_results_take_the_place_of_recorded_ones() -> None:
    """P12: as a value, checked by the type of the step. The steps themselves don't run again."""
    async with Environment(ALL) as env:
        original = await env.start(forks_passes_on, "tea")
        await env.finish(original)
        fork = await original.fork("charge", results={"reserve": "milk"}, key="once")
        assert (await env.finish(fork)).value() == "milk charged"
        assert env.ran(fork) == ["charge"]
        again = await original.fork("charge", results={"reserve": "milk"}, key="once")
        assert again.execution_id == fork.execution_id
        for other in ({"reserve": "water"}, {}):
            with pytest.raises(AlreadyStarted, match="forked or started in another way"):
                await original.fork("charge", results=other, key="once")
        with pytest.raises(EncodingError):
            await original.fork("charge", results={"reserve": 7})
        chain = await env.start(forks_chain, "tea")
        await env.finish(chain)
        with pytest.raises(NotForked, match=r"with those results, the code doesn't come to step 'charge'.*'put_back'"):
            await chain.fork("charge", results={"reserve": "milk"})
        with pytest.raises(NotForked, match="with that payload and those results, the code"):
            await chain.fork("charge", "rum", results={"reserve": "milk"})
        with pytest.raises(InvalidInput, match="a mapping of steps to values"):
            await original.fork("charge", results=["reserve"])  # type: ignore[arg-type]
        with pytest.raises(NotForked, match="step 'charge' has no result before step 'charge'"):
            await original.fork("charge", results={"charge": "free"})


async def test_a_failed_fork_runs_again_and_keeps_what_it_took_over() -> None:
    """P12: also if it failed by a step that it took over."""
    async with Environment(ALL) as env:
        World.wrong = True
        original = await env.start(forks_tries, "tea")
        await env.finish(original)
        fork = await original.fork("reserve")
        assert (await env.finish(fork)).outcome == "failed"
        World.wrong = False
        await fork.retry()
        assert (await env.finish(fork)).value() == "tea"
        assert env.ran(fork) == ["reserve"]


async def test_a_step_of_the_fork_waits_since_the_fork() -> None:
    """P12: however long ago the original asked for it."""
    runtime = Runtime(ALL, lambda: SqliteStore(":memory:"), Settings(hold=timedelta(0)), clock := ManualClock())
    original = await runtime.client.start(forks_passes_on, "tea")
    await runtime.worker.drive(await runtime.store.read(original.execution_id))
    clock.advance(timedelta(days=3))
    fork = await original.fork("charge")
    await runtime.worker.drive(await runtime.store.read(fork.execution_id))
    shown = json.loads((await history(runtime, Request(""), fork.execution_id)).body)
    took = {event["step"]: event["durationSeconds"] for event in shown["events"] if event["kind"] == "activity"}
    assert took == {"reserve": 0, "charge": 0}
    await runtime.close()


async def test_the_reason_of_each_fork_is_kept() -> None:
    """P12: in the status, and in the history of its own forks too. With a key the first reason stays. A reason that
    isn't such a text stores nothing."""
    async with Environment(ALL) as env:
        original = await env.start(forks_order, TEA)
        await env.finish(original)
        fork = await original.fork("reserve", key="once", reason="the first")
        assert (await original.fork("reserve", key="once", reason="another")).execution_id == fork.execution_id
        status = await env.finish(fork)
        assert status.forked_from is not None
        assert status.forked_from.reason == "the first"
        second = await fork.fork("charge", reason="the second")
        chunks = (await env.store.inner.load(second.execution_id)).chunks
        forked = [event for chunk in chunks for event in chunk.decoded() if isinstance(event, Forked)]
        assert [event.reason for event in forked] == ["the first", "the second"]
        for wrong in ("", "x" * 1_001, "\ud800", 7):
            with pytest.raises(InvalidInput, match="the reason of a fork"):
                await original.fork("charge", key="wrong", reason=wrong)  # type: ignore[arg-type]
        with pytest.raises(UnknownExecution):
            await env.client.handle(forks_order, key="wrong").status()


async def test_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """P12: 202 with the fork and who asked for it; 400 and 409 with the reason, and nothing is stored."""
    runtime = Runtime(ALL, lambda: SqliteStore(":memory:"), Settings(hold=timedelta(0)))
    monkeypatch.setattr(callers, "current", lambda: Caller("1", "Ada", frozenset({"operator"})))
    started = await http.start(runtime, Request("", b'"tea"', {"wait": "5"}), "forks_passes_on")
    id = json.loads(started.body)["executionId"]

    async def fork(body: str, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        answer = await http.fork(runtime, Request("", body.encode(), {}, headers or {}), id)
        return answer.status, json.loads(answer.body)

    body = '{"from": "charge", "results": {"reserve": "sugar"}, "reason": "no tea"}'
    status, made = await fork(body, {"idempotency-key": "k"})
    assert status == 202
    why = {"by": "Ada (1)", "reason": "no tea"}
    assert made["forkedFrom"] == {"executionId": id, "step": "charge", "results": ["reserve"], **why}
    shown = json.loads((await history(runtime, Request(""), made["executionId"])).body)
    (forked,) = [event for event in shown["events"] if event["kind"] == "forked"]
    assert (forked["original"], forked["by"], forked["reason"]) == (id, *why.values())
    await runtime.worker.drive(await runtime.store.read(made["executionId"]))
    ended = json.loads((await http.poll(runtime, Request(""), made["executionId"])).body)
    assert ended["result"] == "sugar charged"
    wrong = ('{"from": 7}', '{"from": "charge", "results": []}', '{"from": "charge", "step": 1}')
    for body in ("[]", "{}", "{", *wrong):
        assert (await fork(body))[0] == 400, body
    for member in ('"payload": 7', '"reason": 7', '"reason": ""'):
        assert (await fork(f'{{"from": "charge", {member}}}'))[0] == 422, member
    assert (await fork('{"from": "nowhere"}'))[0] == 409
    assert (await fork('{"from": "charge", "payload": "milk"}'))[0] == 409
    assert (await fork('{"from": "charge"}', {"idempotency-key": "k"}))[0] == 409
    listed = json.loads((await http.list_executions(runtime, Request(""))).body)
    assert len(listed["executions"]) == 2
    await runtime.close()
