"""The transitions: what the two drivers, the outside and time may do in a state.

A move is `fair` if it happens by itself sooner or later: whatever a living driver is about to do, and the sweep's look
at what is due. Time is fair only when nothing else is left to do: a living driver extends its lease in time. Faults are
not fair, nor is the outside, nor a delivery by the feed, on which nothing depends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engine.store.transitions import Transition
from tests.verification.model.driving import Driving
from tests.verification.model.exec import GONE, Exec, add_inbox_item, after, interrupt, resume, terminate
from tests.verification.model.moves import Move, fault
from tests.verification.model.programs import PROGRAMS
from tests.verification.model.state import IDLE, Driver, State, written


class Protocol:
    """The protocol, with or without some of its guards."""

    def __init__(self, without: frozenset[str] = frozenset()) -> None:
        self.without = without
        self._driving = Driving(without)
        self._guarded = not without

    def moves(self, state: State) -> list[Move]:
        """All that may happen next in a state."""
        found = [*self._driving.moves(state, 0), *self._driving.moves(state, 1)]
        nothing_else = not any(move.fair for move in found)
        found += self._time(state, nothing_else)
        found += self._outside(state)
        return found

    def _outside(self, state: State) -> Iterator[Move]:
        exec, closed = state.exec, bool(state.exec.ended) and "running-only" not in self.without
        if state.owed and not exec.ended:
            bumped = written(state._replace(owed=False), self._bumped(exec, add_inbox_item))
            yield Move("the outside bumps the exec document", bumped, fair=False)
        if closed:
            return
        for value in PROGRAMS[state.program].values:
            first = [item for item in state.inbox if item[0] == value[0]]
            if value in first or (first and "first-writer" not in self.without):
                continue  # taken: nothing changes
            if not first and value != _first(state.program, value[0]):
                continue  # which of the values is first makes no difference
            added = state._replace(inbox=state.inbox.difference(first) | {value})
            if "one-batch" in self.without:
                yield Move(f"the outside adds {value}", added._replace(owed=True), fair=False)
            else:
                yield Move(f"the outside sends {value}", written(added, self._bumped(exec, add_inbox_item)), fair=False)
        if not exec.interrupted:
            yield Move("the outside interrupts", written(state, self._bumped(exec, interrupt)), fair=False)
        if exec.cause and not exec.ended:
            yield Move("the outside resumes it", written(state, after(exec, self._guarded, resume)), fair=False)
        if not exec.ended and PROGRAMS[state.program].terminates:
            yield Move("the outside terminates it", written(state, after(exec, self._guarded, terminate)), fair=False)

    def _bumped(self, exec: Exec, make: Callable[[], Transition]) -> Exec:
        changed = after(exec, self._guarded, make)
        changed = changed._replace(wake=exec.wake) if "wake" in self.without else changed
        return changed._replace(due=exec.due) if "signal-due" in self.without else changed

    def _time(self, state: State, fair: bool) -> Iterator[Move]:
        exec = state.exec
        if exec.is_leased() and (exec.worker == GONE or state.faults):
            late: tuple[Driver, ...] = tuple(d if d.at == IDLE else d._replace(late=True) for d in state.drivers)
            expired = state._replace(exec=exec._replace(live=False), drivers=late)  # type: ignore[arg-type]
            if exec.worker == GONE:
                yield Move("the lease expires, its driver is gone", expired, fair=fair)
            else:
                yield Move("the lease expires, its driver is frozen", fault(expired), fair=False)
        if state.program == "race" and not state.rung and not exec.ended:
            yield Move("the timer's moment passes", state._replace(rung=True), fair=fair)


def _first(program: str, name: str) -> str:
    return next(value for value in PROGRAMS[program].values if value[0] == name)
