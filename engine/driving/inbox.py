"""The inbox items of one execution in memory. They are found by name, without a walk over all of them."""

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
        self._stale: dict[str, InboxItem] = {}
        self._order: dict[str, list[tuple[int, datetime, str]]] = {}
        """A heap for each channel, ordered by position (the number of items that the sender knew of), then by time,
        then by id."""

    def add(self, item: InboxItem) -> None:
        """Take in an item. An item that was taken in before changes nothing."""
        if item.kind != "channel":
            self._named.setdefault((item.kind, item.name), item)
        elif item.id not in self._values:
            self._values[item.id] = item
            heapq.heappush(self._order.setdefault(item.name, []), (item.position, item.at, item.id))

    def add_stale(self, item: InboxItem) -> None:
        """Take in an item for an earlier run, such as the exit of a child. It is counted and later deleted, and never
        delivered."""
        self._stale[item.id] = item

    def deferred(self, name: str) -> InboxItem | None:
        """The item that resolved this deferred, or None."""
        return self._named.get(("deferred", name))

    def child(self, step: str) -> InboxItem | None:
        """The exit of this step's child, or None."""
        return self._named.get(("child", step))

    def next_value(self, channel: str, taken: Container[str]) -> InboxItem | None:
        """The first value of a channel that is not taken, or None. `taken` holds the ids of documents."""
        order = self._order.get(channel, [])
        while order and order[0][2] in taken:
            heapq.heappop(order)
        return self._values[order[0][2]] if order else None

    def read_by(self, taken: Container[str], deferreds: Container[str]) -> list[InboxItem]:
        """All items that no later run needs: the channel values that this run has taken, these `deferreds`,
        and the exits of children."""
        named = [item for item in self._named.values() if item.kind == "child" or item.name in deferreds]
        return [*named, *(item for id, item in self._values.items() if id in taken), *self._stale.values()]

    def remove(self, ids: Collection[str]) -> None:
        """Forget the items with these ids, which were deleted."""
        self._named = {key: item for key, item in self._named.items() if item.id not in ids}
        self._stale = {id: item for id, item in self._stale.items() if id not in ids}
        self._values = {id: item for id, item in self._values.items() if id not in ids}
        self._order = {
            channel: [place for place in order if place[2] not in ids] for channel, order in self._order.items()
        }
        for order in self._order.values():
            heapq.heapify(order)

    def unread(self, taken: Container[str]) -> int:
        """How many channel values nobody received."""
        return sum(id not in taken for id in self._values)
