"""One execution's code in memory. Events go in; open steps and the outcome come out.

Rules:
1. A run uses no I/O, no clock and no store. All randomness is seeded by the execution.
2. Events are applied one at a time. After each event, the loop runs until it is idle. Live runs and replays do the
   same.
3. An event must resolve a step that the code waits for now, with the same digest. Otherwise the code has changed, and
   the run raises NonDeterminism. The engine never guesses.
4. The code sees only values that were decoded from their stored text, live and in replay.
5. A Fault of the deployment ends the run without an outcome. Only the end of the workflow makes an outcome.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from engine.core.commands import Command
from engine.core.context import Context
from engine.core.declarations import Workflow
from engine.core.displayed import Displayed
from engine.core.identities import Identities, Identity
from engine.core.leftovers import leftovers
from engine.core.patches import Patches
from engine.core.step_table import answer, settle
from engine.core.steps import (
    ActivityStep,
    ChannelStep,
    ChildStep,
    DeferredStep,
    LogLine,
    Step,
    TimerStep,
)
from engine.ground.clock import FAR_FUTURE
from engine.ground.errors import NonDeterminism, UnknownLogic
from engine.values.error_records import ErrorClasses
from engine.values.events import (
    AttemptFailed,
    Begun,
    Event,
    Forked,
    Interrupted,
    Patched,
    StepHeld,
    StepKind,
    StepResolved,
)
from engine.values.logic_flags import LogicFlag, unknown
from engine.values.outcome import Outcome


class Run:
    """A workflow's code, run up to its last event.

    payload: the payload as JSON text.
    started_at: the time that the code sees at its beginning.
    ancestors: the executions that started this one, directly or through others.
    run: tells this run from a purged one with the same execution id, so that the two have different children.
    flags: the logic flags that the execution carries.
    history: the events that the replay will apply first.
    has_begun: whether an earlier driver has let go of this run.
    raises: exception classes that come back as themselves from children, and that this run's end records whole.
    tags: the tags that the execution has so far.
    """

    def __init__(
        self,
        workflow: Workflow[Any, Any],
        execution_id: str,
        payload: str,
        started_at: datetime,
        ancestors: tuple[str, ...] = (),
        run: str | None = None,
        flags: Sequence[str] = (),
        history: Sequence[Event] = (),
        has_begun: bool = False,
        raises: ErrorClasses = (),
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.workflow = workflow
        self.execution_id = execution_id
        self.patches = Patches(history, has_begun)
        self.displayed = Displayed(tags)
        """What the code shows of itself to people."""
        identities = Identities(Identity(execution_id, run, ancestors), history)
        self.context = Context(workflow, identities, started_at, frozenset(flags), self.patches, raises, self.displayed)
        """The functions that the code calls."""
        self.steps = self.context.steps
        """The steps that the code waits for now."""
        self.taken: set[str] = set()
        """The ids of inbox documents whose values the code has received from channels."""
        self.ended_at: int | None = None
        """The number of events when the code ended, or when an interrupt reached it. None before."""
        self._payload = payload
        self._raises = raises
        self._loop = self.context.loop
        self._wind_up = self.context.wind_up

    @property
    def outcome(self) -> Outcome | None:
        """How the workflow ended; None before its end."""
        return self._wind_up.outcome

    @property
    def received(self) -> Collection[str]:
        """The names of the deferreds whose values the code has received."""
        return self.context.received.keys()

    @property
    def next_payload(self) -> str | None:
        """The payload of the next run, if this one ended with a restart."""
        return self._wind_up.next_payload

    @property
    def has_begun(self) -> bool:
        """Whether the workflow's own code has been started."""
        return self._wind_up.has_begun

    @property
    def interrupted(self) -> bool:
        """Whether the interrupt has reached the code."""
        return self._wind_up.interrupted

    @property
    def turn(self) -> int:
        """The number of the event that was applied last; 0 is the beginning."""
        return self.context.turn

    @property
    def now(self) -> datetime:
        """The time that the code sees."""
        return self.context.now

    def has(self, flag: LogicFlag) -> bool:
        """Whether the execution carries that logic flag."""
        return flag in self.context.flags

    def begin(self) -> None:
        """Run the code to its first wait. Raises a Fault if the deployment can't run it."""
        if others := unknown(self.context.flags):
            raise UnknownLogic(
                f"a later version of the engine began this execution (logic flags {', '.join(others)}): deploy that "
                "version, or a newer one"
            )
        self._wind_up.begin(self.workflow.arguments(self._payload))
        self._run_until_idle()

    def apply(self, event: Event) -> None:
        """Apply one event, and run the code until it waits again. Raises a Fault."""
        self.context.next_turn()
        before, self._loop.now = self._loop.now, max(self._loop.now, event.at.timestamp())
        match event:
            case StepResolved():
                self._resolve(event)
            case AttemptFailed():
                step = self._expected("activity", event)
                assert isinstance(step, ActivityStep)
                failed = replace(
                    step, attempts=event.attempt, retry_at=event.retry_at, is_recorded=True, details=event.details
                )
                self.steps.change(failed)
                self.steps.start(failed)
                return
            case StepHeld():
                step = self._expected("activity", event)
                assert isinstance(step, ActivityStep)
                self.steps.change(replace(step, attempts=0, retry_at=None, is_recorded=True, details=event.details))
                return
            case Begun():
                child = self._expected("child", event)
                assert isinstance(child, ChildStep)
                self.steps.change(replace(child, begun=True, is_recorded=True))
                return
            case Interrupted():
                self.ended_at = min(self.turn - 1, self.turn if self.ended_at is None else self.ended_at)
                self._wind_up.interrupt(event.reason)
            case Forked():
                if self.ended_at is not None:  # the code ended in the turn that is run anew
                    self.ended_at = self.turn
                self.steps.delay_timers(timedelta(seconds=self._loop.now - before))
                return
            case Patched():
                if self.ended_at == self.turn - 1:  # its turn was the last one, and keeps it
                    self.ended_at = self.turn
                self._check_patch(event)
                return
            case _:
                return
        self._run_until_idle()

    def take_patches(self) -> list[Event]:
        """The events that record which patches the code came to since the last call. They count as applied."""
        new = self.patches.take_new()
        for event in new:
            self.apply(event)
        return new

    def take_commands(self) -> list[Command]:
        """The commands that follow from the code's requests since the last call."""
        return self.steps.take_commands()

    def take_log(self) -> list[LogLine]:
        """The lines that the code logged since the last call."""
        return self.context.take_log()

    def open_steps(self) -> list[Step]:
        """The steps that the code waits for now."""
        return self.steps.all()

    def is_open(self, kind: StepKind, step: str) -> bool:
        """Whether the code waits for that step now."""
        return step in self.steps.of_kind(kind)

    @property
    def has_ended(self) -> bool:
        """Whether the workflow's own code has ended."""
        return self._wind_up.has_ended

    @property
    def undoable(self) -> tuple[str, ...]:
        """The compensations that are registered and have not begun, by name."""
        return self._wind_up.undoable

    def leftovers(self) -> tuple[str, ...]:
        """The leftovers of the code, once it has ended."""
        return leftovers(self._loop, self.open_steps())

    def close(self) -> None:
        """Drop the code. Its last actions have no effect."""
        self._loop.close()

    @property
    def held(self) -> BaseException | None:
        """The error of the code that holds the execution, or None."""
        return self._wind_up.held

    @property
    def undone(self) -> tuple[str, ...]:
        """The compensations that have begun, by name."""
        return tuple(self._wind_up.undone)

    def _run_until_idle(self) -> None:
        self._loop.run_until_idle()
        if self.ended_at is None and self._wind_up.has_ended:
            self.ended_at = self.turn
        self._wind_up.proceed()

    def _resolve(self, event: StepResolved) -> None:
        step = self._expected(event.kind, event)
        match step:
            case TimerStep():
                self.steps.resolve(step)
                self._loop.now = max(self._loop.now, min(step.timer.when(), FAR_FUTURE.timestamp()))
                self._loop.fire(step.timer)
            case ActivityStep():
                activity = step.activity
                result = answer(event, activity.signature.result.decode, activity.raises)
                self.steps.resolve(step)
                settle(step.future, result)
            case DeferredStep():
                self.context.received[step.id] = event
                self.steps.resolve(step)
                for waiter in step.waiters:
                    settle(waiter, answer(event, step.deferred.codec.decode))
            case ChildStep():
                result = answer(event, step.workflow.result.decode if step.waits else json.loads, self._raises)
                self._wind_up.note_answer(result[1])
                self.steps.resolve(step)
                settle(step.future, result)
            case ChannelStep():
                result = answer(event, step.channel.codec.decode)
                self.taken.add(event.item or "")
                self.steps.resolve(step)
                settle(step.future, result)

    def _check_patch(self, event: Patched) -> None:
        if not self.patches.is_asked(event):
            raise NonDeterminism(
                f"event {self.turn} of the history records patch {event.patch!r}, but the code of {self.workflow!r} "
                f"doesn't ask for it there. Put workflow.deprecate_patch({event.patch!r}) where workflow.patched() "
                "stood until all runs that have recorded the patch have ended; then deploy and resume."
            )

    def _expected(self, kind: StepKind, event: StepResolved | AttemptFailed | StepHeld | Begun) -> Step:
        """The open step that an event names. The step takes the digest under which it was first recorded. Raises
        NonDeterminism if there is no such step, or if its input differs."""
        step: Step | None = self.steps.of_kind(kind).get(event.step)
        if step is not None and step.digest == event.digest:
            return step
        differences = None if step is None or event.input is None else step.differences(event.input)
        if step is not None and differences == []:
            self.steps.change(replace(step, digest=event.digest))
            return self._expected(kind, event)
        found = f"{kind} {event.step!r}"
        if differences:
            more = f" and {len(differences) - 3} more" if len(differences) > 3 else ""
            reason = f"now asks {found} with another input ({'; '.join(differences[:3])}{more})"
        elif step is not None:
            reason = f"now asks {found} with another input (digest {step.digest}, recorded {event.digest})"
        elif self.outcome is not None:
            reason = f"has ended by then ({self.outcome.kind})"
        elif waiting := [f"{s.kind} {s.id!r}" for s in self.open_steps()]:
            reason = f"now waits for {', '.join(waiting[:5])}" + (" and others" if len(waiting) > 5 else "")
        else:
            reason = "now waits for nothing"
        words = {AttemptFailed: "a failed attempt of", StepHeld: "the failure of", Begun: "the start of"}
        what = words.get(type(event), "the end of")
        raise NonDeterminism(
            f"event {self.turn} of the history records {what} {found}, but the code of {self.workflow!r} {reason}. "
            "Either its steps were renamed, added, removed or reordered since, or they depend on something that isn't "
            "recorded (a clock, a random number, a global). Deploy the code that wrote this history (or register the "
            "new code as another version), then resume."
        )
