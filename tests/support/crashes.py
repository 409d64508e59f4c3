"""A crash at every place: runs a scenario again and again, each time with the process dying at another store call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from engine import Activity, Workflow, activity
from engine.boundary.status import Status
from engine.testing import Call, Environment
from engine.values.events import StepResolved


class Crash(BaseException):
    """The process ends here. No code of the engine handles it."""


@dataclass
class Ledger:
    """Which steps really ran, in order."""

    ran: list[str] = field(default_factory=list)

    def note(self) -> None:
        self.ran.append(activity.info().step)


ledger = Ledger()

Script = Callable[[Environment, str], Awaitable[None]]
"""What the outside does, once the execution has settled. It may be called again after a crash."""


async def nothing(_: Environment, __: str) -> None:
    return None


@dataclass(frozen=True)
class Ended:
    """How a run ended, and the steps that ran in it."""

    status: Status
    ran: list[str]
    calls: int


async def uncrashed(workflow: Workflow[Any, Any], payload: Any = None, script: Script = nothing) -> Ended:
    """Run a scenario without any fault."""
    return await _run(workflow, payload, script, None, after=False)


async def crash_everywhere(workflow: Workflow[Any, Any], payload: Any = None, script: Script = nothing) -> Ended:
    """Run it uncrashed, then once for each store call and both sides of its effect with a crash there. Asserts that
    each run comes to the same end, and that no step whose result was recorded runs again."""
    ended = await uncrashed(workflow, payload, script)
    for after in (False, True):
        for number in range(ended.calls):
            crashed = await _run(workflow, payload, script, number, after)
            where = f"crash {'after' if after else 'before'} store call {number}"
            assert outcome(crashed.status) == outcome(ended.status), where
    return ended


def outcome(status: Status) -> tuple[Any, ...]:
    """What must be the same after a crash."""
    error = status.error
    return status.outcome, status.result, (error.type, error.message) if error else None


async def _run(workflow: Workflow[Any, Any], payload: Any, script: Script, crash_at: int | None, after: bool) -> Ended:
    ledger.ran.clear()
    async with Environment([workflow]) as env:
        id = await env.start(workflow, payload, key="the one")
        env.store.calls.clear()

        async def die(call: Call) -> None:
            if call.number == crash_at:
                raise Crash

        if after:
            env.store.after = die
        else:
            env.store.before = die
        for _ in range(3):
            try:
                await env.settle()
                await script(env, id)
                await env.finish(id)
                break
            except Crash:
                env.worker = env.new_worker()
                recorded, ran = await _recorded(env, id), len(ledger.ran)
        if crash_at is not None and "recorded" in locals():
            again = [step for step in ledger.ran[ran:] if step in recorded]
            assert not again, f"recorded steps ran again: {again}"
        status = await env.status(id)
        assert status.is_complete, f"it never ended: {status}"
        assert (await env.store.inner.read(id)).worker is None
        await check_history(env, id)
        return Ended(status, list(ledger.ran), len(env.store.calls))


async def _recorded(env: Environment, id: str) -> set[str]:
    loaded = await env.store.inner.load(id)
    events = [event for chunk in loaded.chunks for event in chunk.decoded()]
    return {event.step for event in events if isinstance(event, StepResolved) and event.kind == "activity"}


async def check_history(env: Environment, id: str) -> None:
    """One gapless sequence, in which no step ends twice."""
    loaded = await env.store.inner.load(id)
    assert [chunk.number for chunk in loaded.chunks] == list(range(len(loaded.chunks)))
    events = [event for chunk in loaded.chunks for event in chunk.decoded()]
    ended = [(event.kind, event.step) for event in events if isinstance(event, StepResolved)]
    assert len(ended) == len(set(ended)), f"a step ended twice: {ended}"


@activity
async def echo(value: str) -> str:
    """A step that gives back what it was given."""
    ledger.note()
    return value


@activity
async def fail(value: str) -> str:
    """A step that always fails."""
    ledger.note()
    raise ValueError(value)


STEPS: list[Activity[Any, Any]] = [echo, fail]
