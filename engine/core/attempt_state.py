"""What passes between the code of a running activity and its driver: the details of its heartbeats, and whether it is
cancelled.

Rules:
1. The code writes `details`, also from a thread. The driver reads them, and stores them when it next writes.
2. The driver sets `is_cancelled` when nobody waits for the attempt any more. A thread can't be stopped, so it asks.
3. Details have the type that the code gives. The attempt that reads them names the type that it expects.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from engine.ground.errors import DecodingError, EncodingError, TooLarge
from engine.values.codec import Codec

T = TypeVar("T")

MAX_DETAILS = 4_096
"""The most characters that the details of one heartbeat take as JSON text."""
_PLAIN = (str, int, float, bool, list, dict, type(None))
_PLACE = "the details of activity.heartbeat()"


@dataclass
class AttemptState:
    """One attempt, as both sides see it. `details`: the JSON text that this attempt or an earlier one gave last."""

    attempt: int
    details: str | None
    is_cancelled: bool = False
    lifespan: object = None
    """What the app has opened for the process."""


current_state: contextvars.ContextVar[AttemptState] = contextvars.ContextVar("attempt_state")


def state_of(call: str) -> AttemptState:
    """The state of the attempt that runs here. Raises RuntimeError outside an activity."""
    try:
        return current_state.get()
    except LookupError:
        raise RuntimeError(f"{call} is for the code of an activity that a workflow called") from None


def text_of(details: Any) -> str:
    """The JSON text of details. Raises EncodingError, and TooLarge beyond MAX_DETAILS."""
    kind = cast(Hashable, type(details))
    text = (_plain_codec() if kind in _PLAIN else _codec_of(kind)).round_trip(details)[0]
    if len(text) > MAX_DETAILS:
        raise TooLarge(
            f"{_PLACE} take {len(text):,} characters as JSON, and at most {MAX_DETAILS:,} are kept: store the data "
            "elsewhere, and report where"
        )
    return text


def details_of(text: str | None, kind: Any) -> Any:
    """The value of details. None if there are none. Raises EncodingError if they aren't of that type."""
    try:
        return None if text is None else Codec(kind, _PLACE).decode(text)
    except DecodingError as error:
        raise EncodingError(str(error)) from None


def lifespan_of(state: AttemptState, kind: type[T]) -> T:
    """What the app has opened. Raises TypeError if it isn't of that class."""
    if isinstance(state.lifespan, kind):
        return state.lifespan
    given = "has no lifespan, or one that gives None" if state.lifespan is None else f"gives {state.lifespan!r}"
    raise TypeError(
        f"activity.lifespan({kind.__name__}) finds no {kind.__name__}: the app {given}. Declare one, as in "
        "Runtime.from_environment(WORKFLOWS, os.environ, lifespan=clients); in a test, Environment([…], "
        "lifespan=clients)"
    )


@functools.cache
def _plain_codec() -> Codec:
    return Codec(Any, _PLACE)


@functools.lru_cache(maxsize=1_000)
def _codec_of(kind: Hashable) -> Codec:
    return Codec(kind, _PLACE)
