"""The rules for names of workflows, steps and executions, and how names become ids."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

MAX_NAME = 200
"""The most characters in the name of a workflow, an activity or a deferred."""
MAX_KEY = 100
"""The most characters of a key of a channel's value in a document's id."""
MAX_QUOTED_NAME = 900
"""The most characters of such a name in a document's id, which may have 1,023 bytes."""


def execution_id(workflow: str, key: str) -> str:
    """The first 16 bytes, in hex, of SHA-256 of `<workflow>-<idempotency key>`."""
    return hashlib.sha256(f"{workflow}-{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_execution_id(text: str) -> bool:
    """Whether `text` has the form of an execution's id."""
    return re.fullmatch(r"[0-9a-f]{32}", text) is not None


def is_workflow_name(text: str) -> bool:
    """Whether `text` may name a workflow."""
    return re.fullmatch(r"[\w.]+", text) is not None


def checked_name(name: str, what: str, numbered: bool = True) -> str:
    """Returns `name` if it may name a step. Raises ValueError with the rule otherwise. `numbered`: there may be several
    such steps, so the name must not contain "#"."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise ValueError(f"the name of a {what} is 1 to {MAX_NAME} printable characters, not {name!r}")
    if len(quote(name, safe="")) > MAX_QUOTED_NAME:
        raise ValueError(f"the name of a {what} has at most {MAX_QUOTED_NAME} characters in its quoted form: {name!r}")
    if numbered and "#" in name:
        raise ValueError(f"the name of a {what} may not contain '#', which numbers its calls: {name!r}")
    return name


def short_key(key: str) -> str:
    """What stands for a key in a document's id, which has room for so much only."""
    quoted = quote(key, safe="", errors="surrogatepass")
    return key if len(quoted) <= MAX_KEY else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
