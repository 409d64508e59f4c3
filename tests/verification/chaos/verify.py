"""What has to be true once everything is over: of the documents, and of the ledgers.

Why the ledgers' check is sound: what stood in a history *before a process was started* can't be run by that process,
unless its driver ignored the history. A step that was not recorded yet may run twice, in hosts that overlap: at least
once is what the engine promises.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.verification.chaos.program import FIRST_TRY_FAILS, OUTCOMES

Document = dict[str, Any]
Attempt = tuple[str, str, int]
"""An execution, a step of it, and the number of the attempt; 0 for all of its attempts."""


class Run(NamedTuple):
    """A line of a ledger: `host` is the number of the process that wrote it."""

    host: int
    at: float
    execution: str
    step: str
    attempt: int
    what: str
    mark: str


@dataclass
class Findings:
    """What was checked, and what is wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def expect(self, condition: bool, problem: str) -> None:
        if not condition:
            self.problems.append(problem)


@dataclass
class Story:
    """All that is stored of one execution."""

    id: str
    exec: Document = field(default_factory=dict)
    chunks: list[Document] = field(default_factory=list)
    inbox: list[Document] = field(default_factory=list)
    output: str | None = None

    @property
    def events(self) -> list[Document]:
        return [event for chunk in self.chunks for event in chunk["events"]] + self.exec.get("lastEvents", [])

    @property
    def payload(self) -> Document:
        payload: Document = json.loads(self.exec["payload"])
        return payload

    @property
    def result(self) -> Any:
        return json.loads(self.exec.get("completedResult") or self.output or "null")

    def values(self, kind: str, *steps: str) -> list[Any]:
        """What those steps brought, in that order; every step of the kind, if none is named."""
        found = {event["step"]: json.loads(event["value"]) for event in self.events if event["kind"] == kind}
        return [found.get(step) for step in steps] if steps else list(found.values())


def attempts_recorded(documents: Iterable[Document]) -> frozenset[Attempt]:
    """Which steps, and which failed attempts of steps that go on, stand in a history."""
    found = set[Attempt]()
    for document in documents:
        for event in (*document.get("events", ()), *document.get("lastEvents", ())):
            if event["kind"] == "activity":
                found.add((document["executionId"], event["step"], 0))
            elif event["kind"] == "attempt":
                found.add((document["executionId"], event["step"], event["attempt"]))
    return frozenset(found)


def read_stories(documents: Iterable[Document]) -> dict[str, Story]:
    """The documents by execution."""
    stories: dict[str, Story] = {}
    for document in sorted(documents, key=lambda document: str(document["id"])):
        story = stories.setdefault(document["executionId"], Story(document["executionId"]))
        match document["id"].partition("::")[0]:
            case "exec":
                story.exec = document
            case "history":
                story.chunks.append(document)
            case "output":
                story.output = document["value"]
            case "deferred" | "child":
                story.inbox.append(document)
    return stories


def check_documents(stories: dict[str, Story], started: dict[str, str], findings: Findings) -> None:
    """`started`: the kind of each execution that was asked for, by id."""
    for id in started.keys() - stories.keys():
        findings.problems.append(f"{id}: it was accepted, and isn't there")
    for story in stories.values():
        _check_end(story, started, findings)
        _check_history(story, findings)
        _check_result(story, stories, findings)
        findings.counts["executions"] += 1
        findings.counts["children"] += story.id not in started
        findings.counts[f"outcome {story.exec.get('outcome')}"] += 1
        findings.counts["takeovers"] += sum(event["kind"] == "takeover" for event in story.events)


def _check_end(story: Story, started: dict[str, str], findings: Findings) -> None:
    exec, id = story.exec, story.id
    allowed = [OUTCOMES[started[id]]] if id in started else ["completed"]
    creator = exec.get("creator")
    if creator is not None and started.get(creator) == "stopped":
        allowed.append("interrupted")
    findings.expect(exec.get("status") == "complete", f"{id}: it has not ended: {exec}")
    findings.expect(exec.get("outcome") in allowed, f"{id}: {exec.get('outcome')}, not {allowed}: {exec.get('error')}")
    for name in ("worker", "leaseExpiresAt", "dueAt", "cause"):
        findings.expect(exec.get(name) is None, f"{id}: {name} is left: {exec.get(name)}")
    findings.expect(not exec.get("parents") or exec.get("parentsNotified") is True, f"{id}: its parent was not told")
    findings.expect(exec.get("claims", 0) == 0, f"{id}: claims without progress are left")
    if exec.get("outcome") == "failed":
        findings.expect(exec["error"]["type"].endswith("Refused"), f"{id}: failed with {exec['error']}")
    findings.expect(not exec.get("compensationErrors"), f"{id}: a compensation failed")


