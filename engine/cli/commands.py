"""The commands of `durable`, each a call of one function in a module of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.cli.new import CannotLayOut, lay_out

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def durable() -> None:
    """Durable workflows on Azure Functions and Cosmos DB."""


@app.command()
def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the project: a new or empty one.")],
) -> None:
    """Lay out a project: an app, a worked example with its test, and the infrastructure."""
    try:
        notes = lay_out(folder)
    except CannotLayOut as error:
        typer.echo(f"durable new: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{folder} is ready. Next:\n\n    cd {folder}\n    make demo\n    make test\n")
    for note in notes:
        typer.echo(note)
