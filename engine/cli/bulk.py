"""`durable bulk`: one action on all executions that a filter finds. The command first counts them, and asks."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import track

from engine.cli.api import Api
from engine.cli.display import show_list
from engine.cli.options import AsJson, Url
from engine.cli.output import print_json, print_shown, text
from engine.cli.pages import pages
from engine.cli.problems import PROBLEM, USAGE, Refused
from engine.cli.steering import Reason, body_of

MAX_BULK = 10_000
"""The most executions of one call."""
SAMPLE = 10
"""How many executions the command shows before it asks."""

Action = Literal["interrupt", "resume", "retry", "terminate", "purge"]


def bulk(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    filter: Annotated[str, typer.Argument(metavar="FILTER", help="Which, as in 'workflow:fulfil is:stuck'.")],
    yes: Annotated[bool, typer.Option("--yes", help="Act without asking.")] = False,
    reason: Reason = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Interrupt, resume, retry, terminate or purge all executions that a filter finds.

    Without --yes, the command says how many there are, shows some of them and asks. Without a terminal it can't ask,
    and changes nothing. The exit code is 1 if the host refuses one of them.
    """
    if reason is not None and action != "interrupt":
        raise Refused("only `interrupt` takes a --reason", USAGE)
    if not filter.strip():
        raise Refused("a filter is needed. For all executions, write status:running,complete", USAGE)
    with Api.at(url) as api:
        found = pages(api, "executions", "executions", {"q": filter}, MAX_BULK, 500)
        executions = found["executions"]
        ids = [one["executionId"] for one in executions]
        if not yes:
            more = " or more" if "continuation" in found else ""
            if as_json:
                print_json({"action": action, "count": len(ids), "isAll": not more, "sample": executions[:SAMPLE]})
            else:
                print_shown(show_list(executions[:SAMPLE]))
                typer.echo(f"{action}: {len(ids):,} executions{more}")
            if not ids or as_json or not sys.stdin.isatty():
                if ids and not as_json:
                    typer.echo("nothing was changed: add --yes to act")
                return
            typer.confirm(f"{action} them?", abort=True)
        refused = dict[str, str]()
        for id in track(ids, action, console=Console(stderr=True), disable=as_json or not sys.stderr.isatty()):
            try:
                _act(api, action, id, reason)
            except Refused as problem:
                if "status" not in problem.details or problem.details["status"] in (401, 403):
                    raise  # the host doesn't answer, or refuses this caller: the other executions would fail as well
                refused[id] = str(problem)
    done = len(ids) - len(refused)
    if as_json:
        print_json({"action": action, "done": done, "refused": refused, "isAll": "continuation" not in found})
    else:
        for id, why in refused.items():
            print_shown(text(f"{id}: {why}"))
        typer.echo(f"{action}: {done:,} done, {len(refused):,} refused")
        if "continuation" in found:
            typer.echo(f"the filter finds more than {MAX_BULK:,} executions: run the command again")
    if refused:
        raise typer.Exit(PROBLEM)


def _act(api: Api, action: Action, id: str, reason: str | None) -> None:
    if action == "purge":
        api.call("DELETE", f"executions/{id}")
    else:
        api.post(f"executions/{id}/{action}", body_of(action, reason))
