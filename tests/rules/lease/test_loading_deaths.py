"""Drivers that die, or fail, before they know what is stored: tried a set number of times, and fenced all the same."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine import Deferred, Workflow, activity, workflow
from engine.store.base import Filter
from engine.store.documents import Chunk, Execution
from engine.store.wrapper import Hook
from engine.testing import Call, Environment
from engine.values.events import Event, StepResolved, Takeover
from tests.support.crashes import check_history, echo, ledger
from tests.support.gates import nth
from tests.support.processes import PAST_LEASE, Process
from tests.support.stored import delete, image, overwrite

MAX_CLAIMS = 5
"""What the settings of the tests say."""

loading_answer = Deferred("loading.answer", str)


@workflow
async def loading_three() -> list[str]:
    return [await echo("a"), await echo("b"), await echo("c")]


@workflow
async def loading_waits() -> str:
    return await loading_answer + await echo("b")


class Code:
    """Workflow code that ends its process."""

    kills: Callable[[], object] | None = None

    @classmethod
    def run(cls) -> None:
        if cls.kills is not None:
            cls.kills()


@activity
async def loading_step() -> str:
    ledger.note()
    return "step"


@workflow
async def loading_kills_at_once() -> str:
    Code.run()
    return await loading_step()


@workflow
async def loading_kills_later() -> str:
    step = await loading_step()
    Code.run()
    return step + await loading_answer


Place = Callable[[Process, str], None]
"""Where a process is to die of an execution."""


def _killer(process: Process, id: str, which: Callable[[Call], bool]) -> Callable[[Call], Awaitable[None]]:
    async def hook(call: Call) -> None:
        if which(call):
            _kill(process, id)
            await asyncio.Event().wait()

    return hook


def _kill(process: Process, id: str) -> None:
    driving = process.worker.running(id)
    assert driving is not None
    driving.cancel()


def in_the_load(process: Process, id: str) -> None:
    """What the store answers is too much for the process."""
    process.store.after = _killer(process, id, lambda call: call.method == "load")


def behind_the_seal(process: Process, id: str) -> None:
    """The seal is written; what was loaded kills the process that reads it."""
    process.store.after = _killer(process, id, lambda call: call.method == "append")


def in_the_code(process: Process, id: str) -> None:
    """The workflow's own code does it."""
    Code.kills = lambda: _kill(process, id)


def nowhere(process: Process, id: str) -> None:
    """This one lives."""
    Code.kills = None


async def _drive(env: Environment, id: str, place: Place) -> Process:
    """One more process, past the lease of the one before."""
    env.clock.advance(PAST_LEASE)
    process = Process(env)
    place(process, id)
    await asyncio.wait([await process.drive(id)])
    return process


async def _abandon(env: Environment, id: str) -> None:
    """A driver has recorded the first step, and died."""
    process = Process(env)
    process.store.before = _killer(process, id, nth("append", 1))
    process.store.after = _killer(process, id, nth("append", 0))
    await asyncio.wait([await process.drive(id)])


async def _drive_until_it_rests(env: Environment, id: str, place: Place, limit: int = 40) -> list[Process]:
    processes = []
    for _ in range(limit):
        processes.append(await _drive(env, id, place))
        execution = await env.store.inner.read(id)
        if execution.is_complete or execution.suspended:
            return processes
    raise AssertionError(f"it was still being tried after {limit} processes had died of it")


async def _events(env: Environment, id: str) -> list[Event]:
    return [event for chunk in (await env.store.inner.load(id)).chunks for event in chunk.decoded()]


async def _read(env: Environment, id: str) -> Execution:
    return await env.store.inner.read(id)


