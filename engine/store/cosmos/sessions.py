"""Session tokens: how fresh a read of a partition has to be in order to see what this store wrote there.

The SDK keeps tokens of its own, but doesn't learn that of a transactional batch, and every completion and signal is
one. So the store keeps what each answer said, also that of a refusal: a read after a 412 then sees the version that
refused. The token of a physical partition looks like `3:-1#1042`: its id, its version, its position in the log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

CAPACITY = 10_000
"""Executions that are remembered. The SDK's own token, which knows all but batches, serves the others."""

_HEADER = "x-ms-session-token"


class Sessions:
    """The freshest token of each execution that was spoken to last."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._tokens: OrderedDict[str, str] = OrderedDict()

    def learn(self, execution_id: str, headers: Mapping[str, Any]) -> None:
        """Take in what an answer said."""
        token = headers.get(_HEADER)
        if not token:
            return
        partition, place = _position(token)
        known_partition, known_place = _position(self._tokens.get(execution_id, ""))
        # Answers may come out of order. After a split the partition has another id: what came last counts.
        if known_partition != partition or known_place <= place:
            self._tokens[execution_id] = token
        self._tokens.move_to_end(execution_id)
        while len(self._tokens) > self._capacity:
            self._tokens.popitem(last=False)

    def options(self, execution_id: str) -> dict[str, Any]:
        """What a read of the execution hands to the SDK."""
        token = self._tokens.get(execution_id)
        return {"session_token": token} if token else {}


def _position(token: str) -> tuple[str, int]:
    """The partition of a token, and the place in its log; 0 for a token of a form that isn't known."""
    partition, _, vector = token.partition(":")
    parts = vector.split("#")
    place = parts[1] if len(parts) > 1 else parts[0]
    return partition, int(place) if place.isdecimal() else 0
