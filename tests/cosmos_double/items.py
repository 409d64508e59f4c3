"""Operations on items, as steps of one transaction over one logical partition.

A single request is a transaction of one step; a batch is a transaction of many. Steps see what earlier steps
staged; `commit` makes all of it visible at once under one LSN, and without it nothing ever happened.

Condition: If-Match on replace, patch and delete.
"""

from dataclasses import dataclass
from typing import Any

from . import charges, patch
from .errors import CosmosError, conflict, item_not_found, precondition_failed
from .query_eval import Scope, is_true
from .query_parser import parse_condition
from .rules import PartitionKey, check_id, check_item
from .state import Changes, Container, Document, Key


@dataclass(frozen=True, slots=True)
class Condition:
    """If-Match: an etag, or `*`."""

    if_match: str | None = None

    def check(self, document: Document) -> None:
        """Refuse a write of this version."""
        if self.if_match not in (None, "*", document.etag):
            raise precondition_failed()


NO_CONDITION = Condition()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step did. `document` is the new version, or the one read; None after a delete."""

    status: int
    charge: float
    document: Document | None = None
    etag: str | None = None


class Transaction:
    """Steps over the items of one partition key value."""

    def __init__(self, container: Container, key: PartitionKey, view_lsn: int | None = None) -> None:
        self._container = container
        self._key = key
        self.range = container.range_for(key.epk)
        lsn = self.range.lsn if view_lsn is None else view_lsn
        self._documents = self.range.view(lsn)
        self._staged: Changes = {}

    def find(self, item_id: str) -> Document | None:
        key: Key = (self._key.text, item_id)
        return self._staged[key] if key in self._staged else self._documents.get(key)

    def commit(self) -> int:
        """Make the staged changes visible; the LSN of the range after it."""
        if self._staged:
            self.range.commit(self._staged, self._container.account.history)
        return self.range.lsn

    def create(self, body: Any) -> Outcome:
        check_item(body, self._container.rules, self._key)
        if self.find(body["id"]) is not None:
            raise conflict()
        document = self._stage(body, None)
        return Outcome(201, self._create_charge(document), document, document.etag)

    def read(self, item_id: str) -> Outcome:
        document = self._existing(item_id)
        return Outcome(200, charges.read(document.size), document, document.etag)

    def replace(self, item_id: str, body: Any, condition: Condition = NO_CONDITION) -> Outcome:
        check_item(body, self._container.rules, self._key)
        existing = self._existing(item_id)
        if body["id"] != item_id:
            raise CosmosError(400, f"The id {body['id']!r} of the body is not the id {item_id!r} of the request.")
        condition.check(existing)
        return self._overwrite(existing, body)

    def patch(self, item_id: str, request: Any, condition: Condition = NO_CONDITION) -> Outcome:
        existing = self._existing(item_id)
        condition.check(existing)
        if not isinstance(request, dict) or set(request) - {"operations", "condition"}:
            raise CosmosError(400, "A patch is an object with 'operations' and, optionally, 'condition'.")
        predicate = request.get("condition")
        if predicate is not None and not is_true(parse_condition(str(predicate)), Scope(existing.body, {})):
            raise precondition_failed()
        body = patch.apply(dict(existing.body), request.get("operations"), self._container.rules.key_path)
        check_item(body, self._container.rules, self._key)
        return self._overwrite(existing, body)

    def delete(self, item_id: str, condition: Condition = NO_CONDITION) -> Outcome:
        existing = self._existing(item_id)
        condition.check(existing)
        self._staged[existing.key] = None
        paths = self._container.rules.indexing.indexed_values(dict(existing.body))
        return Outcome(204, charges.delete(existing.size, len(paths)))

    def _existing(self, item_id: str) -> Document:
        document = self.find(check_id(item_id))
        if document is None:
            raise item_not_found()
        return document

    def _overwrite(self, existing: Document, body: dict[str, Any]) -> Outcome:
        document = self._stage(body, existing)
        before = self._container.rules.indexing.indexed_values(dict(existing.body))
        after = self._container.rules.indexing.indexed_values(dict(document.body))
        missing = object()
        changed = sum(before.get(p, missing) != after.get(p, missing) for p in before.keys() | after.keys())
        return Outcome(200, charges.replace(document.size, changed), document, document.etag)

    def _stage(self, body: dict[str, Any], previous: Document | None) -> Document:
        document = self._container.make(self._key, body, previous)
        self._staged[document.key] = document
        return document

    def _create_charge(self, document: Document) -> float:
        paths = self._container.rules.indexing.indexed_values(dict(document.body))
        return charges.create(document.size, len(paths))
