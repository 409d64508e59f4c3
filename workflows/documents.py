"""A nightly run over many documents: a few at a time, and one that can't be read spoils nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from pydantic import BaseModel, Field

from engine import Failure, Retry, activity, workflow
from workflows.ledger import note


class Batch(BaseModel):
    night: str = Field(min_length=1)
    documents: list[str] = Field(max_length=1_000)


class Summary(BaseModel):
    done: int
    words: int
    unreadable: dict[str, str]


class Unreadable(Failure):
    """A document that no retry makes readable."""

    document: str
    reason: str


@activity(retry=Retry(max_attempts=3, first_delay=timedelta(seconds=1)), timeout=timedelta(minutes=2))
def extract(document: str) -> int:
    """Read one document and count its words. A sync function: it runs in a thread."""
    if document.endswith(".broken"):
        raise Unreadable(document=document, reason="not a document")
    note(f"extracted {document}")
    return len(document.split("-"))


@activity
async def publish(night: str, summary: Summary) -> None:
    """Tell the world."""
    note(f"published {night}: {summary.done} documents, {len(summary.unreadable)} unreadable")


@workflow(idempotency_key=lambda batch: batch.night, max_parallel=20)
async def digest_documents(batch: Batch) -> Summary:
    """Extract every document, at most 20 at a time, then publish what came of it."""
    results = await asyncio.gather(*(extract(document) for document in batch.documents), return_exceptions=True)
    words, unreadable = 0, dict[str, str]()
    for document, result in zip(batch.documents, results, strict=True):
        if isinstance(result, int):
            words += result
        else:
            unreadable[document] = result.reason if isinstance(result, Unreadable) else str(result)
    summary = Summary(done=len(results) - len(unreadable), words=words, unreadable=unreadable)
    await publish(batch.night, summary)
    return summary
