"""Search the model: `python -m tests.verification.model [--without GUARD]... [--program NAME]... [--faults N]`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.verification.model.guards import GUARDS
from tests.verification.model.programs import PROGRAMS
from tests.verification.model.search import FAULTS, search


def main() -> int:
    guards = "\n".join(f"  {name:<20}{guard.rule} ({guard.place})" for name, guard in GUARDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.verification.model",
        description="Search every state that the protocol can reach.",
        epilog=f"guards:\n{guards}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--without", action="append", default=[], choices=list(GUARDS), metavar="GUARD")
    parser.add_argument("--program", action="append", default=[], choices=list(PROGRAMS))
    parser.add_argument("--faults", type=int, default=FAULTS, help=f"faults in one run, {FAULTS} unless told")
    options = parser.parse_args()
    begun = time.perf_counter()
    found = search(options.without, options.faults, options.program or tuple(PROGRAMS))
    for number, step in enumerate(found.trace, 1):
        print(f"{number:>4}. {step}")
    if found.trace:
        print()
    took = time.perf_counter() - begun
    print(f"{found.states:,} states, {found.transitions:,} transitions, {took:.1f} s: {found.wrong or 'nothing wrong'}")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
