"""`durable watch`: shows the progress of an execution until it ends."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from engine.cli.api import Api
from engine.cli.display import Json, custom_status, show_execution, state, state_of, step_line
from engine.cli.options import AsJson, Key, Named, Url, id_of
from engine.cli.output import new_console, print_json, print_shown, text
from engine.cli.starting import raise_unless_well

MAX_STEPS = 10_000
"""The most steps that the command counts."""
MAX_OPEN = 12
"""The most open steps that the command shows."""

Look = tuple[Json, list[dict[str, Any]]]
"""The status of an execution, and its steps."""


def watch(
    execution: Named,
    key: Key = None,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.1, max=60, help="The time between two requests.")
    ] = 1.0,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Follow an execution until it ends. The exit code is 1 if the execution failed or was stopped.

    On a terminal, the command shows how many steps have ended, and the open steps. Without a terminal, it prints a line
    for each change. With --json, each line is the API's status with `pending`.
    """
    with Api.at(url) as api:
        path = f"executions/{id_of(execution, key)}"
        if as_json:
            last = _follow_json(api, path, every)
        elif sys.stdout.isatty():
            last = _follow_live(api, path, every)
        else:
            last = _follow_lines(api, path, every)
    raise_unless_well(last)


def _follow_json(api: Api, path: str, every: float) -> Json:
    before = None
    while True:
        status: dict[str, Any] = api.get(path, {"pending": "true"})
        if status != before:
            print_json(status, None)
        if status["status"] == "complete":
            return status
        before = status
        time.sleep(every)


def _follow_live(api: Api, path: str, every: float) -> Json:
    with Live(console=new_console(), auto_refresh=False) as live:
        while True:
            status, steps = _look(api, path)
            live.update(_picture(status, steps), refresh=True)
            if status["status"] == "complete":
                break
            time.sleep(every)
    print_shown(show_execution(status))
    return status


def _follow_lines(api: Api, path: str, every: float) -> Json:
    before = None
    while True:
        status, steps = _look(api, path)
        line = _line(status, steps)
        if line != before:
            typer.echo(line)
        if status["status"] == "complete":
            print_shown(show_execution(status))
            return status
        before = line
        time.sleep(every)


def _look(api: Api, path: str) -> Look:
    steps = api.get(f"{path}/steps", {"limit": str(MAX_STEPS)})["steps"]
    return api.get(path), steps


def _line(status: Json, steps: list[dict[str, Any]]) -> str:
    awaited = ", ".join(f"{step['kind']} {step['step']}" for step in _open(status, steps)[:MAX_OPEN])
    ended = f"{state_of(status)}, {_ended(steps)} of {len(steps)} steps"
    shown = custom_status(status)
    return str(text(f"{ended}{f', shows {shown}' if shown else ''}{f', waits for {awaited}' if awaited else ''}"))


def _picture(status: Json, steps: list[dict[str, Any]]) -> RenderableType:
    head = Table.grid(padding=(0, 1))
    bar = ProgressBar(max(1, len(steps)), _ended(steps), width=30)
    head.add_row(text(status["workflow"], "bold"), state(status), bar, text(f"{_ended(steps)} of {len(steps)} steps"))
    awaited = _open(status, steps)
    lines = [step_line(step) for step in awaited[:MAX_OPEN]]
    if len(awaited) > MAX_OPEN:
        lines.append(text(f"and {len(awaited) - MAX_OPEN} more"))
    shown = custom_status(status)
    return Group(head, *([text(shown)] if shown else []), *lines)


def _open(status: Json, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [] if status["status"] == "complete" else [step for step in steps if step["state"] == "open"]


def _ended(steps: list[dict[str, Any]]) -> int:
    return sum(step["state"] != "open" for step in steps)
