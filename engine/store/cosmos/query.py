"""Queries over all executions, page by page, and over one partition.

The SDK can't continue an ordered query over several partitions. So this file makes its own continuation: the last value
of the field that orders the page, and the ids of the page's executions that have this value. The next page starts at
that value and leaves those executions out. No execution with the same value is lost or given twice. There is no
snapshot: an execution that changes between two pages may move.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from azure.cosmos.aio import ContainerProxy

from engine.ground.clock import isoformat
from engine.ground.errors import InvalidInput
from engine.store.base import Filter, Page, page_of
from engine.store.conditions import Condition
from engine.store.documents import EXEC, Document

HISTORY = (
    f"SELECT * FROM c WHERE (c.id != '{EXEC}' AND (c.id < 'history::' OR c.id >= @first)) OR IS_DEFINED(c.lastEvents)"
)
"""What `load` reads. The ids `channel::`, `child::` and `deferred::` sort before `history::`, `input` and `output`
after. The exec document is read only if it holds the last chunk."""
ALL_IDS = "SELECT VALUE c.id FROM c"

MAX_PAGE = 1_000
"""Items in one page of the service."""


@dataclass(frozen=True)
class Selection:
    """A query for executions. It is ordered `by` one indexed field. All conditions of `where` must hold."""

    by: str
    descending: bool
    where: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def due(cls, now: datetime) -> Selection:
        """Executions whose `dueAt` has passed, the longest overdue first."""
        return cls("dueAt", False, ["c.dueAt <= @now"], {"@now": isoformat(now)})

    @classmethod
    def listed(cls, filter: Filter) -> Selection:
        """Executions, the newest first."""
        where, parameters = ["IS_DEFINED(c.createdAt)"], dict[str, Any]()
        for name in ("workflow", "status", "outcome"):
            value = getattr(filter, name)
            if value is not None:
                where.append(f"c.{name} = @{name}")
                parameters[f"@{name}"] = value
        if filter.suspended_with_cause:  # `cause` isn't indexed, but only what runs has one
            where += ["c.status = 'running'", "IS_DEFINED(c.cause)"]
        for condition in filter.conditions:
            where.append(_condition(condition, parameters))
        return cls("createdAt", True, where, parameters)

    async def page(self, container: ContainerProxy, limit: int, continuation: str | None) -> Page:
        """The next `limit` executions. Raises what a request may raise, and InvalidInput for a continuation of another
        kind of query."""
        after, seen = self._read(continuation)
        rows: dict[str, Document] = {}
        async for document in container.query_items(
            self._text(after is not None),
            parameters=self._bound(after),
            max_item_count=min(limit + len(seen), MAX_PAGE),
        ):
            if document[self.by] == after and document["executionId"] in seen:
                continue
            # The SDK may give a document twice if its physical partition splits during the query.
            rows.setdefault(document["executionId"], document)
            if len(rows) == limit:
                break
        found = list(rows.values())
        return page_of(found, self._write(found, after, seen) if len(found) == limit else None)

    async def total(self, container: ContainerProxy) -> int:
        """How many there are. Raises what a request may raise."""
        text = f"SELECT VALUE COUNT(1) FROM c WHERE {' AND '.join(self._where)}"
        found: list[Any] = [item async for item in container.query_items(text, parameters=self._bound(None))]
        return int(sum(found))

    @property
    def _where(self) -> list[str]:
        return [f"c.id = '{EXEC}'", *self.where]

    def _text(self, continued: bool) -> str:
        conditions = self._where
        if continued:
            conditions.append(f"c.{self.by} {'<=' if self.descending else '>='} @after")
        order = "DESC" if self.descending else "ASC"
        return f"SELECT * FROM c WHERE {' AND '.join(conditions)} ORDER BY c.{self.by} {order}"

    def _bound(self, after: str | None) -> list[dict[str, Any]]:
        values = self.parameters | ({"@after": after} if after is not None else {})
        return [{"name": name, "value": value} for name, value in values.items()]

    def _write(self, rows: list[Document], after: str | None, seen: set[str]) -> str:
        last = rows[-1][self.by]
        ties = {row["executionId"] for row in rows if row[self.by] == last}
        return json.dumps([self.by, last, sorted(ties | seen if last == after else ties)], separators=(",", ":"))

    def _read(self, continuation: str | None) -> tuple[str | None, set[str]]:
        if continuation is None:
            return None, set()
        try:
            name, after, seen = json.loads(continuation)
            if name != self.by or not isinstance(after, str):
                raise ValueError(continuation)
            return after, {str(one) for one in seen}
        except (ValueError, TypeError, RecursionError):
            raise InvalidInput(
                "the continuation isn't one that a previous page returned", [("continuation", "malformed")]
            ) from None


def _condition(condition: Condition, parameters: dict[str, Any]) -> str:
    """The text of a condition. Its values go into `parameters`."""
    names = []
    for value in condition.values:
        names.append(f"@v{len(parameters)}")
        parameters[names[-1]] = value
    tests = []
    for path in condition.paths:
        field = "c" + "".join(f"[{json.dumps(name)}]" for name in path)
        match condition.operator:
            case "there":
                test = f"IS_DEFINED({field})"
            case "is":
                test = " OR ".join(f"{field} = {name}" for name in names)
            case "contains":
                test = f"CONTAINS({field}, {names[0]}, true)"
            case _:
                test = f"{field} {condition.operator} {names[0]}"
        # Not undefined: the negation of that is undefined as well.
        tests.append(f"(IS_DEFINED({field}) AND ({test}))" if condition.negated else test)
    return f"{'NOT ' if condition.negated else ''}({' OR '.join(tests)})"


async def partition_page(
    container: ContainerProxy,
    execution_id: str,
    text: str,
    parameters: dict[str, Any],
    continuation: str | None,
    options: dict[str, Any],
) -> tuple[list[Any], str | None, dict[str, Any]]:
    """One page of a query in one partition: its items, the token of the next page, and the answer's headers. Raises
    what a request may raise.

    The token comes from this answer's headers. The SDK's own pager takes it from the last answer that its client
    received, which may be another request's.
    """
    headers: dict[str, Any] = {}

    def keep(answer: Any, _: Any) -> None:
        headers.clear()
        headers.update({name.lower(): value for name, value in answer.items()})

    pages = container.query_items(
        text,
        parameters=[{"name": name, "value": value} for name, value in parameters.items()],
        partition_key=execution_id,
        max_item_count=-1,
        response_hook=keep,
        **options,
    ).by_page(continuation)
    try:
        items = [item async for item in await anext(pages)]
    except StopAsyncIteration:
        items = []
    return items, headers.get("x-ms-continuation") or None, headers
