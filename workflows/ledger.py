"""What the examples do to the outside world: a line in a small SQLite file for each side effect.

It keeps every line that it is given, so that an effect that happened twice, or never, shows. `LEDGER_FILE` names the
file (`workflows-ledger.sqlite` in the system's folder for temporary files).
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from engine import activity

_SCHEMA = """
CREATE TABLE IF NOT EXISTS effects (
    at TEXT NOT NULL, execution TEXT NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, what TEXT NOT NULL
)
"""


def note(what: str) -> str:
    """Write down that the activity that runs here did `what`. Returns the reference of that effect."""
    info = activity.info()
    path = Path(os.environ.get("LEDGER_FILE") or Path(tempfile.gettempdir()) / "workflows-ledger.sqlite")
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as db:
        db.execute(_SCHEMA)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        db.execute(
            "INSERT INTO effects VALUES (?, ?, ?, ?, ?)", (now, info.execution_id, info.step, info.attempt, what)
        )
    return info.idempotency_key
