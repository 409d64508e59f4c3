"""What the outside and the children have sent to one execution, found by name without a walk over all of it."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container
from datetime import datetime

from engine.store.documents import InboxItem


class Inbox:
    """The inbox items that a driver has read. Each call takes about the same time, however many items there are."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, str], InboxItem] = {}
        self._values: dict[str, InboxItem] = {}
        self._stale: set[str] = set()
        self._order: dict[str, list[tuple[int, datetime, str]]] = {}
        """For each channel a heap: what its sender knew to be there goes first, then the earlier, then by id."""

    def add(self, item: InboxItem) -> None:
        """Take in an item. An item that is here already changes nothing."""
        if item.kind != "channel":
            self._named.setdefault((item.kind, item.name), item)
        elif item.id not in self._values:
            self._values[item.id] = item
            heapq.heappush(self._order.setdefault(item.name, []), (item.position, item.at, item.id))

    def add_stale(self, item: InboxItem) -> None:
        """Take in the exit of a child that answers an earlier run. It is there, and means nothing."""
        self._stale.add(item.id)

    def deferred(self, name: str) -> InboxItem | None:
        """What resolved that deferred."""
        return self._named.get(("deferred", name))

    def child(self, step: str) -> InboxItem | None:
        """How the child of that step ended."""
        return self._named.get(("child", step))

    def next_value(self, channel: str, taken: Container[str]) -> InboxItem | None:
        """The first value of a channel whose document's id is not in `taken`."""
        order = self._order.get(channel, [])
        while order and order[0][2] in taken:
            heapq.heappop(order)
        return self._values[order[0][2]] if order else None

    def read_by(self, taken: Container[str], deferreds: Container[str]) -> list[str]:
        """The ids of all items that no later run needs: the values that this run has taken, those deferreds, and the
        exits of children."""
        named = [item.id for item in self._named.values() if item.kind == "child" or item.name in deferreds]
        return [*named, *(id for id in self._values if id in taken), *self._stale]

    def remove(self, ids: Collection[str]) -> None:
        """Forget items that were deleted."""
        self._named = {key: item for key, item in self._named.items() if item.id not in ids}
        self._stale -= set(ids)
        self._values = {id: item for id, item in self._values.items() if id not in ids}
        self._order = {
            channel: [place for place in order if place[2] not in ids] for channel, order in self._order.items()
        }
        for order in self._order.values():
            heapq.heapify(order)

    def unread(self, taken: Container[str]) -> int:
        """How many values of channels nobody received."""
        return sum(id not in taken for id in self._values)
