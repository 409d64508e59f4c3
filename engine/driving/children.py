"""The children of one execution while it is driven: what has to cross to their partitions, as tasks beside the driver's
flow of control.

1. A child that is dropped is interrupted once the event that dropped it is recorded, and it has been created. Its end
   would else be there before its cause, for a driver that takes over.
2. A child that this driver has not begun may be under way from one before it that stands still: it is dropped as well,
   unless there was none before it.
3. A child that another step still waits for isn't interrupted, nor one that a step asked for to live on: whoever takes
   over goes through all that was dropped again, in the light of all that was asked for.
4. What fails is kept in `error`, for the driver to raise. So is a child that no app runs: its parent would wait for
   ever without a word.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

from engine.core.steps import ChildStep
from engine.driving.child_requests import begin_child, drop_child
from engine.driving.claim import Claim
from engine.driving.resources import Resources
from engine.ground.errors import NotRegistered
from engine.store.documents import InboxItem


class Children:
    """The children of the execution that `claim` holds. The exit of a child that has ended already goes into `exits`.
    `changed` is set when something has crossed."""

    def __init__(
        self,
        resources: Resources,
        claim: Claim,
        changed: asyncio.Event,
    ) -> None:
        self.error: Exception | None = None
        self._resources = resources
        self._parent = claim.execution
        self._is_first = claim.is_fresh
        self.exits: dict[str, InboxItem] = {}
        """How children had ended that this driver wanted to begin, by step. For the driver to read."""
        self._changed = changed
        self._asked_for: set[str] = set()
        """Steps for which this driver has begun to create a child."""
        self._waiting: dict[str, ChildStep] = {}
        self._crossing: dict[str, asyncio.Task[None]] = {}
        self._begun: deque[ChildStep] = deque()
        self._dropped: list[tuple[ChildStep, bool]] = []
        """Each with whether it is to be interrupted."""

    @property
    def are_crossing(self) -> bool:
        """Whether any is being begun or interrupted, or is to be interrupted."""
        return bool(self._crossing or self._dropped)

    @property
    def are_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self._waiting or self._dropped or self._crossing or self._begun)

    def add(self, step: ChildStep) -> None:
        """A child that is to be begun."""
        self._waiting[step.id] = step

    def begin(self, open: Mapping[str, ChildStep]) -> None:
        """Begin those that wait and are still open."""
        for step in self._waiting.values():
            if open.get(step.id) is not step:
                continue
            if not self._resources.registry.knows(step.workflow.name, step.workflow.version):
                self.error = _not_registered(step)
                self._changed.set()
            else:
                self._asked_for.add(step.id)
                self._crossing[step.id] = asyncio.create_task(self._begin(step))
        self._waiting.clear()

    def next_begun(self) -> ChildStep | None:
        """One that has begun and is waited for."""
        return self._begun.popleft() if self._begun else None

    def drop(self, step: ChildStep, open: Mapping[str, ChildStep], outlives: bool) -> None:
        """A child that the workflow gave up and that has not ended. The wait for it is to be taken back. It is to be
        interrupted, unless another step waits for it or it `outlives` its parent."""
        self._waiting.pop(step.id, None)
        if self._is_first and step.id not in self._asked_for:
            return
        is_waited_for = any(other.execution_id == step.execution_id for other in open.values())
        interrupts = not outlives and not is_waited_for
        if interrupts or step.waits:
            self._dropped.append((step, interrupts))

    def interrupt_dropped(self) -> None:
        """Interrupt those that were dropped, now that the events that dropped them are recorded."""
        for step, interrupts in self._dropped:
            drop = self._drop(step, interrupts, self._crossing.get(step.id))
            self._crossing[f"{step.id} dropped"] = asyncio.create_task(drop)
        self._dropped.clear()

    def cancel(self) -> None:
        """Stop. Whoever drives next begins and interrupts again what has to be."""
        for task in self._crossing.values():
            task.cancel()

    async def _begin(self, step: ChildStep) -> None:
        resources = self._resources
        try:
            item = await begin_child(resources.store, resources.clock, resources.settings, self._parent, step)
        except Exception as error:  # noqa: BLE001 - the driver raises it
            self.error = error
        else:
            if item is not None:
                self.exits[step.id] = item
            elif step.waits:
                self._begun.append(step)
        finally:
            self._crossing.pop(step.id, None)
            self._changed.set()

    async def _drop(self, step: ChildStep, interrupts: bool, begin: asyncio.Task[None] | None) -> None:
        resources = self._resources
        try:
            if begin is not None:
                await asyncio.wait([begin])
            await drop_child(resources.store, resources.clock, resources.settings, self._parent, step, interrupts)
        except Exception as error:  # noqa: BLE001 - the driver raises it
            self.error = error
        finally:
            self._crossing.pop(f"{step.id} dropped", None)
            self._changed.set()


def _not_registered(step: ChildStep) -> NotRegistered:
    child = step.workflow
    return NotRegistered(
        f"step {step.id} starts workflow {child.name!r} version {child.version!r} ({child.place}), which isn't in the "
        "list of workflows, so nobody would run it: add it to WORKFLOWS, or give it to declares= if another app on the "
        "same store runs it; then deploy, and resume this execution"
    )
