"""Human interaction: send a code by SMS and give its reader three tries and ninety seconds."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from engine import Channel, activity, workflow

TRIES = 3
SECONDS = 90


class Check(BaseModel):
    phone: str


attempts = Channel("sms.attempts", str)


@activity
async def send_code(phone: str, code: str) -> None:
    """Send the code by SMS."""
    raise NotImplementedError("call the SMS gateway here")


@workflow
async def verify_phone(check: Check) -> bool:
    """Whether somebody who holds the phone typed the code in time."""
    code = f"{workflow.random().randrange(10_000):04}"  # the same code in every replay
    await send_code(check.phone, code)
    try:
        async with asyncio.timeout(SECONDS):
            for _ in range(TRIES):
                if await attempts.receive() == code:
                    return True
    except TimeoutError:
        pass
    return False
