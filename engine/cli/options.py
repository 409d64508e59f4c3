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
AsJson = Annotated[bool, typer.Option("--json", help="Print the JSON of the API's answer.")]
Module = Annotated[str, typer.Option("--module", metavar="MODULE", help="The module with the list WORKFLOWS.")]
StoreFile = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="A SQLite file. Without it, the settings of the app name the store."),
]
Query = Annotated[
    str, typer.Option("--filter", "-q", metavar="FILTER", help="Which executions, as in 'workflow:fulfil is:stuck'.")
]


def id_of(named: str, key: str | None) -> str:
    """The id of an execution. `named` is the id itself, or with a `key` the name of the workflow. Raises Refused."""
    if key == "":
        raise Refused("the idempotency key must not be empty", USAGE)
    if key is not None:
        return execution_id(named, key)
    if not is_execution_id(named):
        raise Refused(
            f"{named!r} isn't an execution id, which has 32 hexadecimal digits. If it is a workflow, add --key KEY",
            USAGE,
        )
    return named


def json_given(given: str, what: str) -> str:
    """The JSON text that an argument gives: the argument itself, the content of @FILE, or for - the standard input.
    `what` names the argument in messages. Raises Refused."""
    try:
        read = sys.stdin.read() if given == "-" else Path(given[1:]).read_text("utf-8") if given[:1] == "@" else given
        json.loads(read)
    except OSError as error:
        raise Refused(f"the {what} can't be read: {error}", USAGE) from None
    except (ValueError, RecursionError) as error:
        hint = "" if given[:1] in ("@", "-") else f" Write text with quotation marks: '{json.dumps(given)}'"
        raise Refused(f"the {what} isn't JSON: {error}.{hint}", USAGE) from None
    return read
