"""Messages: what a workflow's code asks of another execution. Each is a step, in the manner of an activity.

Rules:
1. The history records a message as an activity whose name says what was asked, and of which workflow.
2. The arguments are the receiver's id, the name of the channel or deferred, and the value, stored by that one's type.
3. A driver delivers a message (`engine/driving/messages.py`): no function of the author's runs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from engine.core.activity import Activity
from engine.core.declarations import Channel, Deferred
from engine.core.retry import Retry
from engine.ground.errors import (
    AlreadyEnded,
    AlreadyResolved,
    AlreadySent,
    ClientError,
    UnknownExecution,
    UnreadableExecution,
)

MessageKind = Literal["send to", "resolve in", "interrupt"]
"""What a message asks for."""

MAX_WORKFLOW = 150
"""Characters of the receiver's workflow in the name of a message."""
REFUSALS = (AlreadyEnded, AlreadyResolved, AlreadySent, UnknownExecution, UnreadableExecution)
"""What is raised where the code awaits a message that can't be delivered."""
UNTIL_DELIVERED = Retry(max_attempts=10**9, max_delay=timedelta(minutes=1), non_retryable=(ClientError,))
"""A store that can't be reached is asked again. A refusal is an answer."""


class Message(Activity[..., None]):
    """One kind of message to executions of one workflow. `target`: the channel or deferred that has the value; None for
    an interrupt, whose value is the reason."""

    def __init__(self, kind: MessageKind, workflow: str, target: Channel[Any] | Deferred[Any] | None) -> None:
        async def deliver(execution: str, target: str | None, value: Any) -> None: ...

        value = target.type if target is not None else str | None
        deliver.__annotations__ = {"execution": str, "target": str | None, "value": value, "return": None}
        super().__init__(deliver, f"{kind} {workflow[:MAX_WORKFLOW]}", UNTIL_DELIVERED, None, REFUSALS)
        self.kind = kind
        self.target = target

    def is_same(self, other: Activity[Any, Any]) -> bool:
        return isinstance(other, Message)
