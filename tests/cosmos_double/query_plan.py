"""Queries over several ranges: what the gateway serves itself, and the plan for a client that merges.

The gateway passes a plain filter or projection from range to range. Whatever needs state across ranges (TOP,
ORDER BY, OFFSET LIMIT, COUNT) it refuses with 400 and sub-status 1004, and the plan in `additionalErrorInfo`,
with one range too (https://learn.microsoft.com/rest/api/cosmos-db/querying-cosmosdb-resources-using-the-rest-api,
and the recorded exchanges in docs/COSMOS.md of the public repository xo/dbimp). The client then asks each range,
with a rewritten query whose rows it can merge. A rewritten query is only known here because a plan handed it out.
"""

import json
from typing import Any

from . import wire
from .epk import UNDEFINED
from .errors import CROSS_PARTITION_QUERY_NOT_SERVABLE, CosmosError, bad_request
from .query_eval import resolve
from .query_lexer import tokens
from .query_pages import Shape, count, projection
from .query_parser import Path, Query, parse
from .state import Document

_FILTER = "{documentdb-formattableorderbyquery-filter}"


class Rewrites:
    """The rewritten queries that plans have handed out, with how to answer them."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Query, Shape]] = {}

    def find(self, text: str) -> tuple[Query, Shape]:
        """The query and the shape of its rows: a rewritten one as handed out, any other as parsed."""
        if text in self._known:
            return self._known[text]
        query = parse(text)
        return query, projection(query)

    def plan(self, text: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """The query plan, as the gateway gives it."""
        query = parse(text)
        offset = count(query.offset, parameters, query)
        limit = count(query.limit, parameters, query)
        return {
            "partitionedQueryExecutionInfoVersion": 2,
            "queryInfo": {
                "distinctType": "None",
                "top": count(query.top, parameters, query),
                "offset": offset,
                "limit": limit,
                "orderBy": ["Descending" if key.descending else "Ascending" for key in query.order],
                "orderByExpressions": [_path(query, key.path) for key in query.order],
                "groupByExpressions": [],
                "groupByAliases": [],
                "aggregates": ["Count"] if query.select == "count" else [],
                "groupByAliasToAggregateType": {},
                "rewrittenQuery": self._rewrite(query, parameters, offset, limit),
                "hasSelectValue": query.select in ("count", "value"),
                "dCountInfo": None,
                "hasNonStreamingOrderBy": False,
            },
            "queryRanges": [{"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}],
            "hybridSearchQueryInfo": None,
        }

    def refuse_across(self, text: str, query: Query, parameters: dict[str, Any]) -> None:
        """Refuse a query that the gateway can't pass from range to range."""
        if not needs_merge(query):
            return
        raise CosmosError(
            400,
            "The provided cross partition query can not be directly served by the gateway. This is a first chance "
            "(internal) exception that all newer clients will know how to handle gracefully. "
            f"Query: {text}",
            substatus=CROSS_PARTITION_QUERY_NOT_SERVABLE,
            extra={"additionalErrorInfo": json.dumps(self.plan(text, parameters))},
        )

    def _rewrite(self, query: Query, parameters: dict[str, Any], offset: int | None, limit: int | None) -> str:
        alias, tail = query.alias, _clause(query.text, "WHERE")
        if query.select == "count":
            text = f'SELECT VALUE [{{"item": COUNT(1)}}] FROM {alias}{tail}'
            self._known[text] = (query, Shape(projection(query).row, lambda found: [{"item": found}]))
            return text
        if not query.order and offset is None:
            return ""
        window = _window(query, parameters, offset, limit)
        bounded = Query(query.text, alias, query.select, query.columns, None, query.where, query.order, None, window)
        top = f"TOP {window} " if query.top is not None and window is not None else ""
        ending = f" OFFSET 0 LIMIT {window}" if window is not None and not top else ""
        if not query.order:
            text = f"SELECT {top}{_list(query)} FROM {alias}{tail}{ending}"
            self._known[text] = (bounded, projection(query))
            return text
        keys = ", ".join(f'{{"item": {_path(query, key.path)}}}' for key in query.order)
        order = ", ".join(_path(query, k.path) + (" DESC" if k.descending else "") for k in query.order)
        where = f" WHERE ({tail.strip().removeprefix('WHERE ')}) AND {_FILTER}" if tail else f" WHERE ({_FILTER})"
        text = (
            f"SELECT {top}{alias}._rid, [{keys}] AS orderByItems, {_payload(query)} AS payload "
            f"FROM {alias}{where} ORDER BY {order}{ending}"
        )
        self._known[text.replace(_FILTER, "true")] = (bounded, _merge_rows(query))
        return text


def needs_merge(query: Query) -> bool:
    return bool(query.order) or query.select == "count" or query.top is not None or query.offset is not None


def check_features(query: Query, offered: str | None) -> None:
    """Refuse a plan for a client that can't carry it out."""
    features = {feature.strip() for feature in (offered or "").split(",")}
    needed = {
        "Aggregate": query.select == "count",
        "OrderBy": bool(query.order),
        "MultipleOrderBy": len(query.order) > 1,
        "Top": query.top is not None,
        "OffsetAndLimit": query.offset is not None,
    }
    lacking = [feature for feature, is_needed in needed.items() if is_needed and feature not in features]
    if lacking:
        raise bad_request(
            f"Query contains 1 or more unsupported features. Query contained {', '.join(lacking)}, which the calling "
            f"client does not support. Query: {query.text}"
        )


def _merge_rows(query: Query) -> Shape:
    payload_of = projection(query).row

    def row(document: Document) -> Any:
        payload = payload_of(document)
        if payload is UNDEFINED:
            return UNDEFINED
        values = [resolve(key.path, document.body) for key in query.order]
        return {
            "_rid": document.body["_rid"],
            "orderByItems": [{} if value is UNDEFINED else {"item": value} for value in values],
            "payload": payload,
        }

    return Shape(row)


def _window(query: Query, parameters: dict[str, Any], offset: int | None, limit: int | None) -> int | None:
    top = count(query.top, parameters, query)
    if top is not None:
        return top
    return None if limit is None else (offset or 0) + limit


def _clause(text: str, keyword: str) -> str:
    """The text of the filter, from its keyword to the next clause."""
    found = [token for token in tokens(text) if token.kind == "keyword"]
    begin = next((token.start for token in found if token.text == keyword), None)
    if begin is None:
        return ""
    after = [t.start for t in found if t.start > begin and t.text in ("ORDER", "OFFSET")]
    return f" WHERE {text[begin + len(keyword) : min(after, default=len(text))].strip()}"


def _path(query: Query, path: Path) -> str:
    parts = [f".{s}" if isinstance(s, str) and s.isidentifier() else f"[{wire.dumps(s)}]" for s in path.segments]
    return query.alias + "".join(parts)


def _list(query: Query) -> str:
    if query.select == "*":
        return "*"
    if query.select == "value":
        return f"VALUE {_path(query, query.columns[0][1])}"
    return ", ".join(f"{_path(query, path)} AS {name}" for name, path in query.columns)


def _payload(query: Query) -> str:
    if query.select == "*":
        return query.alias
    if query.select == "value":
        return _path(query, query.columns[0][1])
    return "{" + ", ".join(f"{wire.dumps(name)}: {_path(query, path)}" for name, path in query.columns) + "}"
