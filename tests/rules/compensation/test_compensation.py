"""Compensations and finalizers: newest first, once each, whatever fails, interrupts or crashes meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from engine import Deferred, Failure, Outcome, Workflow, activity, compensate, finalizer, workflow
from engine.store.wrapper import Call
from engine.testing import Environment
from tests.support.mortal import Mortal, assert_at_rest, assert_replays, do, everywhere, journal, mortal, rest

pytestmark = pytest.mark.usefixtures("every_store")
SLOW = pytest.mark.sqlite_only("each store call would be a request")

answer = Deferred("compensation.answer", str)
pause = Deferred("compensation.pause", str)


class Declined(Failure):
    code: str


@activity
async def undo(what: str) -> None:
    journal.note(f"undo {what}")


@activity
async def cannot(what: str) -> None:
    journal.note(f"cannot {what}")
    raise ValueError(f"{what} can't be undone")


@activity
async def shouts() -> None:
    raise ValueError("x" * 8_000)


async def tell(outcome: Outcome) -> None:
    await do(f"end {outcome.kind}")


async def book_three() -> None:
    for name in ("a", "b", "c"):
        await do(name)
        compensate(undo, name)
    finalizer(tell)


@workflow
async def books(decides: str) -> str:
    await book_three()
    if decides == "fail":
        raise Declined(code="no")
    return await answer if decides == "wait" else "done"


@workflow(time_limit=timedelta(hours=1))
async def is_limited() -> str:
    await book_three()
    return await answer


@workflow
async def one_cannot() -> None:
    compensate(undo, "first")
    compensate(cannot, "middle")
    compensate(undo, "last")
    finalizer(tell)
    raise Declined(code="no")


@workflow
async def cancels_in_compensation() -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        await task

    async def exits() -> None:
        raise SystemExit(3)

    compensate(undo, "first")
    compensate(cancelled)
    compensate(exits)
    raise Declined(code="no")


@workflow
async def reads_the_cause(how: str) -> str:
    async def look() -> None:
        await do(repr(workflow.cause()))

    async def last(_: Outcome) -> None:
        await look()

    compensate(look)
    finalizer(last)
    if how == "fail":
        raise Declined(code="no")
    return await answer if how == "wait" else "done"


@workflow
async def pauses_in_compensation() -> None:
    async def slowly() -> None:
        await do(f"paused {await pause}")
        await asyncio.sleep(3_600)

    compensate(undo, "first")
    compensate(slowly)
    finalizer(tell)
    raise Declined(code="no")


@workflow
async def pauses_in_finalizer() -> str:
    async def slowly(outcome: Outcome) -> None:
        await do(f"{outcome.kind} {await pause}")

    compensate(undo, "a")
    compensate(undo, "b")
    finalizer(slowly)
    finalizer(tell)
    return "done"


@workflow
async def adds_in_compensation() -> None:
    async def more() -> None:
        compensate(undo, "the inner")
        await do("outer")

    compensate(undo, "first")
    compensate(more)
    raise Declined(code="no")


@workflow
async def many_shout(count: int) -> None:
    for _ in range(count):
        compensate(shouts)
    raise Declined(code="no")


@workflow
async def registers_sync_functions() -> None:
    def forget(what: str) -> str:
        return what

    finalizer(lambda outcome: forget(outcome.kind))  # type: ignore[arg-type, return-value]
    compensate(forget, "a")  # type: ignore[arg-type]
    compensate(undo, "first")
    raise Declined(code="no")


@workflow
async def misuses(how: str) -> str:
    try:
        if how == "call":
            called = undo("a")
            try:
                compensate(called)  # type: ignore[arg-type]
            finally:
                called.close()
        else:
            finalizer("a")  # type: ignore[arg-type]
    except TypeError as error:
        return str(error)
    return ""


@workflow
async def undoes_badly() -> None:
    compensate(undo)  # type: ignore[call-arg]
    compensate(undo, "first")
    raise Declined(code="no")


ALL: list[Workflow[Any, Any]] = [item for item in list(globals().values()) if isinstance(item, Workflow)]
UNDONE = ["undo c", "undo b", "undo a"]


@SLOW
@pytest.mark.parametrize("how", ["fail", "interrupt", "time limit", "success"])
async def test_newest_first_once_each_at_every_crash(how: str) -> None:
    """On failure, interrupt and time limit, never on success; then the finalizer, with the outcome."""
    kind = {"fail": "failed", "interrupt": "interrupted", "time limit": "failed", "success": "completed"}[how]

    async def scenario(env: Environment) -> None:
        payload = {"fail": "fail", "interrupt": "wait", "success": "return"}.get(how)
        id = (
            (await env.start(books, payload, key="k")).execution_id
            if payload
            else (await env.start(is_limited, key="k")).execution_id
        )
        if how == "interrupt":
            await rest(env)
            assert not any(effect.startswith("end") for effect in journal.effects)
            await env.client.interrupt(id)
        status = await env.finish(id)
        assert status.outcome == kind
        assert status.error is None or status.error.type == ("TimeoutError" if how == "time limit" else "Declined")
        undone = [] if how == "success" else UNDONE
        assert list(dict.fromkeys(journal.effects)) == ["a", "b", "c", *undone, f"end {kind}"]
        worker: object = env.worker
        never_died = not isinstance(worker, Mortal) or worker.died_at is None
        assert len(journal.effects) <= 4 + len(undone) + (0 if never_died else 1)
        await assert_at_rest(env)

    await everywhere(ALL, scenario)


async def test_one_that_fails_is_recorded_and_the_rest_still_run() -> None:
    """The status shows it beside the workflow's own failure, which stays what it was; at every crash."""

    async def scenario(env: Environment) -> None:
        status = await env.run(one_cannot, key="k")
        assert status.error is not None
        assert status.error.type == "Declined"
        (failed,) = status.compensation_errors
        assert (failed.type, failed.message) == ("ValueError", "middle can't be undone")
        assert list(dict.fromkeys(journal.effects)) == ["undo last", "cannot middle", "undo first", "end failed"]

    await everywhere(ALL, scenario)


