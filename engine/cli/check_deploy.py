"""`durable check-deploy`: checks whether the code here can carry on the executions that run now.

1. The command replays the histories of live executions against the WORKFLOWS of this tree. No activity runs, and
   nothing is stored.
2. A sample has up to `--sample` executions of each workflow and version. A fixed seed chooses them, so the same store
   gives the same sample.
3. An execution that is suspended today for the same cause is reported, but not counted: this deployment doesn't make it
   worse.
4. An execution may go on while the command reads it, and then its documents don't fit together. So the command reads an
   execution that breaks a second time.
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
"""How many executions of each workflow and version a sample has by default."""
MOST_LISTED = 10_000
"""A sample is drawn from the newest live executions. This is how many of them."""
PAGE = 100

CURED_BY_CODE = {error.__name__ for error in (DecodingError, NonDeterminism, NotDurable)}
"""The causes of suspensions that a replay would meet again. If the replay succeeds, the new code cures them."""
_RUNNING = Condition((("status",),), "is", ("running",))


@dataclass(frozen=True)
class Findings:
    """What the replay of live executions found. The lists hold executions as JSON data.

    live: how many executions run now.
    listed: from how many of them the sample was drawn.
    replayed: how many were replayed.
    breaks: executions that the deployment would suspend, or leave alone.
    already: executions that are suspended today, and would be again for the same cause.
    cured: executions that are suspended today, and would go on.
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
        int, typer.Option("--sample", metavar="N", min=1, help="How many executions of each workflow and version.")
    ] = SAMPLE,
    everything: Annotated[bool, typer.Option("--all", help="Replay all live executions, not only a sample.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay live executions against the code here, before you deploy it.

    The output names each execution that the code would break, and says why. The exit code is 1 if there is one.
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
    """The verdict of a replay of this execution. None if the execution has ended meanwhile."""
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
    lines += [f"cured, resume after the deployment: {named(found)}" for found in findings.cured]
    lines.append(
        f"{findings.replayed:,} of {findings.live:,} live executions replayed, {len(findings.breaks):,} would break"
    )
    if findings.listed < findings.live:
        lines.append(f"the sample is drawn from the newest {findings.listed:,} executions: --all replays every one")
    return lines
