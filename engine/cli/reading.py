"""`durable get`, `list`, `tree`, `history`, `timeline` and `stack`: show what the API answers about executions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from engine.cli.api import Api
from engine.cli.display import show_events, show_family, show_list, show_stack
from engine.cli.options import AsJson, Key, Named, Url, id_of
from engine.cli.output import print_json, print_shown, text
from engine.cli.pages import pages
from engine.cli.problems import Refused
from engine.cli.starting import report
from engine.cli.timeline import show_timeline

MAX_STEPS = 1_000
"""Steps and events in a timeline."""


def get(execution: Named, key: Key = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show the status of an execution."""
    with Api.at(url) as api:
        report(api.get(f"executions/{id_of(execution, key)}"), as_json)


def list_executions(
    filter: Annotated[
        str, typer.Argument(metavar="FILTER", help="Which, as in 'workflow:fulfil is:stuck'.", show_default=False)
    ] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The most executions to list.")] = 50,
    counts: Annotated[
        bool, typer.Option("--counts", help="Count the executions in each state, in place of a list.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List executions, the newest first. docs/guide.md explains the language of filters."""
    with Api.at(url) as api:
        query = {"q": filter} if filter else {}
        if counts:
            counted: dict[str, int] = api.get("counts", query)
            if as_json:
                print_json(counted)
            else:
                print_shown(text("\n".join(f"{number:>8,} {word}" for word, number in counted.items())))
            return
        found = pages(api, "executions", "executions", query, limit, 500)
    if as_json:
        print_json(found)
        return
    print_shown(show_list(found["executions"]))
    if slow := found.get("slow"):
        typer.echo(f"no index serves {', '.join(slow)}", err=True)
    if "continuation" in found:
        typer.echo(f"there are more than {limit} executions: see --limit", err=True)


def tree(execution: Named, key: Key = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show the tree of children that an execution belongs to."""
    with Api.at(url) as api:
        family = api.get(f"executions/{id_of(execution, key)}/family")
    if as_json:
        print_json(family)
    else:
        print_shown(show_family(family))


def history(
    execution: Named,
    key: Key = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="The most events to show, from the oldest on.")
    ] = 1_000,
    full: Annotated[bool, typer.Option("--full", help="With --json, show large values too.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the events of an execution, the oldest first."""
    with Api.at(url) as api:
        query = {"values": "full" if full else "short"}
        found = pages(api, f"executions/{id_of(execution, key)}/history", "events", query, limit, 1_000)
    if as_json:
        print_json(found)
        return
    print_shown(show_events(found["events"]))
    _note(found.get("problem"))
    if "continuation" in found:
        _note(f"{found['length']:,} events in all: see --limit")


def timeline(execution: Named, key: Key = None, url: Url = None, as_json: AsJson = False) -> None:
    """Draw what an execution did when: a bar for each step."""
    with Api.at(url) as api:
        id = id_of(execution, key)
        status: dict[str, Any] = api.get(f"executions/{id}", {})
        found = pages(api, f"executions/{id}/steps", "steps", {}, MAX_STEPS, 1_000)
        events = pages(api, f"executions/{id}/history", "events", {"values": "short"}, MAX_STEPS, 1_000)
    if as_json:
        print_json(found)
        return
    print_shown(show_timeline(status, found["steps"], events["events"], datetime.now(UTC)))
    _note(found.get("problem"))
    if "continuation" in found:
        _note(f"there are more than {MAX_STEPS:,} steps")


def stack(execution: Named, key: Key = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show what an execution waits for now, and the lines of its source that wait."""
    with Api.at(url) as api:
        status: dict[str, Any] = api.get(f"executions/{id_of(execution, key)}", {"pending": "true"})
    if as_json:
        print_json(status)
        return
    if status["pending"]:
        print_shown(show_stack(status["pending"]))
    else:
        report({name: value for name, value in status.items() if name != "pendingProblem"}, as_json)
    if problem := status.get("pendingProblem"):
        raise Refused(f"some steps may be missing: {problem}")


def _note(sentence: str | None) -> None:
    if sentence:
        typer.echo(sentence, err=True)
