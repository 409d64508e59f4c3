"""`python -m engine.testing MODULE RECORDING…`: do recorded histories still replay with the WORKFLOWS of a module?"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.errors import Fault, UnknownWorkflow
from engine.testing.replayer import replay


def main(arguments: Sequence[str]) -> int:
    """Replay recordings against the WORKFLOWS of a module. Returns the exit code: 1 if one no longer replays."""
    if len(arguments) < 2:
        sys.stderr.write("usage: python -m engine.testing MODULE RECORDING [RECORDING …]\n")
        return 2
    sys.path.insert(0, "")
    workflows = importlib.import_module(arguments[0]).WORKFLOWS
    failures = 0
    for name in arguments[1:]:
        try:
            replayed = replay(Path(name).read_text(), workflows)
        except (Fault, UnknownWorkflow) as problem:
            failures += 1
            sys.stdout.write(f"{name}: {type(problem).__name__}: {problem}\n")
        else:
            where = replayed.outcome.kind if replayed.outcome else f"waits for {', '.join(replayed.waiting)}"
            sys.stdout.write(f"{name}: replays, {where}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
