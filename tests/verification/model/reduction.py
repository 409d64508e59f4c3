"""Fewer states that show the same: what can make no difference any more is taken out of a state.

Each rule leans on guards, and is off in a search without one of them. `test_model.py` compares a search with all the
rules to one with none.

1. A driver that has lost the lease, and whose next write is one to the exec document, is idle: it can only meet a
   conflict, find that the lease is lost, and stop. If its heartbeat is due, it starts and seals nothing before that.
2. Of an old version in hand only what the driver still reads in it counts.
3. Of `seen_wake` only counts whether it is `wake`.
4. Chunks that the exec document counts are loaded by whoever loads: they count as one, without their takeovers.
"""

from __future__ import annotations

from tests.verification.model.exec import Exec
from tests.verification.model.programs import recorded
from tests.verification.model.state import IDLE, Driver, State, stopped

ETAGS = frozenset({"claim-etag", "heartbeat-etag", "suspend-etag", "complete-etag"})
_WRITES_EXEC = {"claim", "claim?", "suspend", "complete", "release", "extend", "extend?", "refresh", "inbox", "give up"}
_ON_THE_WAY = {"load", "seal", "seal?", "step", "start", "append?"}


class Reduction:
    """The rules that hold without some of the guards."""

    def __init__(self, without: frozenset[str]) -> None:
        self._lost = without.isdisjoint(ETAGS | {"ours", "create-only"})
        self._late = self._lost and without.isdisjoint({"clock", "own-write"})
        self._view = without.isdisjoint(ETAGS)
        self._chunks = without.isdisjoint({"create-only", "history-length", "reload", "claim-first"})

    def __call__(self, state: State) -> State:
        """The same state without what makes no difference."""
        for number, driver in enumerate(state.drivers):
            if driver.at != IDLE and self._lost and self._is_over(state, number, driver):
                state = stopped(state, number)
        exec, log = state.exec, state.log
        if exec.seen_wake != exec.wake and exec.seen_wake:
            exec = exec._replace(seen_wake=0)
        counted = exec.history_length if self._chunks else 0
        if counted > 1:
            log = (recorded(log[:counted]), *log[counted:])
            exec = exec._replace(history_length=1)
        drivers = self._lean(state.drivers[0], counted), self._lean(state.drivers[1], counted)
        if exec is state.exec and log is state.log and drivers == state.drivers:
            return state
        return state._replace(exec=exec, log=log, drivers=drivers)

    def _is_over(self, state: State, number: int, driver: Driver) -> bool:
        if driver.at == "claim":
            return driver.view is not None
        if state.exec.worker == number and not state.exec.ended:
            return False
        if driver.at in _WRITES_EXEC:
            return True
        return self._late and driver.late and driver.at in _ON_THE_WAY

    def _lean(self, driver: Driver, counted: int) -> Driver:
        view, length = driver.view, driver.length
        if view is not None and self._view:
            loading = driver.at in ("load", "inbox", "seal") or (driver.at, driver.then) == ("answer", "load")
            inbox_count, history_length = (view.inbox_count, view.history_length) if loading else (0, 0)
            view = Exec(interrupted=view.interrupted, due=None, inbox_count=inbox_count, history_length=history_length)
        if counted > 1:
            length = max(length - counted + 1, 0)
            if view is not None and view.history_length > 1:
                view = view._replace(history_length=1)
        if view is driver.view and length == driver.length:
            return driver
        return driver._replace(view=view, length=length)
