"""What a driver may do next, from its look at an execution to its letting go.

A read of the exec document that is old is a read made earlier: in the session of a driver it is never older than the
driver's own last write, and a driver here may wait between any two moves. An old *load* is a move of its own.
Two answers that are lost need no move, since sending again changes nothing: of the write that lets go, which ends the
drive either way, and of a signal, which finds its own item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product

from engine.store.transitions import Transition
from tests.verification.model.exec import (
    TIMER_DUE,
    Exec,
    claim,
    complete,
    extend,
    give_up,
    release,
    suspend,
    uncount_claim,
)
from tests.verification.model.exec import after as after_transition
from tests.verification.model.moves import Move, fault
from tests.verification.model.programs import INTERRUPTED, TAKEOVER, TIMER, Events, Log, Run, recorded, run
from tests.verification.model.rules import broken_append, broken_start
from tests.verification.model.state import IDLE, Driver, State, stopped, with_driver, written


class Driving:
    """The moves of a driver, with or without some of the guards."""

    def __init__(self, without: frozenset[str]) -> None:
        self.without = without

    def moves(self, state: State, number: int) -> Iterator[Move]:
        """All that the driver of that number may do next."""
        driver = state.drivers[number]
        yield from MOVES[driver.at](self, state, number, driver)
        if driver.at == IDLE:
            return
        if state.faults:
            yield Move("crashes", fault(stopped(state, number)), number, False)
            if driver.view is None and state.exec.worker == number and state.exec.claims:
                uncounted = stopped(written(state, self._after(state.exec, uncount_claim, number), number), number)
                yield Move("loses the store: its claim isn't counted", fault(uncounted), number, False)
        if driver.late or driver.at not in ("step", "start", "seal"):
            return  # what happens meanwhile makes a difference in the next round only
        yield Move("its heartbeat is due", with_driver(state, number, driver._replace(late=True)), number, False)
        for name in sorted(driver.running) if driver.at == "step" else ():
            ended = driver._replace(running=driver.running - {name}, finished=driver.finished | {name})
            yield Move(f"its activity {name} ends", with_driver(state, number, ended), number)

    def _idle(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        if "claim-first" in self.without and not state.exec.ended:
            early = Driver("loaded", then="early", inbox=state.inbox, length=len(state.log))
            yield Move("loads, before it looks", with_driver(state, number, early), number, False)
        if "own-create" in self.without and not state.exec.ended:
            taken = with_driver(state, number, self._creator(driver, state.exec))
            yield Move("starts it once more, and takes it for its own", taken, number, False)
        yield from self._look(state, number, driver)

    def _create_again(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        """The answer to a creation as claimed was lost: it is sent again, and refused, and then read."""
        if state.exec.worker != number and "own-create" not in self.without:
            yield Move("creates it again: another holds it, or it has ended", stopped(state, number), number)
        else:
            own = with_driver(state, number, self._creator(driver, state.exec))
            yield Move("creates it again: it was its own", self._timed(own, number), number)
        if state.faults and driver.view is not None:
            old = with_driver(state, number, self._creator(driver, driver.view)._replace(view=driver.view))
            yield Move("creates it again, and reads an old version", fault(self._timed(old, number)), number, False)

    def _creator(self, driver: Driver, created: Exec) -> Driver:
        """A driver that has created the execution, once it knows that. It loads what has come since."""
        return driver._replace(at="load" if created.wake or created.inbox_count else "step", view=None)

    def _look(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        if self._is_runnable(state):
            due = state.exec.is_due(state.rung)
            how = "the sweep" if due else "the feed"
            looking = driver._replace(at="claim", view=None)
            yield Move(f"looks, sent by {how}", with_driver(state, number, looking), number, due)
        elif driver.at != IDLE:
            yield Move("finds nothing to do", stopped(state, number), number)

    def _claim(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        if driver.view is not None and "claim-etag" not in self.without:
            yield Move("claims: conflict", stopped(state, number), number)
            return
        view = driver.view or state.exec
        known = view._replace(claims=0, worker=None) if "fresh" in self.without else view
        fresh, takeover = known.is_fresh(), view.worker is not None
        claimed = self._after(view, claim, number)
        if "claim-due" in self.without:
            claimed = claimed._replace(due=None)
        if "keep-interrupt" in self.without:
            claimed = claimed._replace(interrupted=False)
        holding = Driver("step" if fresh else "load", takeover=takeover)
        if driver.then:  # it has loaded before it looked
            events = recorded(state.log[: driver.length])
            holding = driver._replace(at="seal" if takeover else "step", view=None, takeover=takeover, then="")
            holding = holding._replace(run=events, saved=len(events))
        after = written(with_driver(state, number, holding), claimed, number)
        kind = "fresh" if fresh else "a takeover" if takeover else "an ordinary claim"
        yield Move(f"claims: {kind}", self._timed(after, number), number)
        if state.faults:
            lost = with_driver(after, number, holding._replace(at="claim?", then=holding.at))
            yield Move(f"claims: {kind}, and the answer is lost", fault(lost), number, False)

    def _claim_again(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        if driver.view is None:
            after = with_driver(state, number, driver._replace(at=driver.then, then=""))
            yield Move("sends the claim again: it was its own", self._timed(after, number), number)
        else:
            yield Move("sends the claim again: conflict", stopped(state, number), number)

    def _answer(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        """Without `clock-before-write`: the lease seems to begin when the answer comes."""
        on_time = driver._replace(at=driver.then, then="", late=False)
        yield Move("has the answer, and counts from now", with_driver(state, number, on_time), number)

    def _load(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        view = driver.view or state.exec
        logs = [state.log[:end] for end in range(len(state.log), -1, -1)] if state.faults else [state.log]
        for log, inbox in product(logs, _older(state.inbox) if state.faults else [state.inbox]):
            if len(log) < view.history_length and "history-length" not in self.without:
                continue  # read again
            if len(inbox) < view.inbox_count and "inbox-count" not in self.without:
                continue
            events = recorded(log)
            sealing = driver.takeover and "seal" not in self.without
            loaded = driver._replace(at="seal" if sealing else "step", takeover=sealing, inbox=inbox, run=events)
            after = with_driver(state, number, loaded._replace(saved=len(events), length=len(log)))
            if log == state.log and inbox == state.inbox:
                yield Move("loads", after, number)
            else:
                old = f"{len(log)} of {len(state.log)} chunks, inbox {_text(inbox)}"
                yield Move(f"loads from an old replica: {old}", fault(after), number, False)
        if state.faults:
            giving_up = fault(with_driver(state, number, driver._replace(at="give up")))
            yield Move("finds, however often it reads, that documents are missing", giving_up, number, False)

    def _give_up(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        """Suspend with a cause, and perhaps before the log was sealed: then the token stays."""
        if driver.view is not None:
            refreshing = driver._replace(at="refresh", then="give up")
            yield Move("suspends: conflict", with_driver(state, number, refreshing), number)
            return
        keeps_token = driver.takeover and "unsealed" not in self.without
        after = written(state, self._after(state.exec, give_up, number, keeps_token), number)
        yield Move("suspends with a cause", stopped(after, number), number)

    def _seal(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        view = driver.view or state.exec
        if driver.late:
            extending = driver._replace(at="extend", then="seal")
            yield Move("has to extend its lease before it seals", with_driver(state, number, extending), number)
        elif len(driver.inbox) < view.inbox_count and "load-again" not in self.without:
            again = driver._replace(at="load", inbox=frozenset(), run=(), saved=0, length=0)
            yield Move("has loaded less than there is now", with_driver(state, number, again), number)
        else:
            yield Move("is to seal", with_driver(state, number, driver._replace(at="sealing")), number)

    def _sealing(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        if len(state.log) == driver.length or "create-only" in self.without:
            after = state._replace(log=_put(state.log, driver.length, (TAKEOVER,)))
            sealed = driver._replace(at="step", takeover=False, length=driver.length + 1)
            yield Move("seals the log", with_driver(after, number, sealed), number)
            if state.faults:
                lost = with_driver(after, number, driver._replace(at="seal?"))
                yield Move("seals the log, and the answer is lost", fault(lost), number, False)
        elif "reload" in self.without:
            next = driver._replace(at="seal", length=driver.length + 1)
            yield Move("seals the log: taken, tries the next number", with_driver(state, number, next), number)
        else:
            again = driver._replace(at="load", inbox=frozenset(), run=(), saved=0, length=0)
            yield Move("seals the log: taken", with_driver(state, number, again), number)

    def _seal_again(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        if "own-write" in self.without:
            wrong = "a driver took its own write for a stranger's"
            yield Move("sends the seal again: taken", stopped(state, number), number, True, wrong)
        else:
            sealed = driver._replace(at="step", takeover=False, length=driver.length + 1)
            yield Move("sends the seal again: it was its own", with_driver(state, number, sealed), number)

    def _step(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        """One round of `Drive._step`, up to its next call of the store."""
        if driver.late:
            yield Move("has to extend its lease", with_driver(state, number, driver._replace(at="extend")), number)
            return
        driver, asked = self._delivered(state, driver)
        waiting = asked.activities - driver.running
        if asked.outcome:
            at = "complete"
        elif not asked.activities:
            at = "suspend"
        elif "write-ahead" in self.without and waiting:
            yield self._started(state, number, driver, waiting, "append" if driver.unsaved else "step")
            return
        else:
            at = "append" if driver.unsaved else "start" if waiting else ""
        came = ", ".join(driver.unsaved)
        if at == "start":
            yield self._started(state, number, driver, waiting, "step")
        elif at:
            label = f"delivers {came}, is to {at}" if came else f"is to {at}"
            yield Move(label, with_driver(state, number, driver._replace(at=at)), number)
        if state.faults and not asked.outcome:
            cut = driver._replace(at="release", running=frozenset())
            yield Move("is cut off, is to release", fault(with_driver(state, number, cut)), number, False)

    def _delivered(self, state: State, driver: Driver) -> tuple[Driver, Run]:
        """The driver once its code has seen all that came, and what the code then asks for."""
        view, events = driver.view or state.exec, driver.run
        asked, late = run(state.program, events), "late-interrupt" in self.without
        while True:
            if view.interrupted and INTERRUPTED not in events and not (asked.outcome and late):
                event = INTERRUPTED
            elif asked.outcome:
                break
            elif ready := driver.finished & asked.activities:
                event = min(ready)
            elif items := [item for item in driver.inbox if item[0] in asked.deferreds]:
                event = min(items)
            elif asked.timer and state.rung:
                event = TIMER
            else:
                break
            events = (*events, event)
            asked = run(state.program, events)
        return driver._replace(run=events, running=driver.running & asked.activities, finished=frozenset()), asked

    def _start(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        asked = run(state.program, driver.run)
        waiting = asked.activities - driver.running
        if driver.late and "clock" not in self.without:
            yield Move("starts nothing now", with_driver(state, number, driver._replace(at="step")), number)
        else:
            yield self._started(state, number, driver, waiting, "step")

    def _started(self, state: State, number: int, driver: Driver, waiting: frozenset[str], at: str) -> Move:
        name = min(waiting)
        begun = driver._replace(at=at, running=driver.running | {name})
        after = with_driver(state, number, begun)
        if state.started is not None:
            after = after._replace(started=state.started | {name})
        return Move(f"starts activity {name}", after, number, True, broken_start(state, name))

    def _append(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        if len(state.log) != driver.length and "create-only" not in self.without:
            yield Move("appends: taken, stops", stopped(state, number), number)
            return
        what = ", ".join(driver.unsaved)
        after = state._replace(log=_put(state.log, driver.length, driver.unsaved))
        done = self._recorded(state, driver)
        wrong = broken_append(after, driver.run)
        yield Move(f"appends {what}", with_driver(after, number, done), number, True, wrong)
        if state.faults:
            lost = with_driver(after, number, driver._replace(at="append?"))
            yield Move(f"appends {what}, and the answer is lost", fault(lost), number, False, wrong)

    def _append_again(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        if "own-write" in self.without:
            wrong = "a driver took its own write for a stranger's"
            yield Move("sends the chunk again: taken, stops", stopped(state, number), number, True, wrong)
        else:
            done = self._recorded(state, driver)
            yield Move("sends the chunk again: it was its own", with_driver(state, number, done), number)

    def _recorded(self, state: State, driver: Driver) -> Driver:
        """The driver once its chunk is written."""
        starts = run(state.program, driver.run).activities - driver.running
        at = "start" if starts else "step"
        return driver._replace(at=at, saved=len(driver.run), length=driver.length + 1)

    def _let_go(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        """Suspend, complete or release: the exec document and the last chunk in one batch."""
        what = driver.at
        if driver.unsaved and len(state.log) != driver.length and "create-only" not in self.without:
            yield Move(f"{what}s: taken, stops", stopped(state, number), number)
            return
        if driver.view is not None and f"{what}-etag" not in self.without:
            yield Move(f"{what}s: conflict", with_driver(state, number, driver._replace(at="refresh")), number)
            return
        view, asked = driver.view or state.exec, run(state.program, driver.run)
        length = max(driver.length + bool(driver.unsaved), view.history_length)
        if what == "complete":
            changed = self._after(view, complete, number, length, asked.outcome or "")
        elif what == "release":
            changed = self._after(view, release, number, length)
            changed = changed._replace(due=None) if "release-due" in self.without else changed
        else:
            due = TIMER_DUE if asked.timer and "timer-due" not in self.without else None
            changed = self._after(view, suspend, number, length, due)
        after, wrong = state, None
        if driver.unsaved:
            after = state._replace(log=_put(state.log, driver.length, driver.unsaved))
            wrong = broken_append(after, driver.run)
        after = written(after, changed, number)
        came = f" with {', '.join(driver.unsaved)}" if driver.unsaved else ""
        yield Move(f"{what}s{came}", stopped(after, number), number, True, wrong)

    def _extend(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        if driver.view is not None and "heartbeat-etag" not in self.without:
            yield Move("extends its lease: conflict", with_driver(state, number, driver._replace(at="refresh")), number)
            return
        held = driver._replace(at=driver.then or "step", then="", late=False)
        extended = self._after(driver.view or state.exec, extend, number)
        after = written(with_driver(state, number, held), extended, number)
        yield Move("extends its lease", self._timed(after, number), number)
        if state.faults:
            lost = with_driver(after, number, held._replace(at="extend?", then=held.at))
            yield Move("extends its lease, and the answer is lost", fault(lost), number, False)

    def _extend_again(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        if driver.view is None:
            after = with_driver(state, number, driver._replace(at=driver.then, then=""))
            yield Move("sends the heartbeat again: it was its own", self._timed(after, number), number)
        else:
            then = "seal" if driver.then == "seal" else ""
            late = driver._replace(at="refresh", then=then, late=True)
            yield Move("sends the heartbeat again: conflict", with_driver(state, number, late), number)

    def _refresh(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        exec = state.exec
        if "exec-first" in self.without and driver.at == "refresh" and not driver.then:
            known = driver._replace(at="exec", inbox=driver.inbox | state.inbox)
            yield Move("reads the inbox", with_driver(state, number, known), number)
        elif (exec.worker != number or exec.ended) and "ours" not in self.without:
            yield Move("reads the exec document: not its own any more, stops", stopped(state, number), number)
        else:
            at = driver.then or ("step" if driver.at == "exec" or "reread" in self.without else "inbox")
            known = driver._replace(at=at, then="", view=None)
            yield Move("reads the exec document", with_driver(state, number, known), number)

    def _inbox(self, state: State, number: int, driver: Driver) -> Iterator[Move]:
        if driver.late:  # a heartbeat that met a conflict: the lease comes first
            yield from self._extend(state, number, driver._replace(then="inbox"))
        view = driver.view or state.exec
        for inbox in _older(state.inbox) if state.faults else [state.inbox]:
            if len(inbox) < view.inbox_count and "inbox-count" not in self.without:
                continue
            after = with_driver(state, number, driver._replace(at="step", inbox=driver.inbox | inbox))
            if inbox == state.inbox:
                yield Move("reads the inbox", after, number)
            else:
                yield Move(f"reads an old inbox: {_text(inbox)}", fault(after), number, False)

    def _is_runnable(self, state: State) -> bool:
        exec = state.exec
        exec = exec._replace(live=False) if "lease" in self.without else exec
        exec = exec._replace(due=None) if "due-runs" in self.without else exec
        return exec.is_runnable(state.rung)

    def _after(self, exec: Exec, make: Callable[..., Transition], *arguments: int | str | bool | None) -> Exec:
        return after_transition(exec, not self.without, make, *arguments)

    def _timed(self, state: State, number: int) -> State:
        """After a write that took the lease: its time is known, unless it counts from the answer."""
        if "clock-before-write" not in self.without:
            return state
        driver = state.drivers[number]
        return with_driver(state, number, driver._replace(at="answer", then=driver.at))


def _put(log: Log, number: int, chunk: Events) -> Log:
    return (*log[:number], chunk, *log[number + 1 :])


def _older(inbox: frozenset[str]) -> list[frozenset[str]]:
    """An inbox as it is, and as it may have been before."""
    items = sorted(inbox)
    return [inbox, *(frozenset(some) for size in range(len(items)) for some in combinations(items, size))]


def _text(inbox: frozenset[str]) -> str:
    return " ".join(sorted(inbox)) or "-"


MOVES: dict[str, Callable[[Driving, State, int, Driver], Iterator[Move]]] = {
    IDLE: Driving._idle,
    "loaded": Driving._look,
    "claim": Driving._claim,
    "claim?": Driving._claim_again,
    "create?": Driving._create_again,
    "answer": Driving._answer,
    "load": Driving._load,
    "seal": Driving._seal,
    "sealing": Driving._sealing,
    "seal?": Driving._seal_again,
    "step": Driving._step,
    "start": Driving._start,
    "append": Driving._append,
    "append?": Driving._append_again,
    "suspend": Driving._let_go,
    "complete": Driving._let_go,
    "release": Driving._let_go,
    "give up": Driving._give_up,
    "extend": Driving._extend,
    "extend?": Driving._extend_again,
    "refresh": Driving._refresh,
    "exec": Driving._refresh,
    "inbox": Driving._inbox,
}
