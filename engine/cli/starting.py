"""`durable start`: starts an execution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from engine.cli.api import MAX_WAIT, Api
from engine.cli.display import show_execution
from engine.cli.options import AsJson, Url, json_given
from engine.cli.output import print_json, print_shown
from engine.cli.problems import PROBLEM


def start(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="The workflow's name.")],
    payload: Annotated[
        str, typer.Argument(metavar="PAYLOAD", help="JSON; @FILE, or - for standard input.", show_default=False)
    ] = "",
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="The idempotency key, in place of the workflow's own.")
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, max=MAX_WAIT, help="How long to wait for the end.")
    ] = 0,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Start an execution. A second start with the same key finds the first execution.

    With --wait, the exit code is 1 if the execution failed or was stopped.
    """
    body = json_given(payload, "payload") if payload else ""
    with Api.at(url) as api:
        query = {"wait": f"{wait:g}"} if wait else {}
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = api.call("POST", f"workflows/{quote(workflow, safe='')}", query, body, headers, wait)
    report(answer.body, as_json)
    if wait:
        raise_unless_well(answer.body)


def report(status: Mapping[str, Any], as_json: bool) -> None:
    """Print the status of an execution."""
    if as_json:
        print_json(status)
    else:
        print_shown(show_execution(status))


def raise_unless_well(status: Mapping[str, Any]) -> None:
    """End the command with exit code 1 if the execution has ended with another outcome than `completed`."""
    if status.get("outcome") not in (None, "completed"):
        raise typer.Exit(PROBLEM)
