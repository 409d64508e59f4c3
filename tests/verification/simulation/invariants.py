"""What must hold after every effect in the store, and at every start of an activity.

1. A history is one gapless sequence. What is recorded never changes. Nothing is recorded once an execution has ended
   (but for `terminate`, which doesn't wait for the driver), and nothing for an execution that there is not.
2. A step ends once. What is recorded of a deferred, a child or a channel is what stands in the inbox; a channel's value
   is received once; inbox documents never change, so the first value of a deferred stays.
3. Whatever a workflow's code saw before its driver's write is recorded with that write at the latest.
4. A result never changes. An interrupt is never taken back, and who was interrupted ends as interrupted, or terminated.
5. `wake`, `seenWake` and `historyLength` never shrink; `wake` grows with every piece of news; `inboxCount` counts the
   inbox; no lease is taken before its end. A running execution loses documents by a restart alone: inbox items that
   its run has read, all of them, and chunks of earlier runs.
6. A step has one label, whoever starts it, and a label tells what its workflow had seen: activities are started by
   what is recorded (write-ahead). Once a driver has loaded the history and holds the lease, nobody else adds to it
   (the seal).
7. An activity whose result is recorded never starts again. Exempt is what a process had decided before it was frozen:
   between its look at the clock and the first line of the activity nothing can be done.
"""

from __future__ import annotations

import contextvars
import json
from collections import Counter
from collections.abc import Iterator, Set
from datetime import datetime
from typing import Any

from engine.core.activity_info import ActivityInfo
from engine.core.run import Run
from engine.ground.clock import isoformat
from engine.store.documents import EXEC, INPUT, Chunk, Document, chunk_id, inbox_id
from engine.values.events import AttemptFailed, Event, Reopened, StepHeld, StepResolved, Takeover, effective
from tests.verification.simulation.container import Documents

INBOX = ("deferred::", "child::", "channel::")
FINAL = ("status", "outcome", "completedResult", "error", "compensationErrors", "completedAt", "historyLength")
"""Fields that a complete execution keeps."""


class Violation(AssertionError):
    """An invariant doesn't hold."""


class ObservedRun(Run):
    """A run whose code tells what it sees. The driver that made it is known by the context that it works in."""

    def __init__(
        self,
        workflow: Any,
        execution_id: str,
        payload: str,
        begun: datetime,
        ancestors: tuple[str, ...],
        run_id: str,
        *rest: Any,
    ) -> None:
        self.observed: list[list[Any]] = []
        self.checked = 0
        self.token = ""
        self.begun = isoformat(begun)
        self.identity = execution_id, run_id
        super().__init__(workflow, execution_id, payload, begun, ancestors, run_id, *rest)
        self.context.observed = self.observed  # type: ignore[attr-defined]


RUN: contextvars.ContextVar[ObservedRun] = contextvars.ContextVar("run")

Identity = tuple[str, str]
"""A run: the id of its execution, and its own. A purged execution may be started again; a restart begins a new run."""


