"""Records histories: `python -m tests.replay.record [NAME …]`.

Recordings are never changed, so a file that is there is not written again: without names, those are recorded that are
missing. A recording is what `engine.testing.export` gives, with `asked` beside it: the steps that the code asked for,
with their digests, in order, also those that were never answered.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from engine import Workflow
from engine.core.registry import raises_of
from engine.core.run import Run
from engine.driving.runs import run_of
from engine.ground.names import execution_id
from engine.store.documents import Chunk, Execution
from engine.testing import Environment, export
from engine.values.events import Event, effective
from tests.replay import recorded_workflows as recorded
from tests.replay.layout import laid_out
from tests.replay.recorded_values import Box, Colour, Everything, Point, Sku, large, values
from tests.replay.recorded_workflows import WORKFLOWS, Order
from tests.support import documents

FOLDER = Path(__file__).parent / "recordings"

Script = Callable[[Environment, str], Awaitable[object]]


async def to_its_end(env: Environment, id: str) -> None:
    await env.finish(id)


async def say_yes_but(env: Environment, id: str) -> None:
    await env.drive(id)
    await env.resolve(id, recorded.approval, True)
    await env.settle()
    await env.resolve(id, recorded.approval["finance"], False)
    await env.settle()
    await env.resolve(id, recorded.approval["legal"], True)
    await env.finish(id)
    await env.client.reject(id, recorded.reading, recorded.Unreadable(meter="m-1"))
    await env.finish(id)


async def talk(env: Environment, id: str) -> None:
    await env.client.send(id, recorded.remarks, "early")
    await env.drive(id)
    for remark in ("one", "two", "bye"):
        await env.client.send(id, recorded.remarks, remark)
    await env.finish(id)


async def stop_the_tower(env: Environment, id: str) -> None:
    await env.finish(id)
    await env.client.terminate(execution_id("recorded.build", "recorded tower"))
    await env.finish(id)


async def interrupt(env: Environment, id: str) -> None:
    await env.drive(id)
    await env.client.interrupt(id)
    await env.finish(id)


async def reopen(env: Environment, id: str) -> None:
    await interrupt(env, id)
    await env.client.retry(id)
    await say_yes_but(env, id)


async def fork(env: Environment, id: str) -> str:
    await env.finish(id)
    chunks = (await env.store.inner.load(id)).chunks
    steps = [event["step"] for chunk in chunks for event in chunk.events if event["kind"] == "activity"]
    forked = await env.client.fork(id, steps[-1], key="recorded fork")
    await env.finish(forked)
    return forked.execution_id


async def terminate(env: Environment, id: str) -> None:
    await env.drive(id)
    await env.client.terminate(id)


async def patch(env: Environment, id: str) -> None:
    recorded.Evolved.is_patched = False
    await env.client.send(id, recorded.remarks, "one")
    await env.settle()
    recorded.Evolved.is_patched = True
    for remark in ("two", "three", "bye"):
        await env.client.send(id, recorded.remarks, remark)
    await env.finish(id)


async def stop_twice(env: Environment, id: str) -> None:
    await env.drive(id)
    env.clock.advance(timedelta(hours=1, seconds=1))
    await env.settle()
    await env.client.interrupt(id)
    await env.settle()
    await env.resolve(id, recorded.approval["cleaned"], True)
    await env.resolve(id, recorded.approval["told"], True)
    await env.finish(id)


async def interrupt_while_told(env: Environment, id: str) -> None:
    await env.resolve(id, recorded.approval, True)
    await env.resolve(id, recorded.approval["cleaned"], True)
    await env.drive(id)
    await env.client.interrupt(id)
    await env.settle()
    await env.resolve(id, recorded.approval["told"], True)
    await env.finish(id)


async def mend(env: Environment, id: str) -> None:
    recorded.Mended.is_mended = False
    await env.drive(id)
    recorded.Mended.is_mended = True
    await env.client.resume(id)
    await env.finish(id)


async def take_over(env: Environment, id: str) -> None:
    await env.drive(id)
    await env.resolve(id, recorded.approval, True)
    now, settings = env.clock.now(), env.settings
    execution = await env.store.inner.read(id)
    await env.store.inner.replace(
        documents.claimed(execution, now, "a driver that died", settings.lease, settings.skew)
    )
    await env.finish(id)


async def let_it_stand(env: Environment, id: str) -> None:
    await env.settle()


EVERYTHING = Everything(
    offset=datetime(2026, 3, 1, 2, 30, 0, 123456, timezone(timedelta(hours=-5))),
    naive=datetime(2026, 3, 1, 2, 30),
    day=date(2026, 2, 28),
    span=timedelta(days=400, microseconds=1),
    price=Decimal("1.10"),
    id=UUID(int=7),
    colour=Colour.RED,
    raw=bytes(range(256)),
    numbers={3, 1, 2},
    pair=(1, "a"),
    by_number={1: "a", 2**70: "b"},
    big=2**70,
    boxes=Box(Point(x=1), [Box(Point(x=2), [])]),
    by_sku={Sku("a"): Point(x=1, tags=frozenset({"b"}))},
    nothing=None,
    text="\x00\u2028 \U0001f642 é e\u0301",
)
LONG = "".join(f"{number:05d} é\U0001f642 " for number in range(1_000))

STORIES: dict[str, tuple[Workflow[Any, Any], Any, Script]] = {
    "order": (recorded.place, Order(id="o-1", items=["lamp", "table"]), to_its_end),
    "timers": (recorded.timers, None, to_its_end),
    "together": (recorded.together, None, to_its_end),
    "waits": (recorded.waits, None, say_yes_but),
    "hears": (recorded.hears, None, talk),
    "house": (recorded.house, ["wall", "door", "roof"], stop_the_tower),
    "restarts": (recorded.restarts, 2, to_its_end),
    "failed": (recorded.trip, 2, to_its_end),
    "interrupted": (recorded.trip, 3, interrupt),
    "terminated": (recorded.trip, 4, terminate),
    "out-of-time": (recorded.limited, None, to_its_end),
    "inputs": (recorded.house, ["wall", "door"], to_its_end),
    "stopped-twice": (recorded.torn, None, stop_twice),
    "told-again": (recorded.torn, None, interrupt_while_told),
    "resumed": (recorded.label, None, mend),
    "chance": (recorded.chance, None, to_its_end),
    "chance-of-a-run": (recorded.chance, None, to_its_end),
    "taken-over": (recorded.abandoned, None, take_over),
    "values": (values, EVERYTHING, to_its_end),
    "large": (large, LONG, to_its_end),
    "forked": (recorded.place, Order(id="o-2", items=["lamp", "table"]), fork),
    "reopened": (recorded.waits, None, reopen),
    "patched": (recorded.evolves, None, patch),
    "standing": (recorded.standing, None, let_it_stand),
}


def events_of(recording: str) -> list[Event]:
    """The history in a recording."""
    chunks = json.loads(recording)["history"]
    return [event for chunk in chunks for event in Chunk.from_document(chunk).decoded()]


def asked(recording: str, workflows: Sequence[Workflow[Any, Any]] = WORKFLOWS) -> tuple[Run, list[str]]:
    """Replay a recording. Returns the run, closed, and the steps that were waited for in it: kind, id, digest."""
    execution = Execution.from_document(json.loads(recording)["execution"])
    [code] = [one for one in workflows if (one.name, one.version) == (execution.workflow, execution.version)]
    history = effective(events_of(recording))
    run = run_of(code, execution, execution.payload, history, raises_of(workflows))
    steps: dict[str, None] = {}
    try:
        run.begin()
        for event in [None, *history]:
            if event is not None:
                run.apply(event)
            steps |= dict.fromkeys(f"{step.kind} {step.id} {step.digest}".strip() for step in run.open_steps())
    finally:
        run.close()
    return run, list(steps)


async def record(name: str) -> str:
    """The text of a recording."""
    code, payload, script = STORIES[name]
    async with Environment(WORKFLOWS) as env:
        id = (await env.start(code, payload, key=f"recorded {name}")).execution_id
        env.clock.advance(timedelta(milliseconds=1234))
        other = await script(env, id)
        text = await export(env.store.inner, other if isinstance(other, str) else id)
    data = json.loads(text) | {"asked": asked(text)[1]}
    return laid_out(data)


def main(names: Sequence[str], folder: Path = FOLDER) -> int:
    """Record those, or all that are missing. Returns the exit code: 1 if one of them is there already."""
    folder.mkdir(exist_ok=True)
    wanted = names or [name for name in STORIES if not (folder / f"{name}.json").exists()]
    for name in wanted:
        path = folder / f"{name}.json"
        if name not in STORIES or path.exists():
            what = "exists, and is never written again" if path.exists() else f"is none of {', '.join(STORIES)}"
            sys.stderr.write(f"{name}: {what}\n")
            return 1
        path.write_text(asyncio.run(record(name)), "utf-8")
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