@pytest.mark.parametrize("place", [in_the_load, behind_the_seal])
async def test_a_load_that_kills_its_process_is_tried_a_set_number_of_times(place: Place) -> None:
    """F4: then it is suspended by a claim that reads nothing of it, says why, and is found and left alone."""
    async with Environment([loading_three]) as env:
        id = (await env.start(loading_three)).execution_id
        await _abandon(env, id)
        processes = await _drive_until_it_rests(env, id, place)
        assert len(processes) == 2 * MAX_CLAIMS
        assert [call.method for call in processes[-1].store.calls] == ["replace", "commit"]
        execution = await _read(env, id)
        assert execution.cause is not None
        assert execution.cause.type == "Quarantined"
        assert "claimed 10 times in a row" in execution.cause.message
        assert (execution.due_at, execution.is_leased(env.clock.now(), env.settings.skew)) == (None, False)
        listed = await env.client.list(Filter(suspended_with_cause=True))
        assert [e.execution_id for e in listed.executions] == [id]
        before = await image(env, id)
        env.clock.advance(PAST_LEASE * 100)
        assert await env.worker.sweep() == 0
        assert await image(env, id) == before


@pytest.mark.parametrize("place", [in_the_load, behind_the_seal])
async def test_once_it_can_be_loaded_a_resume_brings_it_to_its_end(place: Place) -> None:
    """F4: with all its tries again, whatever seals the dead drivers have left, and no recorded step is run again."""
    async with Environment([loading_three]) as env:
        id = (await env.start(loading_three)).execution_id
        await _abandon(env, id)
        for _ in range(2):
            await _drive_until_it_rests(env, id, place)
            await env.client.resume(id)
        for _ in range(MAX_CLAIMS - 1):
            await _drive(env, id, place)
            assert not (await _read(env, id)).suspended
        await _drive(env, id, nowhere)
        assert (await env.status(id)).value() == ["a", "b", "c"]
        assert ledger.ran == ["echo", "echo#2", "echo#3"]
        await check_history(env, id)


