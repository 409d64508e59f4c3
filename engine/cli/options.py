"""The arguments and options that several commands share."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.problems import USAGE, Refused
from engine.ground.names import execution_id, is_execution_id

Named = Annotated[
    str,
    typer.Argument(metavar="EXECUTION", help="An execution id; or a workflow's name, with --key.", show_default=False),
]
Key = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="The idempotency key of the execution, with its workflow.")
]
Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", envvar="ENGINE_URL", help="The host, as in http://127.0.0.1:7071."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as the API answers.")]
Module = Annotated[str, typer.Option("--module", metavar="MODULE", help="The module with the list WORKFLOWS.")]
StoreFile = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="A SQLite file. Without it, the settings of the app name the store."),
]
Query = Annotated[
    str, typer.Option("--filter", "-q", metavar="FILTER", help="Which executions, as in 'workflow:fulfil is:stuck'.")
]


def id_of(named: str, key: str | None) -> str:
    """The id of the execution that is named by itself, or by its workflow and key. Raises Refused."""
    if key == "":
        raise Refused("an idempotency key is text and not empty", USAGE)
    if key is not None:
        return execution_id(named, key)
    if not is_execution_id(named):
        raise Refused(
            f"{named!r} is no execution id, which has 32 hexadecimal digits. For a workflow, add --key KEY", USAGE
        )
    return named


def json_given(given: str, what: str) -> str:
    """The JSON text of an argument: itself, @FILE, or - for standard input. Raises Refused."""
    try:
        read = sys.stdin.read() if given == "-" else Path(given[1:]).read_text("utf-8") if given[:1] == "@" else given
        json.loads(read)
    except OSError as error:
        raise Refused(f"the {what} can't be read: {error}", USAGE) from None
    except (ValueError, RecursionError) as error:
        hint = "" if given[:1] in ("@", "-") else f" A text is written with its quotation marks: '{json.dumps(given)}'"
        raise Refused(f"the {what} isn't JSON: {error}.{hint}", USAGE) from None
    return read
