"""Interpreter: run a little program that arrives as data: steps in a row, in parallel, in loops, with pauses."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from engine import activity, workflow


class Call(BaseModel):
    do: Literal["call"] = "call"
    url: str


class Sleep(BaseModel):
    do: Literal["sleep"] = "sleep"
    seconds: float = Field(ge=0, le=86_400)


class Block(BaseModel):
    do: Literal["sequence", "parallel"]
    steps: list[Step]


class Repeat(BaseModel):
    do: Literal["repeat"] = "repeat"
    times: int = Field(ge=0, le=100)
    step: Step


Step = Annotated[Call | Sleep | Block | Repeat, Field(discriminator="do")]


@activity
async def call(url: str) -> int:
    """Call a URL. Returns its status code."""
    raise NotImplementedError("make the request here")


async def run(step: Step) -> list[int]:
    """The status codes of a step's calls, in the order of the program."""
    match step:
        case Call(url=url):
            return [await call(url)]
        case Sleep(seconds=seconds):
            await asyncio.sleep(seconds)
            return []
        case Repeat(times=times, step=inner):
            return [code for _ in range(times) for code in await run(inner)]
        case Block(do="sequence", steps=steps):
            return [code for inner in steps for code in await run(inner)]
        case Block(steps=steps):
            return [code for codes in await asyncio.gather(*map(run, steps)) for code in codes]


@workflow
async def interpret(program: Block) -> list[int]:
    """Run the program."""
    return await run(program)
