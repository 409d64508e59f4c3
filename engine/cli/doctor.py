"""`durable doctor`: finds what is wrong with an app, and says what to do.

Each check looks at one thing and changes nothing. If one check fails, the others still run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

import typer

from engine.boundary.health import LATE
from engine.boundary.runtime import Runtime
from engine.cli.api import Api
from engine.cli.options import AsJson, StoreFile, Url
from engine.cli.output import print_json, print_shown, text
from engine.cli.problems import PROBLEM, Refused
from engine.cli.stores import FILE_SETTING, account_in, container_problems, file_in, opened, settings_for
from engine.ground.errors import StoreError
from engine.ground.settings import Settings

STYLES = {"ok": "green", "problem": "red", "skipped": "dim"}


@dataclass(frozen=True)
class Check:
    """The result of one check. `detail` says what was found. `todo` says what to do about a problem."""

    name: str
    result: Literal["ok", "problem", "skipped"]
    detail: str
    todo: str = ""


def doctor(store: StoreFile = None, url: Url = None, as_json: AsJson = False) -> None:
    """Check settings, store, containers, change feed, executions and host. The exit code is 1 if something is wrong.

    The app's settings name the store. The host is checked if ENGINE_URL or --url names one.
    """
    settings = settings_for(store)
    checks = [*_settings(settings), *asyncio.run(_store(settings)), *_host(url)]
    if as_json:
        print_json({"checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            print_shown(text(f"{check.result:8} {check.name}: {check.detail}", STYLES[check.result]))
            if check.todo:
                print_shown(text(f"         {check.todo}"))
    if any(check.result == "problem" for check in checks):
        raise typer.Exit(PROBLEM)


def _settings(settings: Mapping[str, str]) -> Iterator[Check]:
    try:
        found = Settings.from_environment(settings)
        account_in(settings)
    except (ValueError, Refused) as error:
        yield Check("settings", "problem", str(error), "correct the setting, and start the host again")
        return
    kept = f"kept for {found.retention.days} days" if found.retention else "kept for ever"
    yield Check("settings", "ok", f"a lease of {found.lease.total_seconds():g} s, executions {kept}")


async def _store(settings: Mapping[str, str]) -> list[Check]:
    try:
        account = account_in(settings)
    except Refused:
        return [Check("store", "skipped", "the settings name no store that can be used")]
    if account is None and FILE_SETTING not in settings and not file_in(settings).is_file():
        return [Check("store", "skipped", "no setting names one, and there is no file", "--store names a SQLite file")]
    name = f"Cosmos DB {account.endpoint}" if account else f"file {file_in(settings)}"
    try:
        async with opened(settings) as runtime:
            checks = [*await _executions(runtime)]
            if account is None:
                checks.append(await _feed(runtime))
            else:
                wrong = await container_problems(account)
                checks += [Check("containers", "problem", one, "compare with infra/, and deploy it") for one in wrong]
                checks += [] if wrong else [Check("containers", "ok", "as the engine needs them")]
    except (Refused, StoreError) as error:
        return [Check("store", "problem", f"{name}: {error}", "check that this machine and this identity can reach it")]
    return [Check("store", "ok", name), *checks]


async def _executions(runtime: Runtime) -> Iterator[Check]:
    found, checks = await runtime.client.health(), list[Check]()
    if found.overdue >= LATE:
        late = f"one has been due for {found.overdue.total_seconds():,.0f} s"
        checks.append(
            Check("executions", "problem", late, "check that a host runs, with its sweep, and that it has the workflow")
        )
    for cause, number in found.stuck.items():
        what = f"{number} suspended with {cause}"
        checks.append(Check("executions", "problem", what, f"durable list 'is:stuck error:{cause}' shows them"))
    for id, what in found.unreadable.items():
        checks.append(Check("executions", "problem", f"{id}: {what}", "restore its document from a backup"))
    return iter(checks or [Check("executions", "ok", "no execution is late or stuck")])


async def _feed(runtime: Runtime) -> Check:
    leases, now = await runtime.store.change_feed().leases(), runtime.clock.now().timestamp()
    idle = [lease.range for lease in leases if lease.owner is None or lease.expires_at < now]
    if not idle:
        return Check("change feed", "ok", f"{len(leases)} ranges, each read by a host")
    what = f"no host reads {len(idle)} of {len(leases)} ranges"
    return Check("change feed", "problem", what, "start a host: make run, or python -m devhost")


def _host(url: str | None) -> Iterator[Check]:
    if url is None:
        yield Check("host", "skipped", "no address", "--url or ENGINE_URL names one")
        return
    try:
        with Api.at(url) as api:
            health = api.get("health")
    except Refused as error:
        yield Check("host", "problem", str(error))
        return
    if not isinstance(health, dict) or "status" not in health:
        yield Check(
            "host", "problem", f"{url} answers, but has no health check", "check that this is the app's address"
        )
        return
    yield Check("host", "ok", "it answers, and the key is right")
    if health["overdueSeconds"] >= LATE.total_seconds():
        late = f"an execution has been due for {health['overdueSeconds']:,.0f} s"
        yield Check("host's executions", "problem", late, "check the host's log, and that its sweep runs")
    for cause, number in health["stuck"].items():
        what = f"{number} suspended with {cause}"
        yield Check("host's executions", "problem", what, f"durable list 'is:stuck error:{cause}' shows them")
    for workflow, number in health["leftAlone"].items():
        what = f"{number} of {workflow} are left alone: the app lacks this workflow or version"
        yield Check("host's executions", "problem", what, "deploy the workflow again, or terminate the executions")
    for id, what in health["unreadable"].items():
        yield Check("host's executions", "problem", f"{id}: {what}", "restore its document from a backup")