async def test_one_that_is_cancelled_or_exits_does_not_stop_the_rest() -> None:
    """CancelledError and SystemExit of a compensation are failures of it like any other."""
    async with mortal(ALL) as env:
        status = await env.run(cancels_in_compensation)
        assert [e.type for e in status.compensation_errors] == ["SystemExit", "CancelledError"]
        assert journal.effects == ["undo first"]
        await assert_replays(env)


async def test_wrong_arguments_of_one_do_not_stop_the_rest() -> None:
    """What can't be called fails when it is called, and is recorded."""
    async with mortal(ALL) as env:
        status = await env.run(undoes_badly)
        assert [e.type for e in status.compensation_errors] == ["TypeError"]
        assert journal.effects == ["undo first"]


@pytest.mark.parametrize(("how", "cause"), [("fail", "Declined"), ("wait", "CancelledError"), ("return", "None")])
async def test_the_cause_can_be_read(how: str, cause: str) -> None:
    """The failure itself, CancelledError of an interrupt, None when it ended well."""
    async with mortal(ALL) as env:
        id = await env.start(reads_the_cause, how)
        await env.settle()
        await env.client.interrupt(id)
        await env.finish(id)
        assert len(journal.effects) == (1 if how == "return" else 2)
        assert all(effect.startswith(cause) for effect in journal.effects)
        await assert_replays(env)


@SLOW
@pytest.mark.parametrize("twice", [False, True])
async def test_an_interrupt_during_compensation_changes_only_the_outcome(twice: bool) -> None:
    """E7: accepted, so it ends as interrupted; each compensation still runs once; a second interrupt is harmless."""

    async def scenario(env: Environment) -> None:
        id = await env.start(pauses_in_compensation, key="k")
        await rest(env)
        for _ in range(1 + twice):
            assert (await env.client.interrupt(id)).interrupted
            await rest(env)
        await env.resolve(id, pause, "here")
        status = await env.finish(id)
        assert status.outcome == "interrupted"
        assert status.error is not None
        assert status.error.type == "Declined"
        assert list(dict.fromkeys(journal.effects)) == ["paused here", "undo first", "end interrupted"]

    await everywhere(ALL, scenario)


async def interrupt_at_commit(env: Environment, id: str) -> None:
    """Accept an interrupt just before the first completion is written."""
    hit: list[Call] = []

    async def before(call: Call) -> None:
        if call.method == "commit" and call.arguments[0].is_complete and not hit:
            hit.append(call)
            assert (await env.store.inner.interrupt(id, env.clock.now())).interrupted

    env.store.before = before


