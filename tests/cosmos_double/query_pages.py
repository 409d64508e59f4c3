"""Running a query over documents, one page at a time.

1. A page has at most `size` items (-1: as many as fit) and 4 MB.
2. A continuation token says after which item to go on, how much of OFFSET is still to skip and of TOP or LIMIT
   to take. It belongs to its query: with another query it is a 400.
3. Order without ORDER BY is the order of hashes: not the order of insertion, and not to be relied on.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any

from . import wire
from .epk import UNDEFINED
from .errors import CosmosError, bad_request
from .indexing import IndexingPolicy, Segments
from .query_eval import Scope, evaluate, resolve, sort_value
from .query_parser import Among, Both, Compare, Count, Either, Expression, Function, Not, Parameter, Path, Query
from .state import Document

MAX_PAGE_BYTES = 4 * 1024 * 1024
_HEADROOM = 64 * 1024  # for the envelope


@dataclass(frozen=True, slots=True)
class Shape:
    """What the answer holds: a row for each document (UNDEFINED for none), or a total."""

    row: Callable[[Document], Any]
    total: Callable[[int], Any] = lambda found: found


@dataclass(slots=True)
class Page:
    """A page of an answer. `looked_at` and `bytes_looked_at` are what it is charged for."""

    items: list[Any]
    after: list[Any] | None  # the last item's place; None when the query is done
    skip: int = 0
    take: int | None = None
    looked_at: int = 0
    bytes_looked_at: int = 0

    def look_at(self, documents: list[Document]) -> None:
        """Charge for having loaded these."""
        self.looked_at += len(documents)
        self.bytes_looked_at += sum(document.size for document in documents)


@dataclass(slots=True)
class Position:
    """Where a query goes on."""

    after: list[Any] | None = None
    skip: int = 0
    take: int | None = None
    range_minimum: str = field(default="")


def bind(parameters: Any) -> dict[str, Any]:
    """The parameters of a query body."""
    if parameters is None:
        return {}
    bound: dict[str, Any] = {}
    for given in parameters if isinstance(parameters, list) else [None]:
        entry: dict[str, Any] = given if isinstance(given, dict) else {}
        name = entry.get("name")
        if not isinstance(name, str) or not name.startswith("@") or len(name) < 2:
            raise bad_request(
                "Parameter names should be in the format of symbol '@' followed by a valid identifier; "
                f"this one is {name!r}."
            )
        if name in bound:
            raise bad_request(f"Specified duplicate parameter name {name!r}.")
        bound[name] = entry.get("value", UNDEFINED)
    return bound


def count(value: Count | None, parameters: dict[str, Any], query: Query) -> int | None:
    """The number that TOP, OFFSET or LIMIT means."""
    if not isinstance(value, Parameter):
        return value
    bound = parameters.get(value.name, UNDEFINED)
    if type(bound) is not int or bound < 0:
        raise bad_request(f"The parameter {value.name} of TOP, OFFSET or LIMIT is no whole number: {query.text}")
    return bound


def start(query: Query, parameters: dict[str, Any]) -> Position:
    take = query.top if query.top is not None else query.limit
    return Position(None, count(query.offset, parameters, query) or 0, count(take, parameters, query))


def check_order(query: Query, indexing: IndexingPolicy) -> None:
    """Refuse an ORDER BY that no index serves."""
    if not query.order:
        return
    reason = indexing.refuse_order([(_names(key.path), key.descending) for key in query.order])
    if reason is not None:
        raise CosmosError(400, f"{reason} Query: {query.text}", detail=[{"message": f"{reason} {query.text}"}])


def page(
    query: Query,
    parameters: dict[str, Any],
    documents: Iterable[Document],
    indexing: IndexingPolicy,
    position: Position,
    size: int,
    shape: Shape,
) -> Page:
    """The page of a query's answer that begins at a position."""
    everything = [(d, query.where is None or _is_match(query.where, d, parameters)) for d in documents]
    result = Page([], None, position.skip, position.take)
    if query.where is None or _is_indexed(query.where, indexing):
        everything = [(document, matches) for document, matches in everything if matches]
    if query.select == "count":
        result.look_at([document for document, _ in everything])
        result.items = [shape.total(sum(matches for _, matches in everything))]
        return result
    places = sorted(((_place(query, d), d, matches) for d, matches in everything), key=_sort_key(query))
    if position.after is not None:
        places = [entry for entry in places if _compare(query, entry[0], position.after) > 0]
    if size == 0 and places:  # a page may be empty and yet not the last
        result.after = position.after or []
        return result
    used = 0
    for place, document, matches in places:
        if result.take == 0:
            break
        item = shape.row(document) if matches else UNDEFINED
        if item is not UNDEFINED and not result.skip:
            used += wire.size(item) + 1
            if result.items and (len(result.items) == size or used > MAX_PAGE_BYTES - _HEADROOM):
                return result
            result.items.append(item)
            if result.take is not None:
                result.take -= 1
        elif item is not UNDEFINED:
            result.skip -= 1
        result.look_at([document])
        result.after = place
    result.after = None
    return result


