"""The key for HTTP functions that aren't anonymous."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path


def local_key(path: Path | None) -> str:
    """Returns the key in the file `path`. Creates a missing file with a new key. For None, returns a new key that no
    file keeps.

    Only the file's owner may read the file. Hosts that start at the same time agree on one key. Raises OSError.
    """
    if path is None:
        return _new_key()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # A complete file is linked into place, so no host reads half a key.
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
