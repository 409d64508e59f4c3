"""`durable resolve`, `send`, `interrupt`, `resume`, `retry`, `fork`, `terminate` and `purge`: steer one execution."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from engine.cli.api import Api
from engine.cli.options import AsJson, Key, Named, Url, id_of, json_given
from engine.cli.output import print_json
from engine.cli.starting import report

Value = Annotated[str, typer.Argument(metavar="VALUE", help="JSON; @FILE, or - for standard input.")]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="The reason, for the status and the workflow.")
]


def resolve(
    execution: Named,
    deferred: Annotated[str, typer.Argument(metavar="DEFERRED", help="Its name, as in approval or vote[ann].")],
    value: Value,
    key: Key = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Resolve a deferred with a value. The first value wins. Sending the same value again succeeds."""
    body = json_given(value, "value")
    with Api.at(url) as api:
        report(api.post(f"executions/{id_of(execution, key)}/deferreds/-", body, {"name": deferred}), as_json)


def send(
    execution: Named,
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="Its name.")],
    value: Value,
    key: Key = None,
    once: Annotated[str | None, typer.Option("--once", metavar="KEY", help="Send the value once for each KEY.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send one more value to a channel."""
    body, headers = json_given(value, "value"), {} if once is None else {"Idempotency-Key": once}
    with Api.at(url) as api:
        path = f"executions/{id_of(execution, key)}/channels/-"
        report(api.call("POST", path, {"name": channel}, body, headers).body, as_json)


def interrupt(
    execution: Named, key: Key = None, reason: Reason = None, url: Url = None, as_json: AsJson = False
) -> None:
    """Ask an execution to stop and clean up."""
    with Api.at(url) as api:
        report(api.post(f"executions/{id_of(execution, key)}/interrupt", body_of("interrupt", reason)), as_json)


def resume(execution: Named, key: Key = None, url: Url = None, as_json: AsJson = False) -> None:
    """Let a suspended execution run again. Cure the cause first."""
    with Api.at(url) as api:
        report(api.post(f"executions/{id_of(execution, key)}/resume"), as_json)


def retry(execution: Named, key: Key = None, url: Url = None, as_json: AsJson = False) -> None:
    """Let an execution that failed or was interrupted run again, from the activity that failed."""
    with Api.at(url) as api:
        report(api.post(f"executions/{id_of(execution, key)}/retry"), as_json)


def fork(
    execution: Named,
    step: Annotated[str, typer.Argument(metavar="STEP", help="From which step, as the history names it.")],
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="JSON", help="Another payload; JSON, @FILE, or - for stdin.")
    ] = None,
    results: Annotated[
        list[str] | None,
        typer.Option("--result", metavar="STEP=JSON", help="Another result for an earlier step. May be repeated."),
    ] = None,
    key: Key = None,
    once: Annotated[str | None, typer.Option("--once", metavar="KEY", help="The fork's idempotency key.")] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="The reason, for the status and the history.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Start a new execution that takes over the history up to a step, and goes on from there."""
    edited = "" if payload is None else f', "payload": {json_given(payload, "payload")}'
    if results:
        edited += f', "results": {{{", ".join(map(_member, results))}}}'
    if reason is not None:
        edited += f', "reason": {json.dumps(reason)}'
    headers = {} if once is None else {"Idempotency-Key": once}
    with Api.at(url) as api:
        body = f'{{"from": {json.dumps(step)}{edited}}}'
        report(api.call("POST", f"executions/{id_of(execution, key)}/fork", None, body, headers).body, as_json)


def _member(result: str) -> str:
    step, _, value = result.partition("=")
    return f"{json.dumps(step)}: {json_given(value, 'result')}"


def terminate(execution: Named, key: Key = None, url: Url = None, as_json: AsJson = False) -> None:
    """End an execution at once. None of its code runs, not even its cleanup."""
    with Api.at(url) as api:
        report(api.post(f"executions/{id_of(execution, key)}/terminate"), as_json)


def purge(execution: Named, key: Key = None, url: Url = None, as_json: AsJson = False) -> None:
    """Delete everything that is stored of an execution that has ended."""
    id = id_of(execution, key)
    with Api.at(url) as api:
        api.call("DELETE", f"executions/{id}")
    if as_json:
        print_json({"executionId": id, "purged": True})
    else:
        typer.echo(f"{id} is purged")


def body_of(action: str, reason: str | None) -> str | None:
    """The body of the request for an action."""
    return json.dumps({"reason": reason}) if action == "interrupt" and reason is not None else None