def _check_history(story: Story, findings: Findings) -> None:
    id = story.id
    numbers = [int(chunk["id"].partition("::")[2]) for chunk in story.chunks]
    findings.expect(numbers == list(range(len(numbers))), f"{id}: the history has gaps: {numbers}")
    length = len(numbers) + ("lastEvents" in story.exec)
    findings.expect(story.exec.get("historyLength") == length, f"{id}: the history isn't as long as it says")
    findings.expect(story.exec.get("inboxCount", 0) == len(story.inbox), f"{id}: the inbox isn't as full as it says")
    resolved = Counter(event["step"] for event in story.events if "step" in event and event["kind"] not in _OPEN)
    findings.expect(max(resolved.values(), default=1) == 1, f"{id}: a step ended twice: {resolved}")
    for event in story.events:
        findings.counts["recorded steps"] += event["kind"] == "activity"
        if event["kind"] == "attempt":
            expected = event["step"] == "stumble" and event["attempt"] == 1
            expected = expected and event["error"]["message"] == FIRST_TRY_FAILS
            findings.expect(expected, f"{id}: an attempt was burnt: {event}")
            findings.counts["failed attempts, all meant"] += 1
        else:
            findings.expect(event.get("error") is None, f"{id}: a failure was recorded: {event}")
    undone = {event["step"] for event in story.events if event["kind"] == "activity"}
    if story.exec.get("workflow") == "trade" and story.exec.get("outcome") in ("failed", "interrupted"):
        findings.expect(("work" in undone) == ("undo" in undone), f"{id}: work and its undoing don't match: {undone}")


_OPEN = ("attempt", "begun")
"""Kinds of events that don't end the step which they name."""


def _check_result(story: Story, stories: dict[str, Story], findings: Findings) -> None:
    """What the workflow returned is what its history says, and a child's end is what its parent was told."""
    if story.exec.get("outcome") != "completed":
        return
    match story.exec["workflow"]:
        case "carry":
            expected: Any = story.values("activity", "work", "press")
        case "tarry":
            expected = {"parts": story.values("activity", "linger", "hold", "work")}
        case "trade":
            number, legs = story.payload["number"], story.payload["legs"]
            carried = story.values("child", *(_nth("carry", n) for n in range(legs)))
            expected = {
                "parts": story.values("activity", "work", "work#2", "press", "stumble", "work#3"),
                "legs": [mark for leg in carried for mark in leg],
                "answer": [f"answer {number}"],
            }
            children = [child for child in stories.values() if child.exec.get("creator") == story.id]
            ends = sorted(child.result for child in children)
            findings.expect(ends == sorted(story.values("child")), f"{story.id}: a child said something else")
            findings.expect(len(children) == legs, f"{story.id}: {len(children)} children, not {legs}")
    findings.expect(story.result == expected, f"{story.id}: returned {story.result}, its history says {expected}")


def _nth(name: str, index: int) -> str:
    return name if index == 0 else f"{name}#{index + 1}"


def check_ledger(
    runs: Iterable[Run], recorded_before: dict[int, frozenset[Attempt]], stories: dict[str, Story], findings: Findings
) -> None:
    """`recorded_before`: what was recorded before each host was started."""
    ends: dict[str, Run] = {}
    begun: defaultdict[Attempt, int] = defaultdict(int)
    for run in runs:
        if run.what == "ends":
            ends[run.mark] = run
            continue
        findings.counts["runs of activities"] += 1
        begun[run.execution, run.step, run.attempt] += 1
        before = recorded_before[run.host]
        repeated = {(run.execution, run.step, 0), (run.execution, run.step, run.attempt)} & before
        findings.expect(not repeated, f"host {run.host} did again what was recorded before it started: {run}")
        most = 2 if run.step == "stumble" else 1
        findings.expect(run.attempt <= most, f"an attempt too many: {run}")
    findings.counts["runs again, before they were recorded"] = sum(count - 1 for count in begun.values())
    for story in stories.values():
        for event in story.events:
            if event["kind"] == "activity" and event.get("error") is None:
                end = ends.get(json.loads(event["value"]))
                known = end is not None and (end.execution, end.step) == (story.id, event["step"])
                findings.expect(known, f"{story.id}: no run made what is recorded: {event}")
