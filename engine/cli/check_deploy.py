"""`durable check-deploy`: would the code here carry on what runs now?

1. The histories of live executions are replayed against the WORKFLOWS of this tree. No activity runs, and nothing is
   stored.
2. A sample takes as many of each workflow and version, chosen by a fixed seed: the same store gives the same sample.
3. What breaks today already, with the same cause, is told and isn't counted: this deployment doesn't make it worse.
4. An execution that goes on meanwhile may be read in halves. So what breaks is read a second time.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from engine.boundary.filters import FilterError, parse
from engine.boundary.runtime import Runtime
from engine.cli.options import AsJson, Module, Query, StoreFile
from engine.cli.output import print_json, printable
from engine.cli.problems import PROBLEM, USAGE, Refused
from engine.cli.recordings import sentence, verdict, workflows_in
from engine.cli.stores import opened, settings_for
from engine.core.declarations import Workflow
from engine.ground.errors import DecodingError, Missing, NonDeterminism, NotDurable, Unreadable
from engine.store.base import Filter
from engine.store.conditions import Condition
from engine.store.documents import Execution
from engine.testing.replayer import export

SAMPLE = 20
"""Executions of each workflow and version, unless an option says otherwise."""
MOST_LISTED = 10_000
"""Live executions that a sample is drawn from: the newest."""
PAGE = 100

CURED_BY_CODE = {error.__name__ for error in (DecodingError, NonDeterminism, NotDurable)}
"""Causes of a suspension that a replay finds."""
_RUNNING = Condition((("status",),), "is", ("running",))


@dataclass(frozen=True)
class Findings:
    """What the replay of live executions found, each as JSON data.

    live: executions that run now. listed: of them, those that the sample was drawn from.
    breaks: what would be suspended or left alone. already: the same, and it is so today.
    cured: what is suspended today, and would go on.
    """

    live: int
    listed: int
    replayed: int
    breaks: Sequence[Mapping[str, Any]] = field(default_factory=list)
    already: Sequence[Mapping[str, Any]] = field(default_factory=list)
    cured: Sequence[Mapping[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The findings as plain JSON data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def check_deploy(
    module: Module = "workflows",
    store: StoreFile = None,
    filter: Query = "",
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=1, help="How many of each workflow and version.")
    ] = SAMPLE,
    everything: Annotated[bool, typer.Option("--all", help="All live executions, in place of a sample.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay live executions against the code here, before it is deployed.

    Says which of them the code would break, and why. The exit code is 1 if there is one.
    """
    workflows = workflows_in(module)

    async def look() -> Findings:
        async with opened(settings_for(store)) as runtime:
            return await replay_live(runtime, workflows, filter, None if everything else sample)

    findings = asyncio.run(look())
    if as_json:
        print_json(findings.to_json())
    else:
        typer.echo(printable("\n".join(_lines(findings))))
    if findings.breaks:
        raise typer.Exit(PROBLEM)


async def replay_live(
    runtime: Runtime, workflows: Sequence[Workflow[Any, Any]], filter: str, sample: int | None
) -> Findings:
    """Replay the live executions of a store, or `sample` of each workflow and version. Raises Refused, StoreError."""
    try:
        asked = parse(filter, runtime.clock.now())
    except FilterError as error:
        raise Refused(f"the filter can't be read: {error}", USAGE) from None
    live = Filter(conditions=(*asked.filter.conditions, _RUNNING))
    listed = await _list(runtime, live, None if sample is None else MOST_LISTED)
    chosen = listed if sample is None else _sampled(listed, sample)
    breaks, already, cured, replayed = list[Any](), list[Any](), list[Any](), 0
    for execution in chosen:
        found = await _judge(runtime, execution.execution_id, workflows)
        if found is None:
            continue
        replayed += 1
        as_today = execution.cause is not None and execution.cause.type == found.get("problem")
        if not found["replays"]:
            (already if as_today else breaks).append(found)
        elif execution.cause is not None and execution.cause.type in CURED_BY_CODE:
            cured.append(found)
    return Findings(await runtime.store.total(live), len(listed), replayed, breaks, already, cured)


async def _list(runtime: Runtime, filter: Filter, most: int | None) -> list[Execution]:
    found, continuation = list[Execution](), None
    while True:
        page = await runtime.store.list(filter, PAGE, continuation)
        found += page.executions
        continuation = page.continuation
        if continuation is None or (most is not None and len(found) >= most):
            return found


def _sampled(executions: Sequence[Execution], sample: int) -> list[Execution]:
    kinds = defaultdict[tuple[str, str], list[Execution]](list)
    for execution in executions:
        kinds[execution.workflow, execution.version].append(execution)
    chance = random.Random(0)
    return [one for kind in kinds.values() for one in chance.sample(kind, min(sample, len(kind)))]


async def _judge(runtime: Runtime, id: str, workflows: Sequence[Workflow[Any, Any]]) -> dict[str, Any] | None:
    """What today's code makes of an execution. None if it has ended meanwhile."""
    found: dict[str, Any] = {}
    for _ in range(2):
        try:
            execution = await runtime.store.read(id)
            if execution.is_complete:
                return None
            found = verdict(await export(runtime.store, id), workflows)
        except Missing:
            return None
        except Unreadable as error:
            return {"executionId": id, "replays": False, "problem": "Unreadable", "detail": str(error)}
        found = {"executionId": id, "workflow": execution.workflow, "version": execution.version, **found}
        if found["replays"]:
            break
    return found


def _lines(findings: Findings) -> list[str]:
    def named(found: Mapping[str, Any]) -> str:
        return " ".join(str(found[name]) for name in ("workflow", "version", "executionId") if name in found)

    lines = [f"breaks: {named(found)}: {sentence(found)}" for found in findings.breaks]
    lines += [f"broken today already: {named(found)}: {sentence(found)}" for found in findings.already]
    lines += [f"cured, resume it after the deployment: {named(found)}" for found in findings.cured]
    lines.append(
        f"{findings.replayed:,} of {findings.live:,} live executions replayed, {len(findings.breaks):,} would break"
    )
    if findings.listed < findings.live:
        lines.append(f"the sample is from the newest {findings.listed:,}: --all takes all of them")
    return lines
