"""What a state of the model is made of.

Three things keep the states few, and none of them hides a behaviour:
1. An etag is only ever compared. So a driver doesn't hold one: it holds `view`, None as long as the version in its hand
   is the newest, and from then on that old version.
2. A token is only ever compared. So `worker` is the number of the driver whose drive holds it, or GONE when that drive
   is over.
3. The two drivers are alike: a state and its mirror image count as one.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.verification.model.exec import GONE, Exec
from tests.verification.model.programs import Events, Log

IDLE = "idle"


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
