"""Counts a store's requests and request units, by operation."""

from __future__ import annotations

from dataclasses import dataclass, field

METADATA = "metadata"
"""The SDK's own requests about the account, the container and its partitions. They cost almost nothing."""


@dataclass
class OperationUsage:
    """The counters of one operation. `failed` counts requests that were refused or got no answer."""

    requests: int = 0
    failed: int = 0
    request_units: float = 0.0


@dataclass
class Usage:
    """Counters that only grow. Most operations are methods of the store. `read back` is the read after a refused write.
    `metadata` are the SDK's own requests."""

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
        """The counters of an operation. They are 0 before its first request."""
        return self.operations.setdefault(operation, OperationUsage())

    def clear(self) -> None:
        """Start again from 0."""
        self.operations.clear()
