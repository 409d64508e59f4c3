"""Tokens of the query dialect."""

import json
import re
from dataclasses import dataclass
from typing import Any

from . import wire
from .errors import CosmosError

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "SELECT TOP DISTINCT VALUE FROM AS WHERE AND OR NOT IN BETWEEN LIKE ESCAPE EXISTS JOIN GROUP ORDER BY "
        "ASC DESC OFFSET LIMIT TRUE FALSE NULL UNDEFINED UDF",
    )
)

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<parameter>@[A-Za-z_]\w*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<symbol><=|>=|!=|<>|[=<>()\[\],.*-])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token: `kind` is keyword, name, number, string, parameter, symbol or end."""

    kind: str
    text: str
    value: Any
    start: int
    end: int


def syntax_error(query: str, start: int, end: int, code: str, reason: str) -> CosmosError:
    """400 as the service words it, with the query's text so that the test that wrote it can see it."""
    message = f"{reason} Query: {query}"
    detail = {
        "severity": "Error",
        "location": {"start": start, "end": end},
        "code": code,
        "message": message,
    }
    return CosmosError(400, message, detail=[detail])


def tokens(query: str) -> list[Token]:
    """All tokens, the end among them; keywords in upper case."""
    found = []
    position = 0
    while position < len(query):
        match = _TOKEN.match(query, position)
        if match is None:
            reason = f"Syntax error, invalid token {query[position]!r}."
            raise syntax_error(query, position, position + 1, "SC1010", reason)
        kind, text = str(match.lastgroup), match.group()
        if kind != "space":
            found.append(_token(query, kind, text, position, match.end()))
        position = match.end()
    found.append(Token("end", "", None, len(query), len(query)))
    return found


def _token(query: str, kind: str, text: str, start: int, end: int) -> Token:
    if kind == "name" and text.upper() in KEYWORDS:
        return Token("keyword", text.upper(), None, start, end)
    if kind == "number":
        return Token(kind, text, wire.number(float(text)), start, end)
    if kind == "string":
        return Token(kind, text, _unquote(query, text, start, end), start, end)
    return Token(kind, text, text, start, end)


def _unquote(query: str, text: str, start: int, end: int) -> str:
    inner = text[1:-1]
    if text[0] == "'":
        inner = inner.replace("\\'", "'").replace('"', '\\"')
    try:
        return str(json.loads(f'"{inner}"', strict=False))
    except ValueError:
        reason = f"Syntax error, invalid string literal token {text}."
        raise syntax_error(query, start, end, "SC1012", reason) from None
