"""`python -m engine.guard MODULE…`: report code in a module's workflows that a replay can't repeat."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from engine.guard import check
from engine.guard.modules import Unreadable, workflows_of

USAGE = "usage: python -m engine.guard MODULE [MODULE …], each with a WORKFLOWS list\n"


def main(arguments: Sequence[str]) -> int:
    """Check the WORKFLOWS of the named modules. Returns the exit code: 0 without findings, 1 with findings, 2 if a
    module can't be read."""
    if not arguments:
        sys.stderr.write(USAGE)
        return 2
    try:
        found = [finding for name in arguments for finding in check(workflows_of(name))]
    except Unreadable as problem:
        sys.stderr.write(f"{problem}\n{USAGE}")
        return 2
    for finding in found:
        sys.stdout.write(f"{finding}\n")
    sys.stdout.write(f"{len(found)} finding{'' if len(found) == 1 else 's'}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
