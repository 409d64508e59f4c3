"""So much of KQL as the alerts on log lines use: `extend` with the line's fields, and `where` over them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]

_FIELDS = "fields = iff(isempty(tostring(customDimensions.notice)), parse_json(message), customDimensions)"
_NUMBER = re.compile(r"toreal\(fields\.(\w+)\) > (\d+)")
_TEXT = re.compile(r"fields\.(\w+) (==|!=) '(\w+)'")


def select(query: str, rows: Iterable[Row]) -> list[Row]:
    """The rows of `traces` that a query gives. A row has `message` and `customDimensions`. Raises ValueError for what
    is not known here."""
    table, *steps = [line.strip() for line in query.strip().splitlines()]
    if table != "traces":
        raise ValueError(f"{table} has no messages")
    found = list(rows)
    for step in steps:
        verb, _, rest = step.removeprefix("| ").partition(" ")
        if (verb, rest) == ("extend", _FIELDS):
            found = [row | {"fields": row["customDimensions"] or _parsed(row["message"])} for row in found]
        elif verb == "where":
            for condition in rest.split(" and "):
                found = [row for row in found if _holds(condition, row["fields"])]
        else:
            raise ValueError(f"{step} is not known here")
    return found


def fields_asked(query: str) -> set[str]:
    """The fields that a query asks for, besides `notice`."""
    return set(re.findall(r"fields\.(\w+)", query)) - {"notice"}


def _holds(condition: str, fields: Row) -> bool:
    if (found := _TEXT.fullmatch(condition)) is not None:
        # A field that isn't there equals no text, and differs from none either.
        name, operator, text = found.groups()
        return name in fields and (str(fields[name]) == text) is (operator == "==")
    if (found := _NUMBER.fullmatch(condition)) is not None:
        return found[1] in fields and float(fields[found[1]]) > float(found[2])
    raise ValueError(f"{condition} is not known here")


def _parsed(message: str) -> Row:
    """`parse_json`: text that isn't JSON, or isn't an object, has no fields."""
    try:
        value = json.loads(message)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
