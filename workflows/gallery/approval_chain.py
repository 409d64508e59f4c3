"""Approval chain: each level answers in turn. A level that keeps silent for two days is passed over to the next one."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from engine import Deferred, activity, workflow

LEVELS = (("team lead", 1_000), ("head of department", 20_000), ("board", None))
PATIENCE = timedelta(days=2)


class Purchase(BaseModel):
    id: str
    what: str
    euros: int


class Answer(BaseModel):
    by: str
    approved: bool


answer = Deferred("purchase.answer", Answer)


@activity
async def ask(level: str, purchase: Purchase, token: str) -> None:
    """Send the level a link that resolves the token's deferred."""
    raise NotImplementedError("send a mail here")


@workflow(idempotency_key=lambda purchase: purchase.id)
async def approve_purchase(purchase: Purchase) -> list[Answer]:
    """Ask each level until one refuses, or until one approves whose limit covers the purchase."""
    answers: list[Answer] = []
    for level, limit in LEVELS:
        of_level = answer[level]
        await ask(level, purchase, of_level.token())
        try:
            answers.append(await asyncio.wait_for(of_level.wait(), PATIENCE.total_seconds()))
        except TimeoutError:
            continue
        if not answers[-1].approved or (limit is not None and purchase.euros <= limit):
            break
    return answers
