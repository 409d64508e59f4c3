"""Breadth first through every state that can be reached; the first bad end found is one of the shortest."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.verification.model.exec import GONE, Exec, after, claim
from tests.verification.model.moves import Move, fault
from tests.verification.model.programs import PROGRAMS, Log
from tests.verification.model.protocol import Protocol
from tests.verification.model.reduction import Reduction
from tests.verification.model.rules import broken, stuck
from tests.verification.model.state import Driver, State, mirrored, with_driver

FAULTS = 2
"""Faults in one run, of any kind: so at least two expiries, two crashes, or one of each."""

Came = dict[State, tuple[State, int, bool] | None]
"""Of each state, the one that it was first reached from, by which move, and whether it is the mirror image."""


@dataclass(frozen=True)
class Step:
    """One step of a trace: who did what, and how the partition stood after it."""

    who: str
    label: str
    holder: str
    state: State
    history: Log

    def __str__(self) -> str:
        exec = self.state.exec
        stands = exec.ended or ("suspended" if exec.suspended else "running")
        lease = self.holder + (" (expired)" if exec.worker is not None and not exec.live else "")
        facts = f"{stands}, lease {lease}, wake {exec.wake}, seen {exec.seen_wake}, due {exec.due or '-'}"
        history = " ".join("+".join(chunk) for chunk in self.history) or "-"
        inbox = " ".join(sorted(self.state.inbox)) or "-"
        who = f"{self.who}: " if self.who else ""
        interrupted = ", interrupted" if exec.interrupted else ""
        return f"{who}{self.label}\n          {facts}{interrupted}; history {history}; inbox {inbox}"


@dataclass(frozen=True)
class Found:
    """What a search has found: how many states and transitions there are, and the shortest way to a bad end."""

    states: int
    transitions: int
    wrong: str | None = None
    trace: list[Step] = field(default_factory=list)


def search(
    without: Iterable[str] = (),
    faults: int = FAULTS,
    programs: Iterable[str] = tuple(PROGRAMS),
    every: bool = False,
    visit: Callable[[State], object] = lambda _: None,
) -> Found:
    """Visit every state of these programs, with at most so many faults in each run, until something is wrong. `every`:
    also the states that differ in nothing that counts."""
    protocol = Protocol(frozenset(without))
    reduced = (lambda state: state) if every else Reduction(protocol.without)
    due = None if "first-due" in protocol.without else Exec().due
    begin = [start for name in programs for start in _starts(State(name, Exec(due=due), faults=faults))]
    came: Came = dict.fromkeys(begin)
    ways: dict[State, list[State]] = {}
    queue = deque(begin)
    transitions = 0
    while queue:
        state = queue.popleft()
        visit(state)
        moves = protocol.moves(state)
        fair: list[State] = []
        for number, move in enumerate(moves):
            transitions += 1
            wrong = move.wrong or broken(state, move.next)
            if wrong:
                return Found(len(came), transitions, wrong, _trace(protocol, came, state, move))
            next, mirror = _canonical(reduced(move.next))
            if move.fair:
                fair.append(next)
            if next not in came:
                came[next] = (state, number, mirror)
                queue.append(next)
        if not fair and (wrong := stuck(state)):
            return Found(len(came), transitions, wrong, _trace(protocol, came, state, None))
        ways[state] = fair
    wrong = "stuck: without faults it goes on for ever" if _has_circle(ways) else None
    return Found(len(came), transitions, wrong)


def _starts(stored: State) -> Iterator[State]:
    """How an execution may begin: stored for anybody; or created as claimed by a driver, which has the answer or loses
    it."""
    yield stored
    created = stored._replace(exec=after(stored.exec, True, claim, 0))
    yield with_driver(created, 0, Driver("step"))
    if stored.faults:
        yield fault(with_driver(created, 0, Driver("create?")))


def _canonical(state: State) -> tuple[State, bool]:
    """Of a state and its mirror image always the same one, and whether that is the image."""
    one, other = _order(state.drivers[0]), _order(state.drivers[1])
    if one == other and state.drivers[0] != state.drivers[1]:
        one, other = (repr(state.drivers[0]),), (repr(state.drivers[1]),)
    if one < other or (one == other and state.exec.worker != 1):
        return state, False
    return mirrored(state), True


def _order(driver: Driver) -> tuple[object, ...]:
    return (driver.at, driver.late, driver.run, driver.saved, driver.length)


def _has_circle(ways: dict[State, list[State]]) -> bool:
    """Whether the fair moves alone can go round and round: takes away, again and again, what only leads to an end."""
    left = {state: len(nexts) for state, nexts in ways.items()}
    before: dict[State, list[State]] = {}
    for state, nexts in ways.items():
        for next in nexts:
            before.setdefault(next, []).append(state)
    ends = [state for state, count in left.items() if not count]
    gone = 0
    while ends:
        gone += 1
        for state in before.get(ends.pop(), ()):
            left[state] -= 1
            if not left[state]:
                ends.append(state)
    return gone < len(left)


def _trace(protocol: Protocol, came: Came, state: State, last: Move | None) -> list[Step]:
    """The way to a state, and one move more, with each driver under one name and the history whole all along."""
    path: list[tuple[State, Move, bool]] = [] if last is None else [(state, last, False)]
    while (origin := came[state]) is not None:
        state = origin[0]
        path.append((state, protocol.moves(state)[origin[1]], origin[2]))
    born = state.exec.worker is not None
    start = "a driver creates it as claimed" if born else "the outside starts it"
    steps = [Step("", f"{start}: program {state.program}", "driver 1" if born else "-", state, state.log)]
    names, history = ("driver 1", "driver 2"), state.log
    for before, move, mirror in reversed(path):
        new, old = move.next.log, before.log
        history = history + new[len(old) :] if new[: len(old)] == old else new
        worker = move.next.exec.worker
        holder = "-" if worker is None else "gone" if worker == GONE else names[worker]
        steps.append(Step("" if move.who is None else names[move.who], move.label, holder, move.next, history))
        names = names[::-1] if mirror else names
    return steps
