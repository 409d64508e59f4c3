"""`make chaos`: hosts, stores and disks fail while thousands of executions run; then everything is checked."""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.verification.chaos.faults import ROUNDS, Times
from tests.verification.chaos.run import Options, Report, run

SHOWN, WIDTH = 20, 400
"""Problems to print, and characters of each."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 if everything is as it should be."""
    parser = argparse.ArgumentParser("python -m tests.verification.chaos", description=__doc__)
    parser.add_argument("--store", choices=tuple(ROUNDS), action="append", help="only there (both)")
    parser.add_argument("--seconds", type=float, default=300, help="about how long, in all (%(default)g)")
    parser.add_argument(
        "--executions", type=int, default=800, help="on each store, beside about twice as many children (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the load and the faults (%(default)s)")
    parser.add_argument("--keep", type=Path, help="a new folder for the logs and ledgers, kept")
    options = parser.parse_args(arguments)
    logging.getLogger("azure").setLevel(logging.WARNING)
    stores = options.store or tuple(ROUNDS)
    reports = []
    for store in stores:
        folder = options.keep / store if options.keep else Path(tempfile.mkdtemp(prefix=f"chaos-{store}-"))
        folder.mkdir(parents=True, exist_ok=not options.keep)  # ledgers are only ever added to
        seconds = max(options.seconds / len(stores) - OVERHEAD, 10)
        each = Options(store, seconds, options.executions, TIMES, GRACE, ROUNDS[store], seed=options.seed)
        reports.append(asyncio.run(run(each, folder)))
        sys.stdout.write(table(reports[-1]))
        if options.keep or reports[-1].findings.problems:
            sys.stdout.write(f"  logs and ledgers: {folder}\n")
        else:
            shutil.rmtree(folder)
        sys.stdout.flush()
    return 1 if any(report.findings.problems for report in reports) else 0


TIMES = Times(between=1, lease=4, away=30, full=10, storm=15)
GRACE = 4.0
OVERHEAD = 70.0
"""Seconds for each store beside the load and the faults: the hosts that are told to stop, what is to settle afterwards,
and the checks."""


def table(report: Report) -> str:
    """The summary of one store's run."""
    findings = report.findings
    lines = [f"\n{report.options.store}, seed {report.options.seed}, {report.seconds:.0f} s"]
    for title, counts in (("load", report.load), ("faults", report.faults), ("checked", findings.counts)):
        lines += [
            f"  {title if not row else '':<8} {count:>8,}  {name}"
            for row, (name, count) in enumerate(sorted(counts.items()))
        ]
    lines += [f"  WRONG    {problem[:WIDTH]}" for problem in findings.problems[:SHOWN]]
    lines.append(
        f"  {len(findings.problems)} problems" if findings.problems else "  nothing lost, nothing doubled, no one stuck"
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
