"""Log lines as JSON on stderr, with their fields.

The Functions host passes on only the text of a log line, and drops lines that are written while no invocation runs. It
keeps every line on stderr. So warnings, errors and notices also go there, each as one line of JSON, which a query can
take apart.
"""

from __future__ import annotations

import json
import logging
import math

MAX_CHARACTERS = 8_000
"""Longer texts lose their middle. Application Insights cuts a message at 32,768 characters, and a cut line can't be
read."""
_OWN = frozenset({*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"})
"""What every record has. Everything else is a field."""


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: `level`, `logger`, `message`, the record's fields, and `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            **{name: value for name, value in record.__dict__.items() if name not in _OWN},
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps({name: _short(value) for name, value in line.items()}, ensure_ascii=False)


def keep_on_stderr(logger: logging.Logger) -> None:
    """Write a logger's warnings, errors and notices to stderr as JSON. A second call changes nothing."""
    if any(isinstance(handler.formatter, JsonLines) for handler in logger.handlers):
        return
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    handler.addFilter(_is_kept)
    logger.addHandler(handler)


def _is_kept(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or hasattr(record, "notice")


def _short(value: object) -> str | float | bool | None:
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    text, half = str(value), MAX_CHARACTERS // 2
    return text if len(text) <= MAX_CHARACTERS else f"{text[:half]} … {text[-half:]}"
