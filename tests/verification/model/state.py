"""What a state of the model is made of, and how the exec document may change.

Three things keep the states few, and none of them hides a behaviour:
1. An etag is only ever compared. So a driver doesn't hold one: it holds `view`, None as long as the version in its hand
   is the newest, and from then on that old version.
2. A token is only ever compared. So `worker` is the number of the driver whose drive holds it, or GONE when that drive
   is over.
3. The two drivers are alike: a state and its mirror image count as one.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.verification.model.programs import Events, Log

GONE = -1
"""A token of a drive that is over."""
NOW, LEASE, TIMER_DUE = "now", "lease", "timer"
"""What `dueAt` may say: a moment that has passed, the end of the lease, or that of the timer."""
IDLE = "idle"


class Exec(NamedTuple):
    """The exec document. `live`: the lease's end, and the skew, have not passed."""

    ended: str | None = None
    suspended: bool = False
    interrupted: bool = False
    worker: int | None = None
    live: bool = False
    due: str | None = NOW
    wake: int = 0
    seen_wake: int = 0
    inbox_count: int = 0
    history_length: int = 0
    claims: int = 0
    """1 for any number of claims since there was progress, but for those that are not counted."""
    cause: bool = False
    """Whether it was suspended for something that `resume` has to cure."""

    def is_due(self, rung: bool) -> bool:
        """Whether `dueAt` has passed; `rung`: the timer's moment has."""
        return self.due == NOW or (self.due == LEASE and not self.live) or (self.due == TIMER_DUE and rung)

    def is_leased(self) -> bool:
        """As `Execution.is_leased`."""
        return self.worker is not None and self.live

    def is_fresh(self, without_claims: bool = False) -> bool:
        """As `Execution.is_fresh`."""
        claimed = (self.claims or self.worker is not None) and not without_claims
        return not (self.history_length or self.inbox_count or self.wake or claimed)

    def is_runnable(self, rung: bool, without_lease: bool = False, without_due: bool = False) -> bool:
        """As `Execution.is_runnable`."""
        if self.ended or (self.is_leased() and not without_lease):
            return False
        return not self.suspended or self.wake > self.seen_wake or (self.is_due(rung) and not without_due)

    # -- the changes, as `Execution` has them --

    def claimed(self, worker: int) -> Exec:
        return self._replace(claims=1, suspended=False, cause=False).leased(worker)

    def leased(self, worker: int) -> Exec:
        return self._replace(worker=worker, live=True, due=LEASE)

    def with_claim_uncounted(self) -> Exec:
        return self._replace(claims=0)

    def suspended_until(self, due: str | None) -> Exec:
        return self._let_go()._replace(suspended=True, due=due, seen_wake=self.wake)

    def suspended_because(self) -> Exec:
        return self.suspended_until(None)._replace(cause=True)

    def released(self) -> Exec:
        return self._let_go()._replace(suspended=False, due=NOW)

    def completed(self, outcome: str) -> Exec:
        return self._let_go()._replace(ended=outcome, suspended=False, due=None, seen_wake=self.wake)

    def terminated(self) -> Exec:
        return self.completed("terminated")._replace(wake=self.wake + 1)

    def _let_go(self) -> Exec:
        return self._replace(worker=None, live=False, claims=0, cause=False)

    # -- the changes of the outside, as `Store.signal`, `Store.interrupt` and `Execution` make them --

    def signalled(self, wake: bool = True, due: bool = True) -> Exec:
        """With one more document in the inbox."""
        return self._replace(inbox_count=self.inbox_count + 1)._touched(wake, due)

    def resumed(self) -> Exec:
        return self._replace(suspended=False, cause=False, claims=0, due=NOW, wake=self.wake + 1)

    def with_interrupt(self, wake: bool = True, due: bool = True) -> Exec:
        return self._replace(interrupted=True)._touched(wake, due)

    def _touched(self, wake: bool, due: bool) -> Exec:
        return self._replace(wake=self.wake + wake, due=NOW if due else self.due)


class Driver(NamedTuple):
    """One driver: what it is about to do (`at`), and what its memory holds."""

    at: str = IDLE
    view: Exec | None = None
    """The version in hand, once another one stands; None while it is the newest."""
    then: str = ""
    """What it does after that, where that isn't clear."""
    takeover: bool = False
    late: bool = False
    """Whether the heartbeat's moment has passed."""
    inbox: frozenset[str] = frozenset()
    run: Events = ()
    """What the code has seen."""
    saved: int = 0
    """How much of that is recorded."""
    length: int = 0
    """The number that its next chunk has."""
    running: frozenset[str] = frozenset()
    finished: frozenset[str] = frozenset()

    @property
    def unsaved(self) -> Events:
        return self.run[self.saved :]


class State(NamedTuple):
    """Everything: the partition, the drivers, and what the outside and time may still do."""

    program: str
    exec: Exec = Exec()
    log: Log = ()
    inbox: frozenset[str] = frozenset()
    drivers: tuple[Driver, Driver] = (Driver(), Driver())
    rung: bool = False
    """Whether the timer's moment has passed."""
    faults: int = 0
    """Faults that may still happen."""
    started: frozenset[str] | None = frozenset()
    """Activities that were started; None once there was a fault."""
    owed: bool = False
    """An item was added whose bump has yet to come (only without the one batch)."""


IDLING = Driver()


def written(state: State, exec: Exec, writer: int | None = None) -> State:
    """A new version of the exec document: it is in the writer's hand, and the others' is old."""
    old = state.exec
    one, other = state.drivers
    if one.at != IDLE:
        one = one._replace(view=None) if writer == 0 else one._replace(view=one.view or old)
    if other.at != IDLE:
        other = other._replace(view=None) if writer == 1 else other._replace(view=other.view or old)
    return state._replace(exec=exec, drivers=(one, other))


def with_driver(state: State, number: int, driver: Driver) -> State:
    """With that driver changed."""
    drivers = (driver, state.drivers[1]) if number == 0 else (state.drivers[0], driver)
    return state._replace(drivers=drivers)


def stopped(state: State, number: int) -> State:
    """A drive is over: its token belongs to nobody from now on."""
    return _renamed(with_driver(state, number, IDLING), {number: GONE})


def mirrored(state: State) -> State:
    """The same with the drivers' numbers exchanged."""
    one, other = state.drivers
    return _renamed(state._replace(drivers=(other, one)), {0: 1, 1: 0})


def _renamed(state: State, names: dict[int, int]) -> State:
    one, other = state.drivers
    if one.view is not None and one.view.worker in names:
        one = one._replace(view=one.view._replace(worker=names[one.view.worker]))
    if other.view is not None and other.view.worker in names:
        other = other._replace(view=other.view._replace(worker=names[other.view.worker]))
    exec = state.exec
    if exec.worker in names:
        exec = exec._replace(worker=names[exec.worker])
    elif one is state.drivers[0] and other is state.drivers[1]:
        return state
    return state._replace(exec=exec, drivers=(one, other))
