"""The filter language of lists, as in `workflow:fulfil tag.customer=ada created>2026-11-01 error:"card declined"`.

    filter  = [ term { space term } ]                   all terms must hold
    term    = [ "-" ] field operator value              "-" negates the term
    operator= ":" | "=" | ">" | ">=" | "<" | "<="       the first two mean the same
    value   = one { "," one }                           any of them; only one after > and <
    one     = text without spaces and commas | "text with \\" and \\\\"

A time is a date (`2026-11-01`, in UTC), a date with a time (`2026-11-01T09:30Z`), or an age (`-90m`, `-24h`, `-7d`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import get_args

from engine.ground.clock import isoformat
from engine.ground.names import is_execution_id
from engine.store.base import Filter
from engine.store.conditions import Condition, Operator, Path
from engine.values.outcome import OutcomeKind

MAX_TERMS = 20
MAX_LENGTH = 1_000
"""The most characters of a filter."""

_TERM = re.compile(r"(?P<minus>-?)(?P<field>[A-Za-z][\w.-]*)(?P<operator>>=|<=|[:=<>])?", re.ASCII)
_ONE = re.compile(r'"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s,"]+)', re.DOTALL)
_AGO = re.compile(r"-(\d{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

_TEXTS: dict[str, Path] = {
    "workflow": ("workflow",),
    "version": ("version",),
    "parent": ("creator",),
}
_PARTS: dict[str, tuple[Path, ...]] = {
    "error": (("error", "type"), ("error", "message"), ("cause", "type"), ("cause", "message")),
}
_TIMES: dict[str, Path] = {
    "created": ("createdAt",),
    "updated": ("updatedAt",),
    "completed": ("completedAt",),
    "due": ("dueAt",),
}
_CHOICES: dict[str, tuple[str, ...]] = {"status": ("running", "complete"), "outcome": get_args(OutcomeKind)}
_STATES: dict[str, tuple[Condition, ...]] = {
    "suspended": (Condition((("suspended",),), "is", (True,)), Condition((("status",),), "is", ("running",))),
    "stuck": (Condition((("cause",),), "there"), Condition((("status",),), "is", ("running",))),
    "interrupted": (Condition((("interrupted",),), "is", (True,)),),
}
"""The values of `is:`, with their conditions."""
FIELDS = ("workflow", "version", "status", "outcome", "is", "id", "parent", "error", "tag.NAME", *_TIMES)
"""The fields that a term may begin with."""


class FilterError(ValueError):
    """A filter that can't be read. `position` is the index (from 0) of the character where it is wrong."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} (at character {position + 1} of the filter)")
        self.position = position


@dataclass(frozen=True)
class Asked:
    """A parsed filter. `slow`: the fields of the filter that no index serves."""

    filter: Filter
    slow: tuple[str, ...]

    @property
    def is_bounded(self) -> bool:
        """Whether no field is slow, or an index limits how many executions are read."""
        return not self.slow or any(condition.narrows for condition in self.filter.conditions)


def parse(text: str, now: datetime) -> Asked:
    """Read a filter. Raises FilterError."""
    if len(text) > MAX_LENGTH:
        raise FilterError(f"a filter may have up to {MAX_LENGTH:,} characters", MAX_LENGTH)
    conditions, slow, position = list[Condition](), dict[str, None](), _skip_space(text, 0)
    for _ in range(MAX_TERMS):
        if position == len(text):
            return Asked(Filter(conditions=tuple(conditions)), tuple(slow))
        field, found, position = _term(text, position, now)
        conditions += found
        if not any(condition.narrows for condition in found):
            slow[field] = None
    if position < len(text):
        raise FilterError(f"a filter may have up to {MAX_TERMS} terms", position)
    return Asked(Filter(conditions=tuple(conditions)), tuple(slow))


