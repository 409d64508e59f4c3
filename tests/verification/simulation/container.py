"""A container of Cosmos DB in plain dicts: what a transaction changes, and what a lagging replica shows.

Rules:
1. A transaction changes one partition, all of it or nothing. Every version of a partition is kept, with its time.
2. A read sees some version that is whole: at least `floor`, which is what its session knows, and no older than the
   replica's lag.
3. Statuses are the service's: 409 where a create finds a document, 412 where a condition doesn't hold, 404 where there
   is none. The first operation that fails decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.ground.errors import Conflict, Missing, Taken
from engine.store.cosmos.items import Operation
from engine.store.cosmos.patches import predicate
from engine.store.documents import EXEC, Document
from engine.store.transitions import CAN_BE_INTERRUPTED, IS_COMPLETE, IS_RUNNING

Documents = Mapping[str, Document]
"""The documents of a partition by id. Never changed: a new version is a new mapping."""
Committed = Callable[[str, Documents, Documents], None]
"""Hears of each change: the partition's key, and its documents before and after."""

PREDICATES: dict[str, Callable[[Document], bool]] = {
    predicate(IS_RUNNING): lambda document: document["status"] == "running",
    predicate(CAN_BE_INTERRUPTED): lambda document: (
        document["status"] == "running" and document["interrupted"] is False
    ),
    predicate(IS_COMPLETE): lambda document: document["status"] == "complete",
}


@dataclass(frozen=True)
class Version:
    """A partition as it stood from `at` on."""

    at: float
    documents: Documents


EMPTY = Version(float("-inf"), {})


class Container:
    """The data. `now` gives the time in seconds; `committed` hears of each transaction that changed something."""

    def __init__(self, now: Callable[[], float], committed: Committed = lambda key, before, after: None) -> None:
        self._now = now
        self._committed = committed
        self._partitions: dict[str, list[Version]] = {}
        self._etags = 0

    def known(self) -> list[str]:
        """The keys of all partitions there ever were."""
        return list(self._partitions)

    def documents(self, key: str) -> Documents:
        """A partition as it stands."""
        return self._versions(key)[-1].documents

    def latest(self, key: str) -> int:
        """The number of a partition's newest version."""
        return len(self._versions(key)) - 1

    def view(self, key: str, floor: int = 0, lag: float = 0.0) -> tuple[Documents, int]:
        """What a replica that lags shows of a partition, and the number of that version."""
        versions = self._versions(key)
        number, moment = len(versions) - 1, self._now() - lag
        while number > floor and versions[number].at > moment:
            number -= 1
        return versions[number].documents, number

    def beginning(self, key: str) -> int:
        """The number of the version in which a partition was last empty."""
        versions = self._versions(key)
        return max(number for number, version in enumerate(versions) if not version.documents)

    def transact(self, key: str, operations: Sequence[Operation]) -> list[Document]:
        """All of these, or none. What each gives. Raises Taken, Conflict, Missing."""
        before = self.documents(key)
        after = dict(before)
        done = [self._apply(after, operation) for operation in operations]
        self._partitions[key].append(Version(self._now(), after))
        self._committed(key, before, after)
        return done

    def put(self, document: Document) -> None:
        """Create a document, or write over it, whatever stands there."""
        key = document["executionId"]
        after = {**self.documents(key), document["id"]: self._stamped(document)}
        self._partitions[key].append(Version(self._now(), after))

    # -- inside --

    def _versions(self, key: str) -> list[Version]:
        return self._partitions.setdefault(key, [EMPTY])

    def _apply(self, documents: dict[str, Document], operation: Operation) -> Document:
        match operation.kind, operation.arguments:
            case "create", (document,):
                return self._create(documents, document)
            case "replace", (id, document):
                self._check(documents, id, operation.options)
                documents[id] = self._stamped(document)
                return {"eTag": documents[id]["_etag"]}
            case "patch", (id, changes):
                self._check(documents, id, operation.options)
                documents[id] = self._stamped(_patched(documents[id], changes))
                return {"eTag": documents[id]["_etag"], "resourceBody": documents[id]}
            case "delete", (id,):
                self._check(documents, id, operation.options)
                del documents[id]
                return {}
        raise AssertionError(f"the service knows no {operation}")

    def _create(self, documents: dict[str, Document], document: Document) -> Document:
        if document["id"] in documents:
            raise Taken(f"409: {document['id']} exists")
        documents[document["id"]] = stamped = self._stamped(document)
        return {"eTag": stamped["_etag"]}

    def _check(self, documents: Documents, id: str, options: Mapping[str, object]) -> None:
        if id not in documents:
            raise Missing(f"404: there is no {id}")
        etag, predicate = options.get("if_match_etag"), options.get("filter_predicate")
        if etag is not None and documents[id]["_etag"] != etag:
            raise Conflict(f"412: {id} has another etag")
        if predicate is not None and not PREDICATES[str(predicate)](documents[id]):
            raise Conflict(f"412: {id} is not as the predicate says")

    def _stamped(self, document: Document) -> Document:
        self._etags += 1
        return {**document, "_etag": f'"{self._etags:06d}"'}


def _patched(document: Document, changes: Sequence[Document]) -> Document:
    patched = dict(document)
    for change in changes:
        name = change["path"].removeprefix("/")
        patched[name] = patched[name] + change["value"] if change["op"] == "incr" else change["value"]
    return patched


def executions(container: Container, lag: Callable[[], float]) -> list[Document]:
    """The exec documents of all partitions, each as some replica shows it."""
    views = (container.view(key, lag=lag())[0] for key in container.known())
    return [documents[EXEC] for documents in views if EXEC in documents]
