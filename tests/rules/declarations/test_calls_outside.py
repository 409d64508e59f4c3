"""A workflow that is called outside of one is refused, because nothing would make it durable."""

from __future__ import annotations

import pytest

from engine import Deferred, activity, workflow

answer = Deferred("outside.answer", bool)


@workflow
async def votes() -> bool:
    return await answer


@workflow
async def calls_by_name(name: str) -> str:
    return name


@activity
async def calls_a_workflow() -> None:
    await votes()


async def test_a_workflow_called_outside_of_one_is_refused() -> None:
    """P1: in a script, a web route or an activity: the message says what to write. Its function stays callable."""
    with pytest.raises(RuntimeError, match=r"await client\.start\(calls_by_name, payload\)"):
        await calls_by_name("hidden_step")
    with pytest.raises(RuntimeError, match=r"await client\.start\(votes\) .* client\.execute.* votes\.function\(\)"):
        await calls_a_workflow()
    with pytest.raises(RuntimeError, match="only be awaited in a workflow"):
        await votes.function()
