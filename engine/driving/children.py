"""The children of one execution while it is driven. Writes to the children's partitions run as tasks beside the
driver's flow of control.

1. A dropped child is interrupted only after the event that dropped it is recorded, and after the child has been
   created. Otherwise a driver that takes over could find the child's end without the event that caused it.
2. An earlier driver that stands still may be about to create a child that this driver has not begun. So such a child is
   dropped as well, unless this driver is the first.
3. A child isn't interrupted if another step still waits for it, or if a step asked for it as an abandoned child. A
   driver that takes over goes through all dropped children again, and compares them with all that the code asked for.
4. An error is kept in `error`, and the driver raises it. A child that no app runs counts as an error: its parent would
   otherwise wait for ever, and nothing would say why.
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
    """The children of the execution that `claim` holds. The exit of a child that had already ended goes into `exits`.
    `changed` is set when a child has been begun or dropped, and on an error."""

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
        """By step, the exits of children that had already ended when this driver wanted to begin them. The driver reads
        them."""
        self._changed = changed
        self._asked_for: set[str] = set()
        """Steps for which this driver has begun to create a child."""
        self._waiting: dict[str, ChildStep] = {}
        self._crossing: dict[str, asyncio.Task[None]] = {}
        self._begun: deque[ChildStep] = deque()
        self._dropped: list[tuple[ChildStep, bool]] = []
        """The steps that were dropped, each with whether its child is to be interrupted."""

    @property
    def are_crossing(self) -> bool:
        """Whether any child is being begun or dropped, or waits to be dropped."""
        return bool(self._crossing or self._dropped)

    @property
    def are_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self._waiting or self._dropped or self._crossing or self._begun)

    def add(self, step: ChildStep) -> None:
        """Note a child to begin."""
        self._waiting[step.id] = step

    def begin(self, open: Mapping[str, ChildStep]) -> None:
        """Begin the children that were added and that the code still waits for."""
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
        """The next child that has begun and that its parent waits for, or None."""
        return self._begun.popleft() if self._begun else None

    def drop(self, step: ChildStep, open: Mapping[str, ChildStep], outlives: bool) -> None:
        """Note that the workflow gave up a child that has not ended. The parent's wait is then taken back. The child is
        interrupted, unless another step waits for it or it `outlives` its parent."""
        self._waiting.pop(step.id, None)
        if self._is_first and step.id not in self._asked_for:
            return
        is_waited_for = any(other.execution_id == step.execution_id for other in open.values())
        interrupts = not outlives and not is_waited_for
        if interrupts or step.waits:
            self._dropped.append((step, interrupts))

    def interrupt_dropped(self) -> None:
        """Take back the waits of dropped children and interrupt these children, now that the events that dropped them
        are recorded."""
        for step, interrupts in self._dropped:
            drop = self._drop(step, interrupts, self._crossing.get(step.id))
            self._crossing[f"{step.id} dropped"] = asyncio.create_task(drop)
        self._dropped.clear()

    def cancel(self) -> None:
        """Stop. The next driver begins and interrupts children again where that is needed."""
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
