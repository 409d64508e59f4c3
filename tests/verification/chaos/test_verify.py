"""The checks themselves: on a run without faults they find nothing, and each kind of damage is found."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from engine.testing import Environment
from tests.support.stored import store_of
from tests.verification.chaos import program
from tests.verification.chaos.program import CHAOS, Job, answer, trade
from tests.verification.chaos.verify import (
    Document,
    Findings,
    Run,
    attempts_recorded,
    check_documents,
    check_ledger,
    read_stories,
)


@pytest.fixture
async def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[Document], list[Run]]:
    """A trade with a child, from start to end: its id, all documents, and what the activities did."""
    ledger = tmp_path / "ledger"
    monkeypatch.setenv("CHAOS_LEDGER", str(ledger))
    program._ledger.cache_clear()
    async with Environment(CHAOS) as env:
        id = (await env.start(trade, Job(number=1, kind="paid", legs=1, pause=1))).execution_id
        await env.resolve(id, answer, "answer 1")
        await env.finish(id)
        env.clock.advance(timedelta(minutes=1))
        await env.worker.sweep()
        rows = await store_of(env)._read(lambda db: db.execute("SELECT body FROM documents").fetchall())
    program._ledger.cache_clear()
    runs = [Run(0, *json.loads(line)) for line in (await asyncio.to_thread(ledger.read_text)).splitlines()]
    return id, [json.loads(body) for (body,) in rows], runs


def problems(id: str, documents: list[Document], runs: list[Run], before: list[Document] | None = None) -> list[str]:
    findings, stories = Findings(), read_stories(documents)
    check_documents(stories, {id: "paid"}, findings)
    check_ledger(runs, {0: attempts_recorded(before or []), 1: attempts_recorded(documents)}, stories, findings)
    return findings.problems


def test_a_sound_run_has_no_problems(recorded: tuple[str, list[Document], list[Run]]) -> None:
    id, documents, runs = recorded
    assert problems(id, documents, runs) == []


Damage = Callable[[dict[str, Document]], object]


def _event(documents: dict[str, Document], step: str) -> Document:
    events = [event for document in documents.values() for event in document.get("events", ())]
    found: Document = next(event for event in events if event.get("step") == step)
    return found


DAMAGES: dict[str, tuple[Damage, str]] = {
    "lost": (lambda d: d.clear(), "it was accepted, and isn't there"),
    "running": (lambda d: d["exec"].update(status="running", outcome=None), "it has not ended"),
    "other end": (
        lambda d: d["exec"].update(outcome="failed", error={"type": "x.Refused"}),
        "failed, not ['completed']",
    ),
    "leased": (lambda d: d["exec"].update(worker="w"), "worker is left"),
    "due": (lambda d: d["exec"].update(dueAt="2027-01-01T00:00:00Z"), "dueAt is left"),
    "counted": (lambda d: d["exec"].update(claims=1), "claims without progress are left"),
    "other result": (lambda d: d["exec"].update(completedResult="{}"), "its history says"),
    "gap": (lambda d: d.pop("history::00000000"), "the history has gaps"),
    "deferred gone": (lambda d: d.pop("deferred::chaos.answer"), "the inbox isn't as full as it says"),
    "twice": (lambda d: d["history::00000000"]["events"].append(_event(d, "work")), "a step ended twice"),
    "burnt": (lambda d: _event(d, "stumble").update(step="press"), "an attempt was burnt"),
    "failure": (lambda d: _event(d, "work").update(error={"message": "terminated"}), "a failure was recorded"),
    "nobody's": (lambda d: _event(d, "press").update(value='"made up"'), "no run made what is recorded"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_found(recorded: tuple[str, list[Document], list[Run]], name: str) -> None:
    id, documents, runs = recorded
    damage, problem = DAMAGES[name]
    own = {document["id"]: copy.deepcopy(document) for document in documents if document["executionId"] == id}
    damage(own)
    others = [document for document in documents if document["executionId"] != id]
    found = problems(id, [*own.values(), *others], runs)
    assert any(problem in text for text in found), found


def test_a_parent_that_was_not_told_is_found(recorded: tuple[str, list[Document], list[Run]]) -> None:
    id, documents, runs = recorded
    changed = [
        {**document, "parentsNotified": False} if document.get("parents") else document for document in documents
    ]
    assert any("its parent was not told" in text for text in problems(id, changed, runs))


def test_a_recorded_step_that_runs_again_is_found(recorded: tuple[str, list[Document], list[Run]]) -> None:
    """Host 1 was started after all was recorded; an earlier host may repeat what wasn't."""
    id, documents, runs = recorded
    again = next(run for run in runs if run.step == "press")
    assert problems(id, documents, [*runs, again]) == []
    found = problems(id, documents, [*runs, again._replace(host=1)])
    assert any("did again what was recorded before it started" in text for text in found), found
    failed = next(run for run in runs if (run.step, run.attempt) == ("stumble", 1))
    found = problems(id, documents, [*runs, failed._replace(host=1)])
    assert any("did again what was recorded before it started" in text for text in found), found
