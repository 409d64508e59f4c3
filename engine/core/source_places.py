"""Where an object is declared in the author's source, as in `orders.py:12`."""

from __future__ import annotations

import inspect

_NOT_THE_AUTHORS = {"engine", "typing"}


def declared_at() -> str:
    """The file and line of the nearest caller outside the engine."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _NOT_THE_AUTHORS:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "?"


def class_place(kind: type) -> str:
    """The file and line of a class. Its full name, if its source isn't there."""
    try:
        return f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}"
    except (OSError, TypeError):
        return f"{kind.__module__}.{kind.__qualname__}"
