"""What a run asks its driver to do. `Run.take_commands` returns these values in the order of the code's requests."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.steps import ActivityStep, ChildStep


@dataclass(frozen=True)
class StartActivity:
    """Make the next attempt of an activity: at `step.retry_at`, or at once if that is None."""

    step: ActivityStep


@dataclass(frozen=True)
class StartChild:
    """Create the execution of a child workflow."""

    step: ChildStep


@dataclass(frozen=True)
class DropActivity:
    """Cancel an activity: the code no longer waits for the step."""

    step: ActivityStep


@dataclass(frozen=True)
class DropChild:
    """Give up a child: the code no longer waits for the step. `outlives`: the child lives on without its parent."""

    step: ChildStep
    outlives: bool


Command = StartActivity | StartChild | DropActivity | DropChild