def _term(text: str, start: int, now: datetime) -> tuple[str, list[Condition], int]:
    match = _TERM.match(text, start)
    if match is None or match["operator"] is None:
        word = text[start:].split()[0]
        if is_execution_id(word):
            return "id", [_is(("executionId",), (word,))], _skip_space(text, start + len(word))
        raise FilterError(
            f"{word[:40]!r} isn't a term: a term is a field, an operator and a value, such as status:running or "
            'error:"card declined"',
            start,
        )
    values, position = _values(text, match.end())
    field, operator = (
        match["field"].lower() if not match["field"].startswith("tag.") else match["field"],
        match["operator"],
    )
    found = _conditions(field, operator, values, match, now)
    if match["minus"]:
        if len(found) > 1:
            raise FilterError(f"is:{values[0][0]} can't be negated", start)
        found = [Condition(one.paths, one.operator, one.values, negated=True) for one in found]
    return field, found, position


def _conditions(
    field: str, operator: str, values: list[tuple[str, int]], match: re.Match[str], now: datetime
) -> list[Condition]:
    texts = tuple(value for value, _ in values)
    if field in _TIMES:
        return [_time(_TIMES[field], operator, values, match, now)]
    if operator not in (":", "="):
        raise FilterError(f"{field} takes `:`, not `{operator}`, which is for times", match.end("field"))
    if field in _TEXTS:
        return [_is(_TEXTS[field], texts)]
    if field in _PARTS:
        return [Condition(_PARTS[field], "contains", (_only(values, field),))]
    if field in _CHOICES:
        for value, at in values:
            if value not in _CHOICES[field]:
                hint = next((f"; {other}:{value} is there" for other in _CHOICES if value in _CHOICES[other]), "")
                hint = f"; is:{value} is there" if value in _STATES else hint
                raise FilterError(f"{field} must be {' or '.join(_CHOICES[field])}, not {value[:40]!r}{hint}", at)
        return [_is((field,), texts)]
    if field == "is":
        value = _only(values, field)
        if value not in _STATES:
            raise FilterError(f"is: takes {', '.join(_STATES)}, not {value[:40]!r}", values[0][1])
        return list(_STATES[value])
    if field == "id":
        for value, at in values:
            if not is_execution_id(value):
                raise FilterError(f"an execution id has 32 hexadecimal digits, unlike {value[:40]!r}", at)
        return [_is(("executionId",), texts)]
    if field.startswith("tag.") and field != "tag.":
        return [_is(("tags", field.removeprefix("tag.")), texts)]
    raise FilterError(f"there is no field {field[:40]!r}; there are {', '.join(FIELDS)}", match.start("field"))


def _is(path: Path, values: tuple[str, ...]) -> Condition:
    return Condition((path,), "is", values)


def _only(values: list[tuple[str, int]], field: str) -> str:
    if len(values) > 1:
        raise FilterError(f"{field} takes one value", values[1][1])
    return values[0][0]


def _time(path: Path, operator: str, values: list[tuple[str, int]], match: re.Match[str], now: datetime) -> Condition:
    comparisons: dict[str, Operator] = {">": ">", ">=": ">=", "<": "<", "<=": "<="}
    if operator not in comparisons:
        raise FilterError(f"{match['field']} is a time: it takes >, >=, < or <=", match.start("operator"))
    text, at = _only(values, match["field"]), values[0][1]
    return Condition((path,), comparisons[operator], (isoformat(_moment(text, at, now)),))


def _moment(text: str, at: int, now: datetime) -> datetime:
    try:
        if ago := _AGO.fullmatch(text):
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise FilterError(
            f"{text[:40]!r} isn't a time: write 2026-11-01, 2026-11-01T09:30Z, or how long ago, as in -24h", at
        ) from None


def _values(text: str, start: int) -> tuple[list[tuple[str, int]], int]:
    """The values from `start` on, each with its position, and where the next term begins."""
    values, position = list[tuple[str, int]](), start
    while True:
        match = _ONE.match(text, position)
        if match is None:
            what = "the quotation mark isn't closed" if text[position : position + 1] == '"' else "a value is missing"
            raise FilterError(what, position)
        quoted = match["quoted"]
        values.append((match["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL), position))
        position = match.end()
        if text[position : position + 1] != ",":
            break
        position += 1
    following = _skip_space(text, position)
    if following == position < len(text):
        raise FilterError("a space is missing between two terms", position)
    return values, following


def _skip_space(text: str, position: int) -> int:
    return len(text) - len(text[position:].lstrip())
