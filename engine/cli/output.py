"""Prints the output of commands. Values of executions are printed as text: without markup, and without characters that
control the terminal."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

UNBROKEN = 100_000
"""The width of an output that isn't a terminal. Programs read it line by line, so lines must not wrap."""


def printable(text: str) -> str:
    """Text in which each control character or half character is replaced by its JSON escape, such as \\u001b."""
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)


def json_text(value: Any, indent: int | None = 2) -> str:
    """A value as JSON text that a terminal can show."""
    return printable(json.dumps(value, ensure_ascii=False, indent=indent))


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print a value as JSON."""
    typer.echo(json_text(value, indent))


def print_shown(shown: RenderableType) -> None:
    """Print something for a person. Without a terminal, lines aren't wrapped and don't end in spaces."""
    console = new_console()
    if console.is_terminal:
        console.print(shown)
        return
    with console.capture() as printed:
        console.print(shown)
    typer.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def new_console() -> Console:
    """A console on standard output that takes no markup."""
    width = None if sys.stdout.isatty() else UNBROKEN
    return Console(markup=False, highlight=False, emoji=False, width=width)


def text(value: object, style: str = "") -> Text:
    """A value of an execution as text for the terminal. A value that isn't a string becomes JSON on one line."""
    return Text(printable(value if isinstance(value, str) else json_text(value, None)), style)
