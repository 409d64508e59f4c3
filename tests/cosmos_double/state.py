"""What the account holds: databases, containers, physical partitions, documents.

1. A physical partition (`Range`) has one counter, its LSN. A commit raises it by one and stamps every document
   that it touches, so the documents of a transaction share an LSN.
2. A range keeps an undo log of its last commits. A view at an older LSN is the present with the younger entries
   undone: that is what a lagging replica would answer.
3. A split makes two children that go on from the parent's LSN, so session tokens and change feed positions of
   the parent hold on them. The parent stays known as gone.
"""

import base64
import copy
import time
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import epk, wire
from .errors import CosmosError, owner_not_found, range_gone
from .rules import SYSTEM_PROPERTIES, ContainerRules, PartitionKey

Key = tuple[str, str]  # partition key text, id


@dataclass(frozen=True, slots=True)
class Document:
    """One version of an item. `body` is what a reader gets, system properties included; never changed in place."""

    key: Key
    epk: str
    body: Mapping[str, Any]
    number: int  # of the item in its container: decides `_rid`
    size: int
    lsn: int = 0

    @property
    def etag(self) -> str:
        return str(self.body["_etag"])

    @property
    def order(self) -> tuple[str, int]:
        """Place in a scan: by hash, never by age. The service promises no order, so don't give a tidy one."""
        return self.epk, zlib.crc32(str(self.number).encode())


Changes = dict[Key, Document | None]


@dataclass(slots=True)
class Range:
    """A physical partition."""

    id: str
    minimum: str
    maximum: str
    version: int  # of the container's list of ranges, when this one appeared
    parents: list[str] = field(default_factory=list)
    lsn: int = 1
    documents: dict[Key, Document] = field(default_factory=dict)
    undo: deque[tuple[int, Key, Document | None]] = field(default_factory=deque)
    gone: bool = False

    def holds(self, effective_key: str) -> bool:
        return self.minimum <= effective_key < self.maximum

    def commit(self, changes: Changes, history: int) -> int:
        """Apply a transaction; the LSN that it got."""
        self.lsn += 1
        for key, document in changes.items():
            self.undo.append((self.lsn, key, self.documents.get(key)))
            if document is None:
                self.documents.pop(key, None)
                continue
            self.documents[key] = replace(document, lsn=self.lsn)
        while self.undo and self.undo[0][0] <= self.lsn - history:
            self.undo.popleft()
        return self.lsn

    def view(self, lsn: int) -> dict[Key, Document]:
        """The documents as they were at `lsn`."""
        if lsn >= self.lsn:
            return self.documents
        past = dict(self.documents)
        for at, key, previous in reversed(self.undo):
            if at <= lsn:
                break
            if previous is None:
                past.pop(key, None)
            else:
                past[key] = previous
        return past

    def oldest_view(self) -> int:
        """The oldest LSN that the undo log can show."""
        return self.undo[0][0] - 1 if self.undo else self.lsn


