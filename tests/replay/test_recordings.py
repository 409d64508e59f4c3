"""The recordings, histories of earlier code, replay for ever: to the same end, asking for nothing else on the way."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from engine.ground.errors import DecodingError, Fault, NonDeterminism
from engine.store.documents import Execution
from engine.testing import replay
from engine.testing.__main__ import main as check
from engine.values.error_records import ErrorRecord
from engine.values.events import Event, StepKind, effective
from tests.replay.layout import ROOT
from tests.replay.record import FOLDER, STORIES, asked, events_of, main
from tests.replay.recorded_workflows import WORKFLOWS

RECORDINGS = sorted(FOLDER.glob("*.json"))
every_recording = pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)


def _text(name: str) -> str:
    return (FOLDER / f"{name}.json").read_text("utf-8")


def _execution(text: str) -> Execution:
    return Execution.from_document(json.loads(text)["execution"])


def _shown(error: ErrorRecord | None) -> tuple[Any, ...] | None:
    """What must stay of an error: all but its traceback, which names lines of today's files."""
    return (error.type, error.module, error.message, error.data, _shown(error.cause)) if error else None


@every_recording
def test_it_replays_to_its_end(path: Path) -> None:
    """The same outcome, value and failures; one that hadn't ended waits for the same."""
    text = path.read_text("utf-8")
    execution, replayed = _execution(text), replay(text, WORKFLOWS)
    if not execution.is_complete or execution.outcome == "terminated":
        assert replayed.outcome is None
        assert replayed.waiting
        return
    assert replayed.outcome is not None
    assert (replayed.outcome.kind, replayed.outcome.value) == (execution.outcome, execution.completed_result)
    assert _shown(replayed.outcome.error) == _shown(execution.error)
    failures = [_shown(error) for error in replayed.outcome.compensation_errors]
    assert failures == [_shown(error) for error in execution.compensation_errors]


@every_recording
def test_it_asks_for_what_it_asked_for(path: Path) -> None:
    """Each step and its digest, in order, those that were given up or never answered too, and nothing beside them."""
    text = path.read_text("utf-8")
    run, steps = asked(text)
    assert steps == json.loads(text)["asked"]
    assert run.turn == len(effective(events_of(text)))


@every_recording
def test_it_is_of_no_machine(path: Path) -> None:
    text = path.read_text("utf-8")
    assert str(ROOT) not in text
    assert "/home/" not in text


def test_every_story_is_recorded() -> None:
    assert {path.stem for path in RECORDINGS} == STORIES.keys()


def _kinds() -> Iterator[str]:
    """Every kind of event that a history can hold."""
    yield from typing.get_args(StepKind)
    for event in typing.get_args(Event):
        kind = {field.name: field.default for field in fields(event)}["kind"]
        if isinstance(kind, str):
            yield kind


def test_every_kind_of_event_is_in_a_recording() -> None:
    kinds = set(_kinds())
    assert {"activity", "attempt", "begun", "interrupted", "takeover"} < kinds
    recorded = {event.kind for path in RECORDINGS for event in events_of(path.read_text("utf-8"))}
    assert recorded == kinds


Holds = Callable[[Execution, list[Any]], Any]
FEATURES: dict[str, Holds] = {
    "a typed failure": lambda _, events: any(e.kind == "activity" and e.error and e.error.data for e in events),
    "an untyped failure": lambda _, events: any(e.kind == "activity" and e.error and not e.error.data for e in events),
    "a cause": lambda _, events: any(e.kind == "activity" and e.error and e.error.cause for e in events),
    "a retry": lambda _, events: any(e.kind == "attempt" for e in events),
    "a resumed step": lambda _, events: any(e.kind == "held" for e in events),
    "a second call": lambda _, events: any(e.kind == "activity" and e.step.endswith("#2") for e in events),
    "a time limit": lambda _, events: any(e.kind == "timer" and e.step == "time limit" for e in events),
    "a keyed deferred": lambda _, events: any(e.kind == "deferred" and "[" in e.step for e in events),
    "a deferred that failed": lambda _, events: any(e.kind == "deferred" and e.error for e in events),
    "a value of a channel": lambda _, events: any(e.kind == "channel" and e.item for e in events),
    "a child that failed": lambda _, events: any(e.kind == "child" and e.error for e in events),
    "a child that was stopped": lambda _, e: any(
        x.kind == "child" and x.error and x.error.type == "ChildStopped" for x in e
    ),
    "a compensation that failed": lambda execution, _: execution.compensation_errors,
    "a large payload": lambda execution, _: len(execution.payload or "") > 4_096,
    "a large result": lambda execution, _: len(execution.completed_result or "") > 4_096,
    "a seed of its run": lambda execution, _: execution.workflow == "recorded.chance" and execution.logic_flags,
    "a seed of its id": lambda execution, _: execution.workflow == "recorded.chance" and not execution.logic_flags,
    "an input of a child": lambda _, events: any(e.kind == "begun" and e.input for e in events),
    "an input of an activity": lambda _, events: any(e.kind == "activity" and e.input for e in events),
    "an input of a timer": lambda _, events: any(e.kind == "timer" and e.input for e in events),
    "an activity without its input": lambda _, events: any(e.kind == "activity" and not e.input for e in events),
    "two reasons to end": lambda execution, events: (
        execution.interrupted and any(e.kind == "timer" and e.step == "time limit" for e in events)
    ),
    "a finalizer that was told again": lambda _, events: any(
        e.kind == "activity" and e.step == "recorded.report#2" for e in events
    ),
    "still running": lambda execution, _: not execution.is_complete,
} | {
    f"outcome {outcome}": lambda execution, _, outcome=outcome: execution.outcome == outcome
    for outcome in ("completed", "failed", "interrupted", "terminated")
}


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_that_a_history_shows_is_in_a_recording(feature: str) -> None:
    texts = [path.read_text("utf-8") for path in RECORDINGS]
    assert any(FEATURES[feature](_execution(text), events_of(text)) for text in texts)


