"""What may never happen, whatever comes in whatever order.

1. The history only grows: what is recorded stays.
2. The history never forks: who adds to it has seen all of it.
3. An activity starts only while the recorded history asks for it: never once its result is recorded, nor before what
   brought it about is.
4. Without a fault each activity starts once.
5. An interrupt that was accepted is never taken back, and the execution then ends as interrupted (or is terminated).
6. What has ended never changes, and its outcome is the one that the history gives.
7. A deferred keeps its first value.
8. No driver takes its own write, sent again, for a stranger's.
9. Nothing is stuck: without further faults something still happens, until the execution has ended and nobody holds it,
   or it waits for the outside and has taken in all that came, or it is suspended with a cause.

Rules 3, 4 and 8 are about one act of a driver, and `protocol` asks for them there.
"""

from __future__ import annotations

from tests.verification.model.programs import Events, recorded, run
from tests.verification.model.state import IDLE, State


def broken(old: State, new: State) -> str | None:
    """What is wrong with a step from one state to another (rules 1, 5, 6 and 7)."""
    if new.log != old.log and new.log[: len(old.log)] != old.log:
        return "a recorded event has changed"
    if new.inbox != old.inbox and not old.inbox <= new.inbox:
        return "a deferred has lost its first value"
    if new.exec == old.exec and new.log == old.log:
        return None
    if old.exec.interrupted and not new.exec.interrupted:
        return "an accepted interrupt was taken back"
    if old.exec.ended and new.exec != old.exec:
        return "the exec document of an ended execution has changed"
    if new.exec.ended and new.exec.ended != "terminated":
        if new.exec.interrupted and new.exec.ended != "interrupted":
            return "an interrupt was accepted, and the execution ended as if there had been none"
        if run(new.program, recorded(new.log)).outcome != new.exec.ended:
            return "the outcome isn't the one that the history gives"
    return None


def broken_start(state: State, activity: str) -> str | None:
    """What is wrong with starting an activity now (rules 3 and 4)."""
    events = recorded(state.log)
    if activity in events:
        return f"activity {activity} starts again, though its result is recorded"
    if activity not in run(state.program, events).activities:
        return f"activity {activity} starts, though the recorded history doesn't ask for it"
    if state.started is not None and activity in state.started:
        return f"activity {activity} starts twice, without any fault"
    return None


def broken_append(state: State, seen: Events) -> str | None:
    """What is wrong with a history to which a driver that saw `seen` has just added (rule 2)."""
    return None if recorded(state.log) == seen else "the history has forked: its writer has seen another one"


def stuck(state: State) -> str | None:
    """What is wrong with a state in which nothing happens any more by itself (rule 9)."""
    exec = state.exec
    if any(driver.at != IDLE for driver in state.drivers):
        return "stuck: a driver neither goes on nor lets go"
    if exec.ended and exec.worker is None:
        return None
    if exec.cause and exec.suspended:
        return None  # it says so, and waits for `resume`
    if exec.worker is not None:
        return "stuck: a lease is left, and nobody looks"
    events = recorded(state.log)
    asked = run(state.program, events)
    if exec.interrupted and "I" not in events:
        return "stuck: an interrupt was accepted, and nobody looks"
    if any(item[0] in asked.deferreds for item in state.inbox):
        return "stuck: a value has come, and nobody looks"
    if asked.timer and state.rung:
        return "stuck: a timer is due, and nobody looks"
    if asked.activities or asked.outcome or not exec.suspended:
        return "stuck: there is work to do, and nobody looks"
    return None