class Known:
    """What is known of one execution."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.resolved: dict[str, StepResolved] = {}
        self.items: set[str] = set()
        self.values: set[str] = set()
        self.chunks = 0
        self.failed: Counter[str] = Counter()
        self.labels: dict[str, str] = {}
        self.starts: Counter[str] = Counter()
        self.driver: ObservedRun | None = None
        """Whoever loaded the history last while it held the lease."""

    def reopen(self) -> None:
        """Forget what a reopening took back from the history. The steps that it took back may run again."""
        self.events = effective(self.events)
        self.resolved, self.items, self.failed, self.driver = {}, set(), Counter(), None
        for event in self.events:
            self.count(event)
        recorded = self.failed + Counter(list(self.resolved))
        self.starts = Counter({step: recorded[step] for step in self.starts if recorded[step]})
        self.labels = {step: label for step, label in self.labels.items() if step in self.starts}

    def count(self, event: Event) -> None:
        """Note what an event records of its step."""
        if isinstance(event, AttemptFailed | StepHeld):
            self.failed[event.step] += 1
        if isinstance(event, StepResolved):
            self.resolved[event.step if event.kind == "activity" else f"{event.kind}:{event.step}"] = event
            if event.kind == "channel":
                self.items.add(str(event.item))


class Invariants:
    """Hears of every change of the container and every start of an activity. Raises Violation."""

    def __init__(self) -> None:
        self._known: dict[Identity, Known] = {}

    def of(self, identity: Identity) -> Known:
        """What is known of an execution."""
        return self._known.setdefault(identity, Known())

    def all(self) -> Iterator[tuple[Identity, Known]]:
        """Everything that is known."""
        yield from self._known.items()

    def committed(self, now: datetime, run: ObservedRun | None, before: Documents, after: Documents) -> None:
        """A transaction took place; `run` is that of the driver that sent it."""
        if EXEC not in after:
            _require(not after, f"documents of no execution were left or written: {sorted(after)}")
            return
        before, after = _with_last_chunk(before), _with_last_chunk(after)
        new, old = after[EXEC], before.get(EXEC)
        known = self.of(_identity(new))
        if old is None:
            _require(not before, f"an execution was created over what is there: {sorted(before)}")
        is_restart = old is not None and _identity(old) != _identity(new)
        if is_restart:
            known.chunks = new.get("historyStart", 0)
        gone = before.keys() - after.keys()
        if new["status"] != "complete" and (gone or is_restart):
            _check_gone(run, gone, after, is_restart)
        for id, document in after.items():
            if document is before.get(id) or id == EXEC or (_lies_in_exec(document) and document == before.get(id)):
                continue
            if id in before:
                document = _continued(before[id], document)
                known.chunks -= 1
            if id.startswith("history::"):
                self._append(known, after, old or new, document)
        if old is not None and new is not old:
            _compare(now, old, new, bool(gone), any(map(_reopens, _new_chunks(before, after))))
        if new["status"] == "running" or not gone:
            self._count(known, new, after)
        if (
            run is not None
            and _new_chunks(before, after)
            and not is_restart
            and not any(map(_is_seal, known.events[-1:]))
        ):
            self._saw(known, run, old or new)

    def began(self, run: ObservedRun) -> None:
        """A driver that holds the lease has loaded the history."""
        self.of(run.identity).driver = run

    def started(self, run: ObservedRun, info: ActivityInfo, label: str, is_stale: bool) -> None:
        """An attempt of an activity starts. `is_stale`: its process was frozen since it was decided."""
        known = self.of(run.identity)
        known.starts[info.step] += 1
        _require(
            known.labels.setdefault(info.step, label) == label,
            f"step {info.step} was started as {known.labels[info.step]} and as {label}: before what it follows from "
            "was recorded",
        )
        _require(
            is_stale or info.step not in known.resolved, f"{info.step} ({label}) starts, but its result is recorded"
        )

    # -- inside --

    def _append(self, known: Known, after: Documents, exec_before: Document, document: Document) -> None:
        chunk = Chunk.from_document(document)
        _require(chunk.number == known.chunks, f"{document['id']} follows {known.chunks} chunks")
        _require(
            exec_before["status"] == "running" or exec_before["outcome"] == "terminated" or _reopens(document),
            f"{document['id']} was written after the end",
        )
        known.chunks += 1
        for event in chunk.decoded():
            known.events.append(event)
            if isinstance(event, StepResolved):
                self._resolve(known, after, event)
            known.count(event)
            if isinstance(event, Reopened):
                known.reopen()

    def _resolve(self, known: Known, after: Documents, event: StepResolved) -> None:
        step = f"{event.kind}:{event.step}" if event.kind != "activity" else event.step
        _require(step not in known.resolved, f"{event.kind} {event.step} ended twice")
        if event.error is not None:
            known.values.add(canonical(event.error.message))
        elif event.kind != "timer":
            known.values.add(canonical(json.loads(event.value or "null")))
        if event.kind == "channel":
            _require(event.item is not None and event.item not in known.items, f"{event.item} was received twice")
            self._same(after, str(event.item), event)
        if event.kind == "deferred":
            inbox = [d for id, d in after.items() if id.startswith("deferred::") and d["name"] == event.step]
            _require(len(inbox) == 1, f"{event.step} is recorded, but nobody sent it")
            self._same(after, inbox[0]["id"], event)

    def _same(self, after: Documents, id: str, event: StepResolved) -> None:
        found = after.get(id, {}).get("value")
        _require(found == event.value, f"{event.step} is recorded as {event.value}, but {id} holds {found}")

    def _count(self, known: Known, new: Document, after: Documents) -> None:
        inbox = sum(1 for id in after if id.startswith(INBOX))
        _require(new["inboxCount"] == inbox, f"inboxCount is {new['inboxCount']}, but there are {inbox}")
        _require(new["historyLength"] <= known.chunks, "historyLength counts chunks that there are not")
        _require(new["seenWake"] <= new["wake"], "more was seen than there was to see")

    def _saw(self, known: Known, run: ObservedRun, exec_before: Document) -> None:
        if run.identity != _identity(exec_before):
            return
        _require(
            run is known.driver or known.driver is None or known.driver.token != exec_before.get("worker"),
            "a driver added to a history that another one has loaded since, which holds the lease",
        )
        for kind, label, seen in run.observed[run.checked :]:
            _require(
                kind != "value" or canonical(seen) in known.values,
                f"at {label} the workflow saw {str(seen)[:60]}, which isn't recorded",
            )
        run.checked = len(run.observed)


def _identity(document: Document) -> Identity:
    return document["executionId"], document["runId"]


def _check_gone(run: ObservedRun | None, gone: Set[str], after: Documents, is_restart: bool) -> None:
    """What a running execution loses."""
    stale = {id for id in gone if id.startswith("history::") and id < chunk_id(after[EXEC].get("historyStart", 0))}
    items = gone - stale - {INPUT}
    _require(all(id.startswith(INBOX) for id in items), f"documents of a running execution went: {sorted(items)}")
    if not items and not is_restart:
        return
    _require(run is not None and run.next_payload is not None, f"items went without a restart: {sorted(items)}")
    assert run is not None
    read = run.taken | {inbox_id("deferred", name) for name in run.received}
    unread = {id for id in items if id not in read and not id.startswith("child::")}
    _require(not unread, f"a restart deletes what its run has not read: {sorted(unread)}")
    left = (read & after.keys()) if is_restart else set()
    _require(not left, f"a restart leaves what its run has read: {sorted(left)}")


def _new_chunks(before: Documents, after: Documents) -> list[Document]:
    return [
        document
        for id, document in after.items()
        if id.startswith("history::") and (id not in before or _lies_in_exec(before[id]) > _lies_in_exec(document))
    ]


def _with_last_chunk(documents: Documents) -> Documents:
    """With the last chunk as a document, if it lies in the exec document."""
    execution = documents.get(EXEC, {})
    if "lastEvents" not in execution:
        return documents
    numbers = [int(id.partition("::")[2]) for id in documents if id.startswith("history::")]
    id = chunk_id(max([execution["historyLength"] - 1, *(number + 1 for number in numbers)]))
    named = {name: execution[name] for name in ("executionId", "runId")}
    return {**documents, id: {"id": id, **named, "events": execution["lastEvents"], "liesInExec": True}}


def _lies_in_exec(document: Document) -> bool:
    return "liesInExec" in document


def _continued(last: Document, document: Document) -> Document:
    """What a reopening adds to the last chunk, which then has a document."""
    _require(_lies_in_exec(last), f"{last['id']} was written over")
    events = last["events"]
    _require(document["events"][: len(events)] == events, f"{last['id']} lost events when it got a document")
    return {**document, "events": document["events"][len(events) :]}


def _reopens(document: Document) -> bool:
    return any(event["kind"] == "reopened" for event in document["events"])


def _compare(now: datetime, old: Document, new: Document, is_less: bool, is_reopened: bool) -> None:
    for name in ("wake", "seenWake", "historyLength", *(() if is_less else ("inboxCount",))):
        _require(new[name] >= old[name], f"{name} went from {old[name]} back to {new[name]}")
    _require(new["interrupted"] or not old["interrupted"] or is_reopened, "an interrupt was taken back")
    news = new["inboxCount"] > old["inboxCount"] or new["interrupted"] != old["interrupted"]
    _require(not news or new["wake"] > old["wake"], "there is news, but `wake` didn't grow")
    if is_reopened:
        _require(old["outcome"] in ("failed", "interrupted"), f"it was {old['outcome']}, and runs again")
        _require(not old.get("undone"), "its compensations have run, and it runs again")
        asks = {parent["executionId"] for parent in new["parents"]}
        know = {parent["executionId"] for parent in old["parents"]}
        _require(know <= asks, f"{know - asks} wait for it or know its end, and it runs again")
        _require(not know or bool(old.get("parentsNotified")), "its parent lacks its end, and it runs again")
    elif old["status"] == "complete":
        changed = [name for name in FINAL if new.get(name) != old.get(name)]
        _require(not changed, f"a complete execution changed: {changed}")
    elif new["status"] == "complete" and old["interrupted"]:
        _require(new["outcome"] in ("interrupted", "terminated"), f"interrupted, but ends as {new['outcome']}")
    if new.get("worker") not in (None, old.get("worker")) and old.get("leaseExpiresAt"):
        _require(isoformat(now) >= old["leaseExpiresAt"], "a lease was taken before its end")


def canonical(value: Any) -> str:
    """One text for one JSON value."""
    return json.dumps(value, sort_keys=True)


def _is_seal(event: Event) -> bool:
    return isinstance(event, Takeover)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Violation(message)