def projection(query: Query) -> Shape:
    """What the query's own SELECT makes of a document."""

    def row(document: Document) -> Any:
        if query.select == "*":
            return dict(document.body)
        if query.select == "value":
            return resolve(query.columns[0][1], document.body)
        values = ((name, resolve(path, document.body)) for name, path in query.columns)
        return {name: value for name, value in values if value is not UNDEFINED}

    return Shape(row)


def encode(query_text: str, parameters: dict[str, Any], position: Position) -> str:
    """A continuation token."""
    content = {
        "q": _fingerprint(query_text, parameters),
        "a": position.after,
        "s": position.skip,
        "t": position.take,
        "r": position.range_minimum,
    }
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


def decode(token: str, query_text: str, parameters: dict[str, Any]) -> Position:
    """The position that a token of this very query stands for."""
    try:
        content = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
        position = Position(content["a"], content["s"], content["t"], content["r"])
        fingerprint = content["q"]
    except (binascii.Error, ValueError, KeyError, TypeError):
        raise bad_request("Invalid Continuation Token") from None
    if fingerprint != _fingerprint(query_text, parameters):
        raise bad_request(f"Invalid Continuation Token: it belongs to another query than: {query_text}")
    return position


def _fingerprint(query_text: str, parameters: dict[str, Any]) -> int:
    shown = {name: repr(value) for name, value in parameters.items()}
    return zlib.crc32(json.dumps([query_text, shown], sort_keys=True).encode())


def _is_match(where: Expression, document: Document, parameters: dict[str, Any]) -> bool:
    return evaluate(where, Scope(document.body, parameters)) is True


def _place(query: Query, document: Document) -> list[Any]:
    keys = [sort_value(resolve(key.path, document.body)) for key in query.order]
    return [*keys, list(document.order)]


def _sort_key(query: Query) -> Callable[[tuple[list[Any], Document, bool]], Any]:
    return cmp_to_key(lambda left, right: _compare(query, left[0], right[0]))


def _compare(query: Query, left: list[Any], right: list[Any]) -> int:
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            sign = 1 if one > other else -1
            return -sign if index < len(query.order) and query.order[index].descending else sign
    return len(left) - len(right)


def _names(path: Path) -> Segments:
    return tuple(str(segment) for segment in path.segments)


def _is_indexed(expression: Expression, indexing: IndexingPolicy) -> bool:
    """Whether the index finds the matches; otherwise the query loads, and pays for, every item."""
    match expression:
        case Both(operands):
            return any(_is_indexed(operand, indexing) for operand in operands)
        case Either(operands):
            return all(_is_indexed(operand, indexing) for operand in operands)
        case Not(operand):
            return _is_indexed(operand, indexing)
        case Compare(_, left, right):
            return all(_is_indexed(side, indexing) for side in (left, right))
        case Among(operand, _):
            return _is_indexed(operand, indexing)
        case Function(_, arguments):
            return all(_is_indexed(argument, indexing) for argument in arguments)
        case Path():
            return indexing.is_indexed(tuple("[]" if isinstance(s, int) else s for s in expression.segments))
        case _:
            return True
