"""The workflows of the host that these tests run, after a careless change: `waits` begins otherwise, `part` is gone."""

from __future__ import annotations

from typing import Any

from engine import Workflow, activity, workflow
from tests.page.served import asks, decision, retries


@activity
async def triple(number: int) -> int:
    return number * 3


@workflow(name="waits")
async def waits_otherwise(text: str) -> str:
    await triple(1)
    return (await decision).by


WORKFLOWS: list[Workflow[Any, Any]] = [waits_otherwise, retries, asks]
