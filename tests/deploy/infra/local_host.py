"""The app on the local host, in a process of its own: what stands in for a deployed app."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.infra.code import ROOT


@dataclass(frozen=True)
class Address:
    """Where its functions are, and the key that they ask for."""

    url: str
    key: str


@contextlib.contextmanager
def local_host(folder: Path, *options: str, **settings: str) -> Iterator[Address]:
    """Serves the app until the block ends, with its files in that folder. `options` are further ones of the command."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COSMOS", "ENGINE_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "devhost", "--port", "0", "--data", str(folder / "data.sqlite"), *options],
        cwd=ROOT,
        env=kept | {"LEDGER_FILE": str(folder / "ledger.sqlite")} | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        banner = ""
        for line in process.stdout:
            banner += line
            if (key := re.search(r"key +(\S+) \(header", line)) is not None:
                break
        else:
            raise AssertionError(f"the local host ended: {banner}")
        address = re.search(r"http://[\w.]+:\d+", banner)
        assert address is not None
        yield Address(f"{address[0]}/api", key[1])
    finally:
        process.terminate()
        process.communicate()
