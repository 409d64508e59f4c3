"""The key that guards HTTP functions which aren't anonymous."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path


def local_key(path: Path | None) -> str:
    """The key in the file `path`, which is made with a new key if it is missing; without a file, a new key.

    Only the file's owner may read it. Hosts that start at once agree on one key. Raises OSError.
    """
    if path is None:
        return _new_key()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Linked into place when it is complete: nobody ever reads half a key.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(_new_key() + "\n")
            with contextlib.suppress(FileExistsError):
                os.link(name, path)
        finally:
            os.unlink(name)
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return path.read_text("ascii").strip()


def _new_key() -> str:
    return secrets.token_urlsafe(32)
