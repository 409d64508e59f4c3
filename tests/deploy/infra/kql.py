"""So much of KQL as the alerts use: `where` over messages, `parse`, and comparisons of what was parsed."""

from __future__ import annotations

import re
from typing import Any

Row = dict[str, Any]


def select(query: str, messages: list[str]) -> list[Row]:
    """The rows of `traces` with these messages that a query gives. Raises ValueError for what is not known here."""
    table, *steps = [line.strip() for line in query.strip().splitlines()]
    if table != "traces":
        raise ValueError(f"{table} has no messages")
    rows: list[Row] = [{"message": message} for message in messages]
    for step in steps:
        verb, _, rest = step.removeprefix("| ").partition(" ")
        if verb == "where":
            for condition in re.split(r" and (?=\w+ )", rest):
                rows = [row for row in rows if _holds(condition, row)]
        elif verb == "parse":
            rows = [row | _parsed(rest, row) for row in rows]
        else:
            raise ValueError(f"{verb} is not known here")
    return rows


def _holds(condition: str, row: Row) -> bool:
    if (found := re.fullmatch(r"(\w+) (!?)has '(.+)'", condition)) is not None:
        column, negated, words = found.groups()
        # Whole words, whatever their case.
        there = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", row[column], re.IGNORECASE)
        return (there is None) == bool(negated)
    if (found := re.fullmatch(r"(\w+) matches regex '(.+)'", condition)) is not None:
        return re.search(found[2], row[found[1]]) is not None
    if (found := re.fullmatch(r"(\w+) > (\d+)", condition)) is not None:
        return row[found[1]] is not None and float(row[found[1]]) > float(found[2])
    raise ValueError(f"{condition} is not known here")


def _parsed(rest: str, row: Row) -> Row:
    found = re.fullmatch(r"(\w+) with \* '(.+)' (\w+):double '(.+)'", rest)
    if found is None:
        raise ValueError(f"parse {rest} is not known here")
    column, before, name, behind = found.groups()
    number = re.search(rf"{re.escape(before)}(-?[\d.]+){re.escape(behind)}", row[column])
    return {name: float(number[1]) if number else None}