# -- what the check is worth: recordings that were tampered with --


Change = Callable[[dict[str, Any]], tuple[str, str]]
"""Changes an event; returns what the message must say that was recorded, and what the code does."""


def _tampered(text: str, change: Change, which: Callable[[dict[str, Any]], bool]) -> tuple[str, str, str]:
    data = json.loads(text)
    event = next(event for chunk in data["history"] for event in chunk["events"] if which(event))
    recorded, found = change(event)
    return json.dumps(data), recorded, found


def _rename(event: dict[str, Any]) -> tuple[str, str]:
    old, event["step"] = event["step"], "somebody.else"
    return f"{event['kind']} 'somebody.else'", repr(old)


def _redigest(event: dict[str, Any]) -> tuple[str, str]:
    old, event["digest"] = event["digest"], "0123456789abcdef"
    event.pop("input", None)  # by which another digest may be right
    return "recorded 0123456789abcdef", f"digest {old}"


def _is_answer(event: dict[str, Any]) -> bool:
    return event["kind"] in typing.get_args(StepKind)


@every_recording
@pytest.mark.parametrize("change", [_rename, _redigest])
def test_one_changed_step_is_found(path: Path, change: Change) -> None:
    """In every recording: the message names what was recorded and what the code asks for now."""
    text, recorded, found = _tampered(path.read_text("utf-8"), change, _is_answer)
    with pytest.raises(NonDeterminism) as caught:
        replay(text, WORKFLOWS)
    assert recorded in str(caught.value)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("name", "step", "value", "place"),
    [
        ("order", "recorded.price", '"many"', "the result of activity recorded.price"),
        ("together", "recorded.work", "[1]", "the result of activity recorded.work"),
        ("waits", "recorded.approval", '"perhaps"', "deferred recorded.approval"),
        ("hears", "recorded.remarks", "7", "channel recorded.remarks"),
        ("house", "recorded.build#2", "{}", "the result of workflow recorded.build"),
        ("values", "recorded.give", '{"offset": 1}', "the result of activity recorded.give"),
    ],
)
def test_a_value_of_another_type_is_found(name: str, step: str, value: str, place: str) -> None:
    """The message names the place with its type, and what is stored there."""

    def change(event: dict[str, Any]) -> tuple[str, str]:
        event["value"] = value
        return value.strip('"'), place

    text, _, found = _tampered(_text(name), change, lambda event: _is_answer(event) and event["step"] == step)
    with pytest.raises(DecodingError) as caught:
        replay(text, WORKFLOWS)
    assert found in str(caught.value)


def test_another_result_is_found() -> None:
    data = json.loads(_text("taken-over"))
    data["execution"]["completedResult"] = '"another"'
    with pytest.raises(NonDeterminism, match=r'completed with "another", but .* completed with "first second True"'):
        replay(json.dumps(data), WORKFLOWS)


ENDED = [path for path in RECORDINGS if _execution(path.read_text("utf-8")).outcome not in (None, "terminated")]


@pytest.mark.parametrize("path", ENDED, ids=lambda path: path.stem)
def test_a_missing_answer_is_found(path: Path) -> None:
    """Whatever the code then still waits for: it differs from what is recorded, or from how it ended."""
    data = json.loads(path.read_text("utf-8"))
    chunk = next(chunk for chunk in reversed(data["history"]) if any(map(_is_answer, chunk["events"])))
    chunk["events"].remove(next(event for event in reversed(chunk["events"]) if _is_answer(event)))
    with pytest.raises(Fault):
        replay(json.dumps(data), WORKFLOWS)


# -- the two commands --


def test_the_checker_takes_the_recordings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`python -m engine.testing` says so of each, and fails on one that was tampered with."""
    module = "tests.replay.recorded_workflows"
    assert check([module, *map(str, RECORDINGS)]) == 0
    assert capsys.readouterr().out.count(": replays, ") == len(RECORDINGS)
    bad = tmp_path / "bad.json"
    bad.write_text(_tampered(_text("order"), _rename, _is_answer)[0], "utf-8")
    assert check([module, str(bad), str(RECORDINGS[0])]) == 1
    assert "NonDeterminism" in capsys.readouterr().out


def test_recordings_are_never_written_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What is missing is recorded; what is there stays as it is, also where it is asked for by name."""
    (tmp_path / "order.json").write_text("old", "utf-8")
    assert main(["timers"], tmp_path) == 0
    assert main(["order"], tmp_path) == 1
    assert main(["unheard-of"], tmp_path) == 1
    assert "order: exists" in capsys.readouterr().err
    assert (tmp_path / "order.json").read_text("utf-8") == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"order.json", "timers.json"}
    assert main([], FOLDER) == 0
    assert asked((tmp_path / "timers.json").read_text("utf-8"))[1] == json.loads(_text("timers"))["asked"]
