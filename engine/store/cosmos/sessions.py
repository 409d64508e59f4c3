"""Session tokens. A read with a partition's token sees everything that this store wrote there.

The SDK keeps tokens too, but it doesn't take them from the answers to transactional batches, and every completion and
every signal is a batch. So the store takes the token from each answer, also from a refusal: a read after a 412 then
sees the version that caused the 412. The token of a physical partition looks like `3:-1#1042`: its id, its version, its
position in the log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

CAPACITY = 10_000
"""Executions whose tokens are kept. The SDK's own token, which lacks batches only, serves the others."""

_HEADER = "x-ms-session-token"


class Sessions:
    """The freshest token of each of the last CAPACITY executions."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._tokens: OrderedDict[str, str] = OrderedDict()

    def learn(self, execution_id: str, headers: Mapping[str, Any]) -> None:
        """Keep the token of an answer, if it is the freshest."""
        token = headers.get(_HEADER)
        if not token:
            return
        partition, place = _position(token)
        known_partition, known_place = _position(self._tokens.get(execution_id, ""))
        # Answers may come out of order. After a split the partition has another id, and the last answer counts.
        if known_partition != partition or known_place <= place:
            self._tokens[execution_id] = token
        self._tokens.move_to_end(execution_id)
        while len(self._tokens) > self._capacity:
            self._tokens.popitem(last=False)

    def options(self, execution_id: str) -> dict[str, Any]:
        """The SDK's options for a read of the execution."""
        token = self._tokens.get(execution_id)
        return {"session_token": token} if token else {}


def _position(token: str) -> tuple[str, int]:
    """The partition of a token, and the position in its log. The position is 0 if the token has an unknown form."""
    partition, _, vector = token.partition(":")
    parts = vector.split("#")
    place = parts[1] if len(parts) > 1 else parts[0]
    return partition, int(place) if place.isdecimal() else 0
