"""What a store has asked of its account: requests and request units, by operation."""

from __future__ import annotations

from dataclasses import dataclass, field

METADATA = "metadata"
"""Requests of the SDK about the account, the container and its partitions; they cost next to nothing."""


@dataclass
class OperationUsage:
    """Of one operation: HTTP requests sent, those of them that were refused or never answered, request units paid."""

    requests: int = 0
    failed: int = 0
    request_units: float = 0.0


@dataclass
class Usage:
    """Counters that only grow. An operation is a method of the store; `read back` is the look at what stands after a
    refused write, and `metadata` the SDK's own requests."""

    operations: dict[str, OperationUsage] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        """Requests of all operations, without metadata."""
        return sum(one.requests for name, one in self.operations.items() if name != METADATA)

    @property
    def request_units(self) -> float:
        """Request units of all operations."""
        return round(sum(one.request_units for one in self.operations.values()), 2)

    def of(self, operation: str) -> OperationUsage:
        """The counters of an operation, which are 0 before its first request."""
        return self.operations.setdefault(operation, OperationUsage())

    def clear(self) -> None:
        """Count from here."""
        self.operations.clear()
