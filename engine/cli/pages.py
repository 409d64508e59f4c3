"""Reads answers that come in pages, and joins the pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.cli.api import Api


def pages(api: Api, path: str, name: str, query: Mapping[str, str], limit: int, page: int) -> dict[str, Any]:
    """Read pages, and return them as one answer: the first page, with up to `limit` entries in its list `name`, and
    with the continuation of the last page, if any. `page`: how many entries one request may ask for. Raises Refused."""
    entries, first, asked = list[Any](), dict[str, Any](), dict(query)
    while True:
        answer = api.get(path, asked | {"limit": str(min(page, limit - len(entries)))})
        first = first or answer
        entries += answer[name]
        continuation = answer.get("continuation")
        if continuation is None or len(entries) >= limit:
            break
        asked["continuation"] = continuation
    rest = {} if continuation is None else {"continuation": continuation}
    return {field: value for field, value in first.items() if field != "continuation"} | {name: entries} | rest
