"""Writes the golden documents of today's schema: `python -m tests.replay.stored.record`.

For a new schema, before its first release. From then on the files stay as they are, those of earlier schemas too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from engine.ground.clock import FAR_FUTURE
from engine.ground.errors import Unavailable
from engine.store.documents import SCHEMA
from engine.store.sqlite.store import SqliteStore
from engine.store.wrapper import Call
from engine.testing import Environment
from tests.replay.layout import laid_out
from tests.replay.stored.golden import HERE, take
from tests.replay.stored.program import PROGRAM, answer, notes, whole
from tests.support import documents

Stage = Callable[[Environment, str], Awaitable[None]]


async def _settle(env: Environment, id: str) -> None:
    """Drive everything, moving the clock, until only a person or a day can bring it on."""
    end = env.clock.now() + timedelta(hours=1)
    while True:
        page = await env.store.inner.due(FAR_FUTURE, 1)
        if not page.executions or page.executions[0].due_at is None or page.executions[0].due_at > end:
            return
        env.clock.jump(page.executions[0].due_at + timedelta(milliseconds=1))
        await env.worker.drive(page.executions[0])


async def _drive(env: Environment, id: str) -> None:
    await env.drive(id)


async def _die(env: Environment, id: str) -> None:
    """Claimed by a driver that then dies."""
    execution = await env.store.inner.read(id)
    lease = env.settings.lease
    await env.store.inner.replace(
        documents.claimed(execution, env.clock.now(), "dead-driver", lease, env.settings.skew)
    )


async def _drive_child(env: Environment, id: str) -> None:
    """The child has ended, and its parent has not heard of it."""

    async def away(call: Call) -> None:
        if call.method == "signal":
            raise Unavailable("the parent can't be reached")

    env.clock.advance(timedelta(seconds=6))
    await env.drive(id)
    page = await env.store.inner.due(FAR_FUTURE, 10)
    child = next(one for one in page.executions if one.workflow == "compat_part")
    env.store.before = away
    for _ in range(2):
        with contextlib.suppress(Unavailable):
            await env.drive(child.execution_id)
        env.clock.advance(timedelta(seconds=31))


async def _note(env: Environment, id: str) -> None:
    await env.client.send(id, notes, 11, key="first")


async def _answer(env: Environment, id: str) -> None:
    await env.resolve(id, answer, "yes")


async def _refuse(env: Environment, id: str) -> None:
    await env.resolve(id, answer, "no")


async def _interrupt(env: Environment, id: str) -> None:
    await env.client.interrupt(id)


BIG = "b" * 5_000
STORIES: list[tuple[str, str, str, list[Stage], str, Any]] = [
    ("new", "started, and nobody has claimed it", "a", [], "completed", "a 14 11 yes"),
    ("large", "started with a payload in a document of its own", BIG, [], "completed", f"{BIG} 14 11 yes"),
    ("retrying", "the first attempt of its activity has failed", "a", [_drive], "completed", "a 14 11 yes"),
    ("abandoned", "claimed by a driver that died", "a", [_drive, _die], "completed", "a 14 11 yes"),
    ("owing", "its child has ended, and owes it the exit", "a", [_drive, _drive_child], "completed", "a 14 11 yes"),
    ("waiting", "it waits for a value of a channel", "a", [_settle], "completed", "a 14 11 yes"),
    ("signalled", "what it waits for has come, unseen", "a", [_settle, _note, _answer], "completed", "a 14 11 yes"),
    ("interrupted", "an interrupt has come, unseen", "a", [_settle, _interrupt], "interrupted", None),
    ("refused", "it failed as declared, and compensated", "a", [_settle, _note, _refuse, _settle], "failed", None),
    ("ended", "it ended with a large result", BIG, [_settle, _note, _answer, _settle], "completed", f"{BIG} 14 11 yes"),
]


async def record() -> dict[str, str]:
    """The text of every file, by its name."""
    files = {}
    for name, story, payload, stages, ends_as, result in STORIES:
        store = SqliteStore(":memory:")
        async with Environment(PROGRAM, store) as env:
            id = (await env.start(whole, payload)).execution_id
            for stage in stages:
                await stage(env, id)
            documents = await take(store)
        data = {"story": story, "executionId": id, "endsAs": ends_as, "result": result, "documents": documents}
        files[name] = laid_out(data)
    return files


def main(folder: Path) -> None:
    """Write every file."""
    folder.mkdir(exist_ok=True)
    for name, text in asyncio.run(record()).items():
        (folder / f"{name}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main(HERE / f"schema{SCHEMA}")
