"""`python -m engine.store.cosmos init` makes the database and its containers."""

from __future__ import annotations

import sys

from engine.store.cosmos.init import main

sys.exit(main(sys.argv[1:]))
