"""One execution, run whole and then with the process dying at every store call; and its history, replayed on its own.

    whole = await survives_crashes(Scenario(workflow, signals=[completes(approval, "yes")]))

A dead process does nothing more: the store call that it died in never answers, and none after it is heard. Only the
worker dies; whoever sends signals lives on, and sends each of them once the execution has come to rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest import mock

from engine import Deferred, Workflow
from engine.boundary.status import Status
from engine.core.run import Run
from engine.store.documents import Chunk, Document, Execution
from engine.store.wrapper import Call
from engine.testing import Environment
from engine.values.events import AttemptFailed, Event, StepResolved, Takeover
from tests.support.mortal import Death, dying_store
from tests.support.steps import journal

Signal = Callable[[Environment, str], Awaitable[None]]
Asked = list[list[tuple[str, str, str]]]
"""Steps (kind, id, digest) asked for at the beginning, and after each event."""


@dataclass(frozen=True)
class Scenario:
    """A workflow and what the outside does to it. `ordered`: the order of its events doesn't depend on chance, so a
    crash may not change it."""

    workflow: Workflow[Any, Any]
    payload: Any = None
    signals: Sequence[Signal] = ()
    ordered: bool = True


@dataclass(frozen=True)
class Witness:
    """How an execution went. `events` leaves out what says only which worker drove."""

    scenario: Scenario
    execution: Execution
    status: Status
    events: list[Event]
    ran: list[str]
    deaths: list[Death]
    calls: list[Call] = field(repr=False)

    @property
    def value(self) -> Any:
        """Its result, as plain JSON data."""
        return self.status.value()

    @property
    def end(self) -> tuple[Any, ...]:
        """What must be the same after a crash."""
        error = self.status.error
        return self.status.outcome, self.status.result, (error.type, error.message) if error else None

    @property
    def order(self) -> list[tuple[Any, ...]]:
        """What happened, in the order in which the workflow saw it, but for the times."""
        return [_what(event) for event in self.events]


def completes(deferred: Deferred[Any], value: Any) -> Signal:
    """The outside completes a deferred."""

    async def signal(env: Environment, id: str) -> None:
        await env.resolve(id, deferred, value)

    return signal


async def interrupts(env: Environment, id: str) -> None:
    """The outside interrupts the execution."""
    await env.client.interrupt(id)


async def play(scenario: Scenario, deaths: Sequence[Death] = ()) -> Witness:
    """Run a scenario to its end; its first processes die, one after the other. Asserts what must hold of any run."""
    journal.reset()
    async with Environment([scenario.workflow]) as env:
        with mock.patch("engine.boundary.requests.new_run_id", return_value="the-run"):  # it seeds chance
            id = (await env.start(scenario.workflow, scenario.payload, key="the scenario")).execution_id
        signals = list(scenario.signals)
        recorded: list[Document] = []
        died: list[Death] = []
        calls: list[Call] = []
        for death in [*deaths, None]:
            store, dead = dying_store(env.store.inner, death, _record)
            env.worker = env.new_worker(store)
            living, dying = asyncio.create_task(_live(env, id, signals)), asyncio.create_task(dead.wait())
            await asyncio.wait([living, dying], return_when=asyncio.FIRST_COMPLETED)
            calls += store.calls
            history = await _history(env, id)
            assert history[: len(recorded)] == recorded, "a recorded event was changed"
            recorded = history
            living.cancel() if dead.is_set() else dying.cancel()
            await asyncio.wait([living, dying])
            if not dead.is_set():
                living.result()
                break
            assert death is not None
            died.append(death)
            await env.worker.close(timedelta(0))
            env.clock.advance(env.settings.lease + env.settings.skew + timedelta(milliseconds=1))
        assert [document["id"] for document in recorded] == [f"history::{n:08d}" for n in range(len(recorded))]
        assert not journal.repeated, f"recorded steps ran again: {journal.repeated}"
        status = await env.status(id)
        assert status.is_complete, f"it never ended: {status}"
        assert (await env.store.inner.read(id)).worker is None
        events = [event for document in recorded for event in Chunk.from_document(document).decoded()]
        seen = [event for event in events if not isinstance(event, Takeover)]
        return Witness(scenario, await env.store.inner.read(id), status, seen, list(journal.ran), died, calls)  # type: ignore[arg-type]


async def survives_crashes(scenario: Scenario) -> Witness:
    """Run a scenario whole, then with a death before and after the effect of each store call. Asserts that each comes
    to the same end by the same order of events, and asks for the same steps when replayed. Returns the whole run."""
    whole = await play(scenario)
    assert whole.calls, "nothing was driven"
    asked = await replays_alike(whole)
    for call in whole.calls:
        # A read has no effect: dying after it is dying before the next call.
        for moment in ("before",) if call.method in ("read", "load") else ("before", "after"):
            crashed = await play(scenario, [(call.number, moment)])  # type: ignore[list-item]
            where = f"death {moment} store call {call.number}, {call.method}"
            assert crashed.deaths == [(call.number, moment)], f"it never came to the {where}"
            assert crashed.end == whole.end, where
            if scenario.ordered:
                assert crashed.order == whole.order, where
                assert await asks(crashed) == asked, where
            else:
                await replays_alike(crashed)
    return whole


async def replays_alike(witness: Witness) -> Asked:
    """Asserts that the code comes to the recorded end by the history alone, and asks for the same when it is evicted
    after every event. Returns what it asks for."""
    asked = await asks(witness)
    assert await asks(witness, evict=True) == asked
    return asked


async def asks(witness: Witness, evict: bool = False) -> Asked:
    """What the code asks for when the history alone is given to it. `evict`: it is dropped after every event, and
    brought there again from nothing. Asserts that it comes to the recorded end."""
    return await asyncio.to_thread(_asks, witness, evict)


def _asks(witness: Witness, evict: bool) -> Asked:
    run = _begun(witness)
    asked, seen = [_newly_asked(run, set())], {step.key for step in run.open_steps()}
    for number, event in enumerate(witness.events):
        if evict:
            run.close()
            run = _begun(witness)
            for past in witness.events[:number]:
                run.apply(past)
        run.apply(event)
        asked.append(_newly_asked(run, seen))
        seen |= {step.key for step in run.open_steps()}
    execution = witness.execution
    assert run.outcome is not None
    assert (run.outcome.kind, run.outcome.value) == (execution.outcome, execution.completed_result)
    run.close()
    return asked


def _begun(witness: Witness) -> Run:
    execution = witness.execution
    run = Run(
        witness.scenario.workflow,
        execution.execution_id,
        execution.payload or "null",
        execution.created_at,
        run=execution.run_id,
        flags=execution.logic_flags,
    )
    run.begin()
    return run


def _record(chunk: Chunk) -> None:
    journal.record(event.step for event in chunk.decoded() if isinstance(event, StepResolved))


def _newly_asked(run: Run, seen: set[Any]) -> list[tuple[str, str, str]]:
    return [(step.kind, step.id, step.digest) for step in run.open_steps() if step.key not in seen]


def _what(event: Event) -> tuple[Any, ...]:
    match event:
        case StepResolved(step=step, digest=digest, value=value, error=error):
            return event.kind, step, digest, value, error and error.message
        case AttemptFailed(step=step, digest=digest, attempt=attempt):
            return event.kind, step, digest, attempt
        case _:
            return (event.kind,)


async def _live(env: Environment, id: str, signals: list[Signal]) -> None:
    await env.settle()
    while signals:
        await signals.pop(0)(env, id)
        await env.settle()
    await env.finish(id)


async def _history(env: Environment, id: str) -> list[Document]:
    return [chunk.to_document() for chunk in (await env.store.inner.load(id)).chunks]
