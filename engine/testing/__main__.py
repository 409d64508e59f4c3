"""`python -m engine.testing MODULE RECORDING…`: checks that recordings still replay with a module's WORKFLOWS."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from engine.ground.errors import Fault, UnknownWorkflow
from engine.guard.modules import Unreadable, workflows_of
from engine.testing.replayer import NoRecording, replay

USAGE = "usage: python -m engine.testing MODULE RECORDING [RECORDING …]\n"


def main(arguments: Sequence[str]) -> int:
    """Replay recordings against the WORKFLOWS of a module. Returns the exit code: 0 if all replay, 1 if one no longer
    replays, 2 if a module or file can't be read."""
    if len(arguments) < 2:
        sys.stderr.write(USAGE)
        return 2
    try:
        workflows = workflows_of(arguments[0])
        recordings = [(name, Path(name).read_text()) for name in arguments[1:]]
    except (Unreadable, OSError) as problem:
        sys.stderr.write(f"{problem}\n{USAGE}")
        return 2
    failures = 0
    for name, recording in recordings:
        try:
            replayed = replay(recording, workflows)
        except (Fault, UnknownWorkflow, NoRecording) as problem:
            failures += 1
            sys.stdout.write(f"{name}: {type(problem).__name__}: {problem}\n")
        else:
            where = replayed.outcome.kind if replayed.outcome else f"waits for {', '.join(replayed.waiting)}"
            sys.stdout.write(f"{name}: replays, {where}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
