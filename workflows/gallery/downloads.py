"""Parallel downloads: ask all mirrors at once, take the first answer, and cancel the others."""

from __future__ import annotations

import asyncio

from engine import Failure, activity, workflow


class Unavailable(Failure):
    """No mirror has the file."""

    file: str


@activity
async def download(mirror: str, file: str) -> str:
    """Download the file from one mirror into the app's storage. Returns its address there."""
    raise NotImplementedError("download the file here")


@workflow
async def fetch_file(file: str) -> str:
    """The address of the first copy that arrives."""
    mirrors = ("east", "west", "north")
    downloads = [asyncio.create_task(download(mirror, file), name=mirror) for mirror in mirrors]
    try:
        for finished in workflow.as_completed(downloads):
            try:
                return str(await finished)
            except Exception:  # noqa: BLE001 - any failure of a mirror means: try the next one
                workflow.logger.info("a mirror can't serve %s", file)
        raise Unavailable(file=file)
    finally:
        for task in downloads:
            task.cancel()
