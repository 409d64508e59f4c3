"""The replay checker: recorded histories against today's code, from a test and from the command line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import Channel, Deferred, Failure, NonDeterminism, UnknownWorkflow, Workflow, activity, workflow
from engine.testing import Environment, export, replay
from engine.testing.__main__ import main
from engine.testing.replayer import NoRecording

answer = Deferred("checker.answer", str)
notes = Channel("checker.notes", str)
effects: list[str] = []


class Refused(Failure):
    why: str


class Missing(Failure):
    what: str


@activity
async def checker_look(what: str) -> str:
    effects.append(what)
    return what * 200_000 if what == "large" else what


@activity
async def checker_peek(what: str) -> str:
    return what


@workflow
async def part(what: str) -> str:
    return await checker_look(what)


@workflow
async def asks(what: str) -> str:
    """Every kind of step, and every kind of end."""
    found = await checker_look(what)
    child = await part("child")
    note = await notes.receive()
    try:
        async with asyncio.timeout(60):
            said = await answer
    except TimeoutError:
        raise Refused(why="nobody") from None
    return f"{found[:5]} {child} {note} {said}"


async def looks_elsewhere(what: str) -> str:
    return await checker_peek(what)


async def says_something_else(what: str) -> str:
    return "something else" + await asks.function(what)


async def fails_otherwise(what: str) -> str:
    try:
        return await asks.function(what)
    except Refused:
        raise Missing(what="an answer") from None


async def waits_on(what: str) -> str:
    result = await asks.function(what)
    await asyncio.sleep(1)
    return result


async def doubles(what: str) -> str:
    return await asks.function(what * 2)


def today(function: Any) -> list[Workflow[Any, Any]]:
    return [workflow(name="asks")(function)]


async def recorded(what: str = "a", how: str = "completed") -> str:
    """A recording of an execution of `asks` that stands there."""
    async with Environment([asks, part]) as env:
        execution = (await env.start(asks, what)).execution_id
        await env.client.send(execution, notes, "note")
        await env.settle()
        if how == "completed":
            await env.resolve(execution, answer, "yes")
        if how == "interrupted":
            await env.client.interrupt(execution)
        if how == "terminated":
            await env.client.terminate(execution)
        if how != "waiting":
            assert (await env.finish(execution)).outcome == how
        return await export(env.store, execution)


@pytest.mark.parametrize("how", ["completed", "failed", "interrupted", "terminated", "waiting"])
async def test_todays_code_replays_what_it_recorded(how: str) -> None:
    """Whatever it came to; nothing is executed."""
    recording = await recorded(how=how)
    effects.clear()
    replayed = replay(recording, [asks])
    assert effects == []
    if how in ("waiting", "terminated"):
        assert replayed.outcome is None
        assert replayed.waiting == ["timer timer", "deferred checker.answer"]
    else:
        assert replayed.outcome is not None
        assert replayed.outcome.kind == how


async def test_large_values_are_in_the_recording() -> None:
    """Payloads, results and steps that have documents of their own."""
    replayed = replay(await recorded("large"), [asks])
    assert replayed.outcome is not None
    assert replayed.outcome.value == '"large child note yes"'


@pytest.mark.parametrize(
    ("changed", "how", "words"),
    [
        (
            looks_elsewhere,
            "completed",
            "records the end of activity 'checker_look'.* now waits for activity 'c",
        ),
        (doubles, "waiting", "now asks activity 'checker_look' with another input"),
        (
            says_something_else,
            "completed",
            "ended as completed with .*, but today's code ends as completed with \"some",
        ),
        (fails_otherwise, "failed", "ended as failed with Refused, but today's code ends as failed with Missing"),
        (waits_on, "completed", "ended as completed, but today's code still waits for .*timer#2"),
    ],
)
async def test_changed_code_is_found(changed: Any, how: str, words: str) -> None:
    """A step renamed, another input, another result, another failure, one more step."""
    with pytest.raises(NonDeterminism, match=words):
        replay(await recorded(how=how), today(changed))


async def test_what_no_workflow_can_replay() -> None:
    """Another name; another version; a text that is no recording."""
    recording = await recorded()
    with pytest.raises(UnknownWorkflow, match="no workflow is named 'asks' with version '1'"):
        replay(recording, [part])
    with pytest.raises(UnknownWorkflow):
        replay(recording, [workflow(name="asks", version="2")(asks.function)])
    for text in ("", "[]", "{}", '{"execution": {}, "history": []}', recording[:-20]):
        with pytest.raises(NoRecording, match="a recording of an execution"):
            replay(text, [asks])


async def test_the_command_replays_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line each; the exit code is for CI."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "checker_app.py").write_text(f"from {__name__} import asks\nWORKFLOWS = [asks]\n")
    (tmp_path / "done.json").write_text(await recorded())
    (tmp_path / "open.json").write_text(await recorded(how="waiting"))
    monkeypatch.chdir(tmp_path)
    assert main(["checker_app", "done.json", "open.json"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "done.json: replays, completed",
        "open.json: replays, waits for timer timer, deferred checker.answer",
    ]
    (tmp_path / "other.json").write_text((tmp_path / "done.json").read_text().replace("checker_look", "gone"))
    (tmp_path / "torn.json").write_text("{")
    assert main(["checker_app", "other.json", "done.json", "torn.json"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[1].strip() for line in lines] == ["NonDeterminism", "replays, completed", "NoRecording"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "usage: python -m engine.testing MODULE RECORDING"),
        (["nowhere", "a.json"], "no module 'nowhere' here"),
        (["json", "a.json"], "module 'json' has no list WORKFLOWS"),
        (["tests.rules.guard.suspicious", "nowhere.json"], "nowhere.json"),
    ],
)
def test_the_command_says_what_it_cannot_read(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence and the usage."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


@workflow
async def gives_a_set() -> set[str]:
    return {await checker_look(word) for word in ("a", "b", "c")}


async def test_a_set_is_equal_in_any_order() -> None:
    """Another process, with other hashes, writes it in another order."""
    async with Environment([gives_a_set]) as env:
        id = (await env.start(gives_a_set)).execution_id
        await env.finish(id)
        recording = json.loads(await export(env.store, id))
    for words in (["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]):
        recording["execution"]["completedResult"] = json.dumps(words)
        assert replay(json.dumps(recording), [gives_a_set]).outcome
    recording["execution"]["completedResult"] = json.dumps(["a", "b"])
    with pytest.raises(NonDeterminism):
        replay(json.dumps(recording), [gives_a_set])
