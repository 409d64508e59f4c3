"""A bar chart of the results: CPU for each execution, by case and store."""

from __future__ import annotations

from html import escape
from math import log10
from typing import Any

COLOURS = {"memory": "#4c9f70", "file": "#3a6ea5", "double": "#c8553d"}
ROW, LEFT, WIDTH = 16, 250, 480
LEAST = 0.1
"""Milliseconds at the left end of the scale, which is logarithmic."""


def draw(results: list[dict[str, Any]]) -> str:
    """The chart as SVG."""
    cases = list(dict.fromkeys(one["case"] for one in results))
    most = log10(max(one["cpu_ms"] for one in results) / LEAST)
    parts, y = [_text(8, 16, "CPU of one execution in ms, logarithmic: SQLite in memory, in a file, CosmosStore")], 34
    for case in cases:
        parts.append(_text(8, y + ROW, case))
        for one in (one for one in results if one["case"] == case):
            width = max(1, round(WIDTH * log10(max(one["cpu_ms"], LEAST * 1.05) / LEAST) / most))
            colour = COLOURS[one["store"]]
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{width}" height="{ROW - 3}" fill="{colour}"/>')
            parts.append(_text(LEFT + width + 6, y + ROW - 5, f"{one['cpu_ms']:g} ({one['store']})"))
            y += ROW
        y += ROW // 2
    size = f'width="{LEFT + WIDTH + 150}" height="{y}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return f"{head}{''.join(parts)}</svg>\n"


def _text(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(text)}</text>'
