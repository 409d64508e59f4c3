"""How recordings and golden documents are laid out: one document a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def laid_out(data: dict[str, Any]) -> str:
    """The text of a file. Tracebacks name the engine's files as they are in `/app`, wherever they are here."""
    return ("{\n" + ",\n".join(f"{_text(key)}: {_value(value)}" for key, value in data.items()) + "\n}\n").replace(
        str(ROOT), "/app"
    )


def _value(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(f" {_text(item)}" for item in value) + "\n]"
    return _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