async def test_an_interrupt_between_the_last_line_and_the_commit_is_honoured() -> None:
    """E7, O5: the body has ended well, the completion isn't written: compensations run, the outcome is interrupted, the
    finalizer is told so too, and the cause is a CancelledError."""
    async with Environment(ALL) as env:
        id = (await env.start(books, "return")).execution_id
        await interrupt_at_commit(env, id)
        assert (await env.finish(id)).outcome == "interrupted"
        assert journal.effects == ["a", "b", "c", "end completed", *UNDONE, "end interrupted"]
        await assert_replays(env)
    async with Environment(ALL) as env:
        journal.clear()
        id = (await env.start(reads_the_cause, "return")).execution_id
        await interrupt_at_commit(env, id)
        assert (await env.finish(id)).outcome == "interrupted"
        assert journal.effects[0] == "None"
        assert journal.effects[1].startswith("CancelledError")


@SLOW
async def test_an_interrupt_during_a_finalizer_still_compensates() -> None:
    """E7, O5: it arrives while the finalizer of a success waits: what was done is undone, and finalizers are told the
    outcome that is recorded, those that were told another one as well."""

    async def scenario(env: Environment) -> None:
        id = await env.start(pauses_in_finalizer, key="k")
        await rest(env)
        await env.client.interrupt(id)
        await rest(env)
        await env.resolve(id, pause, "here")
        assert (await env.finish(id)).outcome == "interrupted"
        expected = ["completed here", "undo b", "undo a", "interrupted here", "end interrupted"]
        assert list(dict.fromkeys(journal.effects)) == expected
        await assert_at_rest(env)

    await everywhere(ALL, scenario)


@SLOW
async def test_terminate_during_compensation_stops_at_once() -> None:
    """What has not run yet never does, and the second terminate is the same answer."""
    async with mortal(ALL) as env:
        id = await env.start(pauses_in_compensation)
        await env.settle()
        for _ in range(2):
            assert (await env.client.terminate(id)).outcome == "terminated"
        await env.settle()
        assert journal.effects == []


async def test_a_compensation_may_register_another() -> None:
    """It is the newest then, and runs next."""
    async with mortal(ALL) as env:
        await env.run(adds_in_compensation)
        assert journal.effects == ["outer", "undo the inner", "undo first"]


@SLOW
async def test_any_number_of_failures_fits_into_the_document() -> None:
    """300 compensations that fail with 8 KB each: the execution ends, and shows what there is room for."""
    async with Environment(ALL) as env:
        status = await env.run(many_shout, 300)
        assert status.outcome == "failed"
        assert len(status.compensation_errors) >= 100
        assert status.compensation_errors[0].message == "x" * 8_000
        assert status.compensation_errors[-1].type == "ValueError"


@pytest.mark.sqlite_only("nothing of it depends on the store")
@pytest.mark.parametrize(("how", "words"), [("call", "a function and its arguments"), ("text", "an async function")])
async def test_misuse_is_an_error_at_the_call(how: str, words: str) -> None:
    """A coroutine instead of a function, a text instead of a finalizer: TypeError that says what it takes."""
    async with Environment(ALL) as env:
        assert words in (await env.run(misuses, how)).value()


async def test_what_gives_nothing_to_await_is_named() -> None:
    """A plain function that is no activity: it is recorded which one, and what to pass instead; the others run."""
    async with mortal(ALL) as env:
        status = await env.run(registers_sync_functions)
        assert [error.message for error in status.compensation_errors] == [
            "compensate(forget, …) takes an activity or an async function; this one gave a str",
            "finalizer(<lambda>) takes an activity or an async function; this one gave a str",
        ]
        assert journal.effects == ["undo first"]


@pytest.mark.parametrize("word", [lambda: compensate(undo, "a"), lambda: finalizer(tell), workflow.cause])
def test_outside_of_a_workflow_there_is_nothing_to_register_with(word: Callable[[], Awaitable[Any]]) -> None:
    """RuntimeError that says where it belongs."""
    with pytest.raises(RuntimeError, match="code of a workflow"):
        word()