@pytest.mark.parametrize("one", [loading_kills_at_once, loading_kills_later], ids=lambda one: one.name)
async def test_code_that_kills_its_process_is_run_a_set_number_of_times(
    one: Workflow[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """F4: in its first turn, and in the replay of what is recorded."""
    async with Environment([one]) as env:
        id = (await env.start(one)).execution_id
        if one is loading_kills_later:
            await _drive(env, id, nowhere)
            await env.client.resume(id)
        processes = await _drive_until_it_rests(env, id, in_the_code)
        assert len(processes) == MAX_CLAIMS + 1
        execution = await _read(env, id)
        assert execution.cause is not None
        assert execution.cause.type == "Quarantined"
        assert execution.worker is None
        assert "InvalidStateError" not in caplog.text
        await env.client.resume(id)
        await _drive(env, id, nowhere)
        if one is loading_kills_later:
            await env.resolve(id, loading_answer, "!")
            await _drive(env, id, nowhere)
        assert (await env.status(id)).is_complete
        assert ledger.ran == ["loading_step"]
        await check_history(env, id)


async def test_the_count_is_set_back_before_the_next_step_starts() -> None:
    """A driver that finds progress behind too many claims writes so first, also where a signal changes the document
    under its hands."""
    async with Environment([loading_three]) as env:
        id = (await env.start(loading_three)).execution_id
        await _abandon(env, id)
        for _ in range(MAX_CLAIMS):
            await _drive(env, id, in_the_load)
        env.clock.advance(PAST_LEASE)
        process = Process(env)
        process.store.before = _completes(env, id, nth("replace", 1), "news")
        async with process.stopped(id, "after", nth("replace", 2)):
            assert ledger.ran == ["echo"]
            assert (await _read(env, id)).claims == 1
        assert (await env.status(id)).value() == ["a", "b", "c"]


async def test_a_signal_that_comes_as_it_is_quarantined_does_not_load_it() -> None:
    """The exec document changes under the hands of the claim that suspends it: it is read again, nothing else is."""
    async with Environment([loading_waits]) as env:
        id = (await env.start(loading_waits)).execution_id
        await env.drive(id)
        await env.client.resume(id)
        for _ in range(2 * MAX_CLAIMS):
            await _drive(env, id, in_the_load)
        env.clock.advance(PAST_LEASE)
        process = Process(env)
        process.store.before = _completes(env, id, nth("commit", 0), "a")
        await asyncio.wait([await process.drive(id)])
        assert [call.method for call in process.store.calls] == ["replace", "commit", "read", "commit"]
        assert (await _read(env, id)).suspended
        await env.client.resume(id)
        await _drive(env, id, nowhere)
        assert (await env.status(id)).value() == "ab"


# -- the driver before them, which is not dead but frozen --


def _completes(env: Environment, id: str, which: Callable[[Call], bool], value: str) -> Hook:
    """The outside completes the deferred as that call is made."""

    async def hook(call: Call) -> None:
        if which(call):
            await env.resolve(id, loading_answer, value)

    return hook


async def test_a_driver_that_wakes_after_quarantine_and_resume_finds_the_log_sealed() -> None:
    """L7: its append is refused, although the execution was let go in between by one that sealed nothing."""
    async with Environment([loading_three]) as env:
        id = (await env.start(loading_three)).execution_id
        new = Process(env)
        async with contextlib.AsyncExitStack() as going_on, Process(env).stopped(id, "before", nth("append", 1)):
            await _drive_until_it_rests(env, id, in_the_load)
            await env.client.resume(id)
            await going_on.enter_async_context(new.stopped(id, "after", nth("append", 0)))
        assert (await env.status(id)).value() == ["a", "b", "c"]
        assert isinstance((await _events(env, id))[1], Takeover)
        assert ledger.ran == ["echo", "echo#2", "echo#2", "echo#3"]
        await check_history(env, id)


async def test_what_a_driver_records_while_it_is_quarantined_is_kept() -> None:
    """L7: nobody drives meanwhile: the step counts, and the next driver doesn't run it again."""
    async with Environment([loading_three]) as env:
        id = (await env.start(loading_three)).execution_id
        async with Process(env).stopped(id, "before", nth("append", 1)):
            await _drive_until_it_rests(env, id, in_the_load)
        assert (await _read(env, id)).suspended
        await env.client.resume(id)
        await _drive(env, id, nowhere)
        assert (await env.status(id)).value() == ["a", "b", "c"]
        resolved = [event.step for event in await _events(env, id) if isinstance(event, StepResolved)]
        assert resolved == ["echo", "echo#2", "echo#3"]
        assert ledger.ran.count("echo#2") == 1
        await check_history(env, id)


CHUNK = "history::00000000"


@pytest.mark.parametrize(("gone", "cause"), [(True, "MissingDocument"), (False, "DecodingError")])
async def test_a_fault_before_the_seal_leaves_the_sealing_to_the_next_claim(gone: bool, cause: str) -> None:
    """L6, L7: suspended because its documents are gone or broken, mended and resumed, with the old driver frozen."""
    async with Environment([loading_three]) as env:
        id = (await env.start(loading_three)).execution_id
        new = Process(env)
        async with contextlib.AsyncExitStack() as going_on, Process(env).stopped(id, "before", nth("append", 1)):
            [body] = [body for name, body, *_ in await image(env, id) if name == CHUNK]
            env.clock.advance(PAST_LEASE)
            if gone:
                execution = await _read(env, id)
                await env.store.inner.replace(execution.model_copy(update={"history_length": 1}))
                await delete(env, id, CHUNK)
            else:
                await overwrite(env, id, CHUNK, '{"id": "history::00000000"}')
            other = Process(env)
            driven = await other.drive(id)
            while not driven.done():
                await asyncio.sleep(0)
                env.clock.advance(PAST_LEASE / 1000)  # it pauses between its reads
            suspended = await _read(env, id)
            assert suspended.cause is not None
            assert suspended.cause.type == cause
            assert other.store.count("append") == 0
            if gone:
                await env.store.inner.append(Chunk.from_document(json.loads(body)))
            else:
                await overwrite(env, id, CHUNK, body)
            await env.client.resume(id)
            await going_on.enter_async_context(new.stopped(id, "before", nth("append", 1)))
        assert (await env.status(id)).value() == ["a", "b", "c"]
        assert isinstance((await _events(env, id))[1], Takeover)
        await check_history(env, id)