class Container:
    """A container and its physical partitions, gone ones included."""

    def __init__(self, rules: ContainerRules, rid: str, database: "Database", ranges: int) -> None:
        self.rules = rules
        self.rid = rid
        self.database = database
        self.account = database.account
        self.etag = self.account.next_etag()
        self.timestamp = int(time.time())
        self.version = 1
        self._items = 0
        cuts = epk.boundaries(ranges)
        self.ranges = {str(n): Range(str(n), low, high, 1) for n, (low, high) in enumerate(cuts)}

    @property
    def link(self) -> str:
        return f"dbs/{self.database.rid}/colls/{self.rid}/"

    @property
    def path(self) -> str:
        return f"dbs/{self.database.id}/colls/{self.rules.id}"

    def resource(self) -> dict[str, Any]:
        return {
            **self.rules.definition,
            "_rid": self.rid,
            "_ts": self.timestamp,
            "_self": self.link,
            "_etag": self.etag,
            "_docs": "docs/",
            "_sprocs": "sprocs/",
            "_triggers": "triggers/",
            "_udfs": "udfs/",
            "_conflicts": "conflicts/",
        }

    def live_ranges(self) -> list[Range]:
        """In order of their hashes."""
        live = (part for part in self.ranges.values() if not part.gone)
        return sorted(live, key=lambda part: part.minimum)

    def live_range(self, range_id: str) -> Range:
        """A live range by id: 410 with sub-status 1002 if it is gone or was never there."""
        part = self.ranges.get(range_id)
        if part is None or part.gone:
            raise range_gone(range_id)
        return part

    def range_for(self, effective_key: str) -> Range:
        return next(part for part in self.live_ranges() if part.holds(effective_key))

    def split(self, range_id: str | None = None) -> list[Range]:
        """Split a range (the first, if none is named) in the middle of its hashes; the two children."""
        parent = self.live_ranges()[0] if range_id is None else self.live_range(range_id)
        cut = epk.middle(parent.minimum, parent.maximum)
        self.version += 1
        children = []
        for low, high in ((parent.minimum, cut), (cut, parent.maximum)):
            child = Range(str(len(self.ranges)), low, high, self.version, [*parent.parents, parent.id])
            child.lsn = parent.lsn
            child.documents = {k: d for k, d in parent.documents.items() if child.holds(d.epk)}
            hashes = {key: epk.effective_key(_key_value(key)) for _, key, _ in parent.undo}
            child.undo = deque(entry for entry in parent.undo if child.holds(hashes[entry[1]]))
            self.ranges[child.id] = child
            children.append(child)
        parent.gone = True
        parent.documents, parent.undo = {}, deque()
        return children

    def documents(self, key: Any = epk.UNDEFINED) -> list[dict[str, Any]]:
        """Copies of the stored items, of one partition or of all: a look that no request and no charge sees."""
        wanted = None if key is epk.UNDEFINED else PartitionKey(key).text
        return [
            copy.deepcopy(dict(document.body))
            for part in self.live_ranges()
            for document in part.view(part.lsn).values()
            if wanted is None or document.key[0] == wanted
        ]

    def make(self, key: PartitionKey, body: dict[str, Any], previous: Document | None) -> Document:
        """A new version of an item, with fresh system properties; not stored yet."""
        if previous is None:
            self._items += 1
        number = previous.number if previous else self._items
        rid = make_rid(self.rid, number.to_bytes(8, "little"))
        stored = {name: value for name, value in body.items() if name not in SYSTEM_PROPERTIES} | {
            "_rid": rid,
            "_self": f"{self.link}docs/{rid}/",
            "_etag": self.account.next_etag(),
            "_attachments": "attachments/",
            "_ts": int(time.time()),
        }
        return Document((key.text, body["id"]), key.epk, stored, number, wire.size(stored))


class Database:
    """A database: a named set of containers."""

    def __init__(self, name: str, rid: str, account: "Account") -> None:
        self.id = name
        self.rid = rid
        self.account = account
        self.etag = account.next_etag()
        self.timestamp = int(time.time())
        self.containers: dict[str, Container] = {}
        self._made = 0

    def resource(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "_rid": self.rid,
            "_self": f"dbs/{self.rid}/",
            "_etag": self.etag,
            "_colls": "colls/",
            "_users": "users/",
            "_ts": self.timestamp,
        }

    def add(self, rules: ContainerRules, ranges: int) -> Container:
        if rules.id in self.containers:
            raise CosmosError(409, "Resource with specified id, name, or unique index already exists.")
        self._made += 1
        container = Container(rules, make_rid(self.rid, self._made.to_bytes(4, "little")), self, ranges)
        self.containers[rules.id] = container
        return container

    def container(self, name: str) -> Container:
        if name not in self.containers:
            raise owner_not_found()
        return self.containers[name]


class Account:
    """Everything, and the counters that make ids and etags."""

    def __init__(self, ranges: int, history: int) -> None:
        self.ranges = ranges
        self.history = history
        self.databases: dict[str, Database] = {}
        self._made = 0
        self._etags = 0

    def add(self, name: str) -> Database:
        if name in self.databases:
            raise CosmosError(409, "Resource with specified id, name, or unique index already exists.")
        self._made += 1
        rid = base64.b64encode(self._made.to_bytes(4, "little")).decode().replace("/", "-")
        self.databases[name] = Database(name, rid, self)
        return self.databases[name]

    def database(self, name: str) -> Database:
        if name not in self.databases:
            raise owner_not_found()
        return self.databases[name]

    def next_etag(self) -> str:
        self._etags += 1
        return f'"{self._etags:08x}-0000-0100-0000-{int(time.time()):08x}0000"'


def make_rid(owner: str, suffix: bytes) -> str:
    """A resource id under its owner's: the bytes of one after the other, in the service's base64."""
    raw = base64.b64decode(owner.replace("-", "/")) + suffix
    return base64.b64encode(raw).decode().replace("/", "-")


def _key_value(key: Key) -> Any:
    value = wire.loads(key[0].encode("utf-8"))[0]
    return epk.UNDEFINED if value == {} else value
