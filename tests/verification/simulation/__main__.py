"""`python -m tests.verification.simulation SEED`: replay a seed, with its trace. `--soak`: play seeds until stopped."""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import math
import sys
import time
from collections.abc import Sequence

from tests.verification.simulation.faults import THEMES
from tests.verification.simulation.run import simulate

BATCH = 20
"""Seeds that a process plays before it reports."""


def play(seeds: Sequence[int]) -> tuple[int, list[tuple[int, str]]]:
    """Play seeds. Returns the number of requests, and those that failed with the reason."""
    requests, failed = 0, []
    for seed in seeds:
        run = simulate(seed)
        requests += run.world.requests
        if run.violation is not None:
            failed.append((seed, f"{type(run.violation).__name__}: {run.violation}"))
    return requests, failed


def soak(first: int, jobs: int, seconds: float) -> int:
    """Play seeds from `first` on, for so many seconds or until stopped. Returns the exit code."""
    begun, seeds, requests, failures = time.monotonic(), 0, 0, 0
    batches = (range(at, at + BATCH) for at in itertools.count(first, BATCH))
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        running = {pool.submit(play, batch) for batch in itertools.islice(batches, jobs * 2)}
        said = "no seeds"
        try:
            while running:
                done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    sent, failed = future.result()
                    seeds, requests, failures = seeds + BATCH, requests + sent, failures + len(failed)
                    for seed, reason in failed:
                        print(f"\nseed {seed}: {reason}", flush=True)
                    if time.monotonic() < begun + seconds:
                        running.add(pool.submit(play, next(batches)))
                rate = seeds / (time.monotonic() - begun)
                said = f"{seeds} seeds, {requests} requests, {failures} failed, {rate:.0f} seeds/s"
                if sys.stdout.isatty():
                    print(f"\r{said} ", end="", flush=True)
        except KeyboardInterrupt:
            for future in running:
                future.cancel()
    print(f"\r{said} " if sys.stdout.isatty() else said)
    return 1 if failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.verification.simulation", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="the seed to replay, or with --soak the first one")
    parser.add_argument("--theme", choices=THEMES, help="the kind of faults, instead of the seed's own")
    parser.add_argument("--soak", action="store_true", help="play seeds from there on until stopped")
    parser.add_argument("--jobs", type=int, default=1, help="processes that play")
    parser.add_argument("--seconds", type=float, default=math.inf, help="how long to soak")
    arguments = parser.parse_args()
    if arguments.soak:
        first = arguments.seed if arguments.seed is not None else int(time.time()) * 1_000
        return soak(first, arguments.jobs, arguments.seconds)
    if arguments.seed is None:
        parser.error("give a seed, or --soak")
    run = simulate(arguments.seed, arguments.theme)
    print(run.report())
    return 1 if run.violation is not None else 0


if __name__ == "__main__":
    sys.exit(main())
