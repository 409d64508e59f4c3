"""`durable export` and `replay`: write a history to a file, and replay it with today's code."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.cli.options import AsJson, Key, Module, Named, StoreFile, id_of
from engine.cli.output import print_json, printable
from engine.cli.problems import PROBLEM, USAGE, Refused
from engine.cli.stores import opened, settings_for
from engine.core.declarations import Workflow
from engine.ground.errors import Fault, Missing, UnknownWorkflow
from engine.guard.modules import Unreadable, workflows_of
from engine.testing.replayer import NoRecording
from engine.testing.replayer import export as exported
from engine.testing.replayer import replay as replayed


def export(
    execution: Named,
    key: Key = None,
    store: StoreFile = None,
    to: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file, not to standard output.")
    ] = None,
) -> None:
    """Read an execution from the store, and write its recording: its history as JSON.

    A recording contains the stored values of the execution.
    """
    id = id_of(execution, key)

    async def read() -> str:
        async with opened(settings_for(store)) as runtime:
            try:
                return await exported(runtime.store, id)
            except Missing:
                raise Refused(f"there is no execution {id} in this store") from None

    recording = asyncio.run(read())
    if to is None:
        typer.echo(recording)
        return
    try:
        to.write_text(f"{recording}\n", "utf-8")
    except OSError as error:
        raise Refused(f"the recording can't be written: {error}") from None


def replay(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Recordings, as `durable export` writes them.")],
    module: Module = "workflows",
    as_json: AsJson = False,
) -> None:
    """Replay recordings against the code here. The exit code is 1 if one no longer replays."""
    workflows = workflows_in(module)
    try:
        recordings = [(file, file.read_text("utf-8")) for file in files]
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"a recording can't be read: {error}", USAGE) from None
    results = [{"file": str(file), **verdict(recording, workflows)} for file, recording in recordings]
    if as_json:
        print_json({"recordings": results})
    else:
        for result in results:
            typer.echo(printable(f"{result['file']}: {sentence(result)}"))
    if not all(result["replays"] for result in results):
        raise typer.Exit(PROBLEM)


def workflows_in(module: str) -> Sequence[Workflow[Any, Any]]:
    """The WORKFLOWS of a module. Raises Refused."""
    try:
        return workflows_of(module)
    except Unreadable as error:
        raise Refused(f"{error}. --module names the module with the list WORKFLOWS", USAGE) from None


def verdict(recording: str, workflows: Sequence[Workflow[Any, Any]]) -> dict[str, Any]:
    """Replay a recording. Returns, as JSON data, whether it replays, and its outcome or the steps that it waits for."""
    try:
        found = replayed(recording, workflows)
    except (Fault, UnknownWorkflow, NoRecording) as problem:
        return {"replays": False, "problem": type(problem).__name__, "detail": str(problem)}
    if found.outcome is not None:
        return {"replays": True, "outcome": found.outcome.kind}
    return {"replays": True, "waiting": found.waiting}


def sentence(verdict: Mapping[str, Any]) -> str:
    """A verdict for a person."""
    if not verdict["replays"]:
        return f"{verdict['problem']}: {verdict['detail']}"
    return f"replays, {verdict['outcome'] if 'outcome' in verdict else 'waits for ' + ', '.join(verdict['waiting'])}"
