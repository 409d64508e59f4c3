"""Workflows that break the rules of determinism, for the guard to find."""

import asyncio
import datetime as dt
import os
import random
import time
import uuid
from datetime import datetime
from os import getenv
from pathlib import Path
from random import choice
from uuid import uuid4

from engine import activity, workflow


def helper() -> float:
    return time.time()


@activity
async def clock() -> float:
    return time.time()


@workflow
async def suspicious() -> None:
    datetime.now()
    dt.date.today()
    time.sleep(1)
    random.random()
    choice([1])
    uuid4()
    uuid.uuid1()
    os.environ["HOME"]
    getenv("HOME")
    open("file")
    Path("file").read_text()
    await asyncio.to_thread(print)
    for _ in {1, 2}:
        pass
    members = set([1])
    [member for member in members]
    helper()


@workflow
async def blameless() -> None:
    await clock()
    workflow.now()
    workflow.random().random()
    random.Random(3).random()
    os.path.join("a", "b")
    await asyncio.sleep(1)
    for _ in sorted({1, 2}):
        pass


WORKFLOWS = [suspicious, blameless]
