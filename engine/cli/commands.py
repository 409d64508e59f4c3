"""The list of all commands of `durable`. Related commands share a module of this folder; add_command registers them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.cli.bulk import bulk
from engine.cli.check_deploy import check_deploy
from engine.cli.doctor import doctor
from engine.cli.new import CannotLayOut, lay_out
from engine.cli.problems import Refused, add_command
from engine.cli.reading import get, history, list_executions, stack, timeline, tree
from engine.cli.recordings import export, replay
from engine.cli.starting import start
from engine.cli.steering import fork, interrupt, purge, resolve, resume, retry, send, terminate
from engine.cli.watching import watch

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.callback()
def durable() -> None:
    """Durable workflows on Azure Functions and Cosmos DB.

    Commands that call a host take its address from --url or ENGINE_URL, and its key from ENGINE_KEY (or, with sign-in,
    a bearer token from ENGINE_TOKEN). Exit codes: 0 for success, 1 for a problem, 2 for wrong usage.
    """


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the project: a new or empty one.")],
) -> None:
    """Lay out a project: an app, a worked example with its test, and the infrastructure."""
    try:
        notes = lay_out(folder)
    except CannotLayOut as error:
        raise Refused(str(error)) from None
    typer.echo(f"{folder} is ready. Next:\n\n    cd {folder}\n    make demo\n    make test\n")
    for note in notes:
        typer.echo(note)


add_command(app, "new", new)
add_command(app, "start", start)
add_command(app, "get", get)
add_command(app, "list", list_executions, takes_filter=True)
add_command(app, "watch", watch)
add_command(app, "stack", stack)
add_command(app, "history", history)
add_command(app, "timeline", timeline)
add_command(app, "tree", tree)
add_command(app, "resolve", resolve)
add_command(app, "send", send)
add_command(app, "interrupt", interrupt)
add_command(app, "resume", resume)
add_command(app, "retry", retry)
add_command(app, "fork", fork)
add_command(app, "terminate", terminate)
add_command(app, "purge", purge)
add_command(app, "bulk", bulk, takes_filter=True)
add_command(app, "export", export)
add_command(app, "replay", replay)
add_command(app, "check-deploy", check_deploy)
add_command(app, "doctor", doctor)
