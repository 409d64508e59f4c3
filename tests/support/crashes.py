"""What tests of drivers and stores share: which steps ran, and that a history is whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine import activity
from engine.testing import Environment
from engine.values.events import StepResolved


@dataclass
class Ledger:
    """Which steps really ran, in order."""

    ran: list[str] = field(default_factory=list)

    def note(self) -> None:
        self.ran.append(activity.info().step)


ledger = Ledger()


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
