"""Why a command doesn't do what it was asked: one sentence for a person, an exit code for a program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

import typer

from engine.cli.output import json_text, printable

P = ParamSpec("P")

PROBLEM, USAGE = 1, 2
"""Exit codes. 0: all is well."""


class Refused(Exception):
    """Why a command failed, as a sentence. `code` is the exit code; `details` are the API's problem details, if the
    API refused the request."""

    def __init__(self, sentence: str, code: int = PROBLEM, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.details = {"detail": sentence} if details is None else details


def add_command(app: typer.Typer, name: str, work: Callable[P, None], takes_filter: bool = False) -> None:
    """Make a function a command of `app`. A Refused goes to standard error: as a sentence, or as problem details if the
    command has `as_json` and it is set. With `takes_filter`, an argument may begin as `-workflow:a` does."""

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            work(*args, **kwargs)
        except Refused as error:
            sentence = f"durable {name}: {printable(str(error))}"
            typer.echo(json_text(error.details) if kwargs.get("as_json") else sentence, err=True)
            raise typer.Exit(error.code) from None

    app.command(name, context_settings={"ignore_unknown_options": takes_filter})(run)
