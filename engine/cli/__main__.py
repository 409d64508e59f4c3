"""`python -m engine.cli` is `durable`, for a source tree that isn't installed."""

from __future__ import annotations

from engine.cli import main

main()
