"""Refused commands: a sentence for a person, and an exit code for a program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

import typer

from engine.cli.output import json_text, printable

P = ParamSpec("P")

PROBLEM, USAGE = 1, 2
"""Exit codes. The exit code 0 means success."""


class Refused(Exception):
    """Why a command failed, as a sentence. `code` is the exit code; `details` are the API's problem details, if the
    API refused the request."""

    def __init__(self, sentence: str, code: int = PROBLEM, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.details = {"detail": sentence} if details is None else details


def add_command(app: typer.Typer, name: str, work: Callable[P, None], takes_filter: bool = False) -> None:
    """Register a function as a command of `app`. If the function raises Refused, the command prints the sentence to
    standard error, or with `--json` the problem details. With `takes_filter`, an argument may begin with a minus, as
    `-workflow:a` does."""

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            work(*args, **kwargs)
        except Refused as error:
            sentence = f"durable {name}: {printable(str(error))}"
            typer.echo(json_text(error.details) if kwargs.get("as_json") else sentence, err=True)
            raise typer.Exit(error.code) from None

    app.command(name, context_settings={"ignore_unknown_options": takes_filter})(run)
