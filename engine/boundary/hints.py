"""Hints as messages of a queue: `{"v": 1, "id": <execution id>}`, and `"at": <instant>` for a hint that is due later.

Another version of the app may have written a message, and so may anybody who can write to the queue. So each message is
checked, and its size is limited. A message that can't be read is logged and dropped: the sweep finds every execution
without it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, Field, ValidationError

from engine.driving.hand_overs import Hint
from engine.driving.notices import Notice
from engine.ground.clock import Instant

MAX_BYTES = 1_000
"""The most bytes of a message. Every version's messages are smaller."""
MAX_DELIVERIES = 5
"""How often the host delivers a message whose function fails: `maxDequeueCount` in host.json. Then it moves the message
to the queue `hints-poison`."""

_log = logging.getLogger("engine")


class _Message(BaseModel):
    v: Literal[1] = 1
    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    at: Instant | None = None


def to_message(hint: Hint) -> str:
    """The text of a message."""
    return _Message(id=hint.execution_id, at=hint.at).model_dump_json(exclude_none=True)


def from_message(body: bytes) -> Hint | None:
    """The hint of a message, or None if this version can't read the message."""
    try:
        if len(body) > MAX_BYTES:
            raise ValueError(f"it has {len(body):,} bytes")
        message = _Message.model_validate_json(body)
    except ValidationError as error:
        problem = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'the text'}: {e['msg']}" for e in error.errors())
    except ValueError as error:
        problem = str(error)
    else:
        return Hint(message.id, message.at)
    _log.warning("dropped a message of the queue that isn't a hint: %s", problem[:200])
    return None


@contextlib.contextmanager
def noticing_poison(hint: Hint, delivery: int | None) -> Iterator[None]:
    """Log a notice if what runs inside fails, and this was the hint's last delivery. `delivery` counts from 1."""
    try:
        yield
    except Exception as error:
        if delivery is not None and delivery >= MAX_DELIVERIES:
            fields = {"execution_id": hint.execution_id, "notice": Notice.POISONED}
            _log.error(
                "execution %s: its hint failed %d times, and goes to the queue hints-poison: %s",
                hint.execution_id,
                delivery,
                error,
                extra=fields,
            )
        raise
